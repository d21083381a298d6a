/* upgrade: writes the request that begins a WebSocket, and checks the answer. */
#include "transport/upgrade.h"

#include "base/base64.h"
#include "base/random.h"
#include "wire/tls_status.h"
#include "wire/ws.h"

#include <errno.h>

#define HEAD_MAX 16384
#define BODY_SHOWN 200

void upgrade_key(char ret[UPGRADE_KEY_BYTES])
{
        unsigned char bytes[16];
        random_bytes(bytes, sizeof(bytes));
        ret[base64_encode(ret, bytes, sizeof(bytes))] = '\0';
}

int upgrade_request(struct buf *out, const struct endpoint *e, const char *key, const char *token)
{
        bool is_unix = e->kind == ENDPOINT_UNIX || e->kind == ENDPOINT_SSH; /* ssh ends at a unix socket */
        bool is_v6 = !is_unix && strchr(e->host, ':');
        int r = buf_printf(out, "GET %s HTTP/1.1\r\nHost: ", is_unix ? "/" : e->path);
        if (r == 0)
                r = is_unix ? buf_printf(out, "localhost")
                            : buf_printf(out, "%s%s%s:%u", is_v6 ? "[" : "", e->host, is_v6 ? "]" : "",
                                         e->port);
        if (r == 0)
                r = buf_printf(
                        out,
                        "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                        "Sec-WebSocket-Key: %s\r\n",
                        key);
        if (r == 0 && token)
                r = buf_printf(out, "Authorization: Bearer %s\r\n", token);
        return r == 0 ? buf_append(out, S("\r\n")) : r;
}

/* Returns the next line of the head, without the CR LF or LF at its end. */
static struct slice next_line(struct slice *rest)
{
        struct slice line = slice_split(rest, '\n');
        if (line.n > 0 && line.p[line.n - 1] == '\r')
                line.n--;
        return line;
}

/* Returns the length of the head with its empty line, or 0 when the head is not complete. */
static size_t head_length(struct slice in)
{
        for (size_t i = 0; i + 1 < in.n; i++) {
                if (in.p[i] != '\n')
                        continue;
                if (in.p[i + 1] == '\n')
                        return i + 2;
                if (i + 2 < in.n && in.p[i + 1] == '\r' && in.p[i + 2] == '\n')
                        return i + 3;
        }
        return 0;
}

static bool has_token(struct slice value, struct slice token)
{
        while (value.p) {
                struct slice item = slice_trim(slice_split(&value, ','));
                if (slice_eq_nocase(item, token))
                        return true;
        }
        return false;
}

/* Returns the status of the line "HTTP/1.x STATUS …", or -1 when the line is no such line. */
static int read_status(struct slice line)
{
        uint64_t status;
        if (line.n < 12 || !slice_starts(line, S("HTTP/1.")) || line.p[8] != ' ' ||
            slice_to_u64(slice_from(line.p + 9, 3), 999, &status) < 0 || (line.n > 12 && line.p[12] != ' '))
                return -1;
        return (int)status;
}

/* Returns whether a body may follow. A head that says that the length is 0 has none, and must not be waited for: the connection may
 * stay open. */
static bool has_body(struct slice head)
{
        while (head.n > 0) {
                struct slice value = next_line(&head), name = slice_split(&value, ':');
                if (slice_eq_nocase(name, S("content-length")) && slice_eq(slice_trim(value), S("0")))
                        return false;
        }
        return true;
}

/* Fills the error of a server that refuses: the first line of the body says why. */
static int refuse(int status, struct slice body, struct err *err)
{
        struct slice said = next_line(&body);
        said.n = MIN(said.n, BODY_SHOWN);
        if (status == TLS_STATUS_FAILED)
                return err_set(err, 0, -ECONNREFUSED, "no TLS connection: %.*s", SLICE(said));
        int code = status == 401 || status == 403 ? -EACCES : -EPROTO;
        return err_set(err, 0, code, "the server answered %d%s%.*s", status, said.n > 0 ? ": " : "",
                       SLICE(said));
}

ssize_t upgrade_answer(struct slice in, bool at_end, const char *key, struct err *err)
{
        size_t length = head_length(slice_from(in.p, MIN(in.n, HEAD_MAX)));
        if (length == 0 && (in.n >= HEAD_MAX || at_end))
                return err_set(err, 0, at_end ? -ECONNRESET : -EPROTO,
                               at_end ? "the server closed the connection before it answered"
                                      : "this is no exec server: the head of its answer is too long");
        if (length == 0)
                return 0;

        struct slice rest = slice_from(in.p, length);
        int status = read_status(next_line(&rest));
        if (status < 0)
                return err_set(err, 0, -EPROTO, "this is no exec server: its answer is not HTTP");
        if (status != 101) {
                if (!at_end && in.n == length && has_body(rest))
                        return 0; /* the body, which says why, has not come yet */
                return refuse(status, slice_from(in.p + length, in.n - length), err);
        }

        char accept[29];
        ws_accept(slice_from_str(key), accept);
        bool upgrades = false, connects = false, accepts = false, extends = false;
        while (rest.n > 0) {
                struct slice value = next_line(&rest);
                if (value.n == 0)
                        break;
                struct slice name = slice_split(&value, ':');
                value = slice_trim(value);
                upgrades |= slice_eq_nocase(name, S("upgrade")) && slice_eq_nocase(value, S("websocket"));
                connects |= slice_eq_nocase(name, S("connection")) && has_token(value, S("upgrade"));
                accepts |= slice_eq_nocase(name, S("sec-websocket-accept")) &&
                           slice_eq(value, slice_from_str(accept));
                extends |= slice_eq_nocase(name, S("sec-websocket-extensions")) && value.n > 0;
        }
        if (!upgrades || !connects || !accepts || extends)
                return err_set(err, 0, -EPROTO, "the server's answer is no WebSocket upgrade to our request");
        return (ssize_t)length;
}
