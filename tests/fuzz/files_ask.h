/* files_ask: sends one file request at a time to the bare server, spelled as the input says, and checks the answer. For
 * fuzz_files.c. */
#pragma once

#include "bare_server.h"
#include "base/base64.h"
#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "base/uri.h"
#include "base/utf8.h"
#include "jail.h"
#include "wire/jsonw.h"

#include <ctype.h>
#include <errno.h>
#include <unistd.h>

#define MESSAGE_MAX (8 * MIB)
#define PATH_BYTES 64   /* the most bytes of a path in a request */
#define REAL_BYTES 2048 /* the most bytes of a path that renames and links have made longer */

/* The last request and its answer, printed when a check fails. */
static struct buf request = BUF_INIT(MESSAGE_MAX), answer = BUF_INIT(MESSAGE_MAX);

NORETURN static void fail(const char *what)
{
        fprintf(stderr, "%s\nrequest: %.*s\nanswer: %.*s\n", what, (int)MIN(request.n, 2000u), request.p,
                (int)MIN(answer.n, 2000u), answer.p);
        abort();
}

#define want(cond) ((cond) ? (void)0 : fail("not so: " #cond))

/* --- the input ---------------------------------------------------------------------------------------------------- */

static struct slice input;

static unsigned next_byte(void)
{
        if (input.n == 0)
                return 0;
        unsigned b = (uint8_t)input.p[0];
        input = slice_from(input.p + 1, input.n - 1);
        return b;
}

static bool next_bit(unsigned *bits)
{
        bool bit = *bits & 1;
        *bits >>= 1;
        return bit;
}

/* --- conversation ------------------------------------------------------------------------------------------------- */

static int to_server, from_server;

static void pipe_open(int fds[2])
{
        must(pipe2(fds, O_CLOEXEC | O_NONBLOCK) == 0);
}

static void server_open(void)
{
        int in[2], out[2];
        bare_server_open();
        pipe_open(in);
        pipe_open(out);
        must(conn_new_stdio(&server.conns, in[0], out[1]) == 0);
        to_server = in[1];
        from_server = out[0];
}

static void server_close(void)
{
        bare_server_drop();
        bare_server_close();
        fd_close(to_server);
        fd_close(from_server);
}

static bool read_answer(void)
{
        char *room;
        must(buf_reserve(&answer, 128 * KIB, &room) == 0);
        ssize_t n = read(from_server, room, 128 * KIB);
        want(n > 0 || errno == EAGAIN);
        if (n > 0)
                buf_commit(&answer, (size_t)n);
        return answer.n > 0 && answer.p[answer.n - 1] == '\n';
}

static void send_line(bool has_answer)
{
        size_t sent = 0;
        bool is_done = false;
        must(buf_append_char(&request, '\n') == 0);
        buf_truncate(&answer, 0);
        for (int rounds = 0; !is_done; rounds++) {
                want(rounds < 10000);
                if (sent < request.n) {
                        ssize_t n = write(to_server, request.p + sent, request.n - sent);
                        sent += n > 0 ? (size_t)n : 0;
                }
                loop_turn(&server.loop, false);
                while (pool_tell(server.pool) || (server.conns.threads && pool_tell(server.conns.threads)))
                        ;
                is_done = has_answer ? read_answer() : sent == request.n;
        }
}

/* The params of the current request, and its answer, which is parsed into the arena. */
static struct jsonw params;
static struct arena arena = ARENA_INIT;
static struct rpc_message reply;

static void ask_begin(const char *method)
{
        buf_truncate(&request, 0);
        jsonw_begin(&params, &request);
        jsonw_object(&params);
        jsonw_member_u64(&params, "id", 1);
        jsonw_member_str(&params, "method", method);
        jsonw_key(&params, "params");
        jsonw_object(&params);
}

/* Sends the request. Returns the code of the error, or 0; then the answer is `reply`. */
static int64_t ask_end(void)
{
        struct json_error why;
        int64_t code = 0;
        jsonw_object_end(&params);
        jsonw_object_end(&params);
        must(jsonw_end(&params) == 0);
        send_line(true);
        arena_release(&arena);
        want(rpc_parse(&arena, slice_from(answer.p, answer.n - 1), &reply, &why) == 0);
        want(reply.kind == RPC_RESPONSE || reply.kind == RPC_ERROR);
        if (reply.kind == RPC_ERROR)
                want(json_i64(&reply.doc, json_get(&reply.doc, reply.error, S("code")), &code) == 0 && code);
        return code;
}

/* Returns the JSON-RPC code for -errno (docs/PROTOCOL.md). */
static int64_t code_of(int r)
{
        switch (-r) {
        case 0:
                return 0;
        case ENOENT:
                return RPC_NOT_FOUND;
        case EINVAL:
        case EACCES:
        case EPERM:
                return RPC_INVALID_REQUEST;
        case ESTALE:
                return RPC_CONFLICT;
        default:
                return RPC_INTERNAL;
        }
}

/* Sends the request, whose answer must agree with the result `r` of the model. Returns true when the request succeeded. */
static bool ask_expecting(int r)
{
        int64_t code = ask_end(), wanted = code_of(r);
        if (code != wanted) {
                fprintf(stderr, "answered %lld, expected %lld (%s)\n", (long long)code, (long long)wanted,
                        errno_name(r));
                fail("other answer than expected");
        }
        return code == 0;
}

static void converse(void)
{
        ask_begin("initialize");
        jsonw_member_str(&params, "clientName", "fuzz");
        want(ask_end() == 0);
        buf_truncate(&request, 0);
        must(buf_append(&request, S("{\"method\":\"initialized\"}")) == 0);
        send_line(false);
}

/* --- what is sent and what comes ---------------------------------------------------------------------------------- */

/* Writes the path in one of many spellings: native or URI, with dots and extra slashes. */
static void write_path(const char *key, const char *path)
{
        _buf_ struct buf text = BUF_INIT(16 * PATH_BYTES);
        unsigned form = next_byte();
        bool is_uri = next_bit(&form) || !utf8_is_valid(slice_from_str(path));
        bool has_end = next_bit(&form), is_doubled = next_bit(&form), has_dot = next_bit(&form);
        bool has_up = next_bit(&form), is_all_escaped = next_bit(&form);
        must(buf_append(&text, is_uri ? S("file://") : S("")) == 0);
        for (const char *p = path; *p; p++) {
                bool is_plain = *p == '/' || *p == '.' || (isalnum((unsigned char)*p) && !is_all_escaped);
                if (is_uri && !is_plain)
                        must(buf_printf(&text, "%%%02X", (unsigned)(uint8_t)*p) == 0);
                else
                        must(buf_append_char(&text, *p) == 0);
                if (*p != '/')
                        continue;
                must(buf_append(&text, is_doubled && p > path ? S("/") : S("")) == 0);
                must(buf_append(&text, has_dot ? S("./") : S("")) == 0);
                must(buf_append(&text, has_up ? S("x/../") : S("")) == 0);
        }
        must(buf_append(&text, has_end ? S("/") : S("")) == 0);
        jsonw_member_string(&params, key, buf_slice(&text));
}

static const struct json *member(const struct json *of, const char *key)
{
        const struct json *v = json_get(&reply.doc, of, slice_from_str(key));
        want(v);
        return v;
}

static struct slice string_of(const struct json *v)
{
        want(v->type == JSON_STRING);
        return json_string(&arena, &reply.doc, v);
}

static uint64_t number_of(const struct json *of, const char *key)
{
        uint64_t n = 0;
        want(json_u64(&reply.doc, member(of, key), &n) == 0);
        return n;
}

static int64_t time_of(const struct json *of)
{
        int64_t n = 0;
        want(json_i64(&reply.doc, member(of, "modifiedAtMs"), &n) == 0);
        return n;
}

static void want_bool(const struct json *of, const char *key, bool wanted)
{
        want(member(of, key)->type == (wanted ? JSON_TRUE : JSON_FALSE));
}

static void want_bytes(const char *key, struct slice wanted)
{
        struct slice text = string_of(member(reply.result, key));
        char *bytes = arena_alloc(&arena, text.n + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        want(n >= 0 && slice_eq(slice_from(bytes, (size_t)n), wanted));
}

static void want_uri(const struct json *v, const char *path)
{
        struct slice found = S("");
        want(uri_to_path(&arena, string_of(v), &found, NULL) == URI_OK);
        want(slice_eq(found, slice_from_str(path)));
}
