/* The vectors of denials, on retained output as a process leaves it. Through a real server they are run by
 * tests/integration/test_sandbox_denied.py. */
#include "server/task_internal.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "unit.h"
#include "wire/json.h"

struct retained {
        struct output output;
        uint64_t total, seq;
};

static void retained_open(struct retained *r, uint64_t cap)
{
        *r = (struct retained){ 0 };
        output_init(&r->output, cap, &r->total);
}

static void say(struct retained *r, enum stream stream, struct slice bytes)
{
        if (bytes.n > 0)
                output_append(&r->output, stream, ++r->seq, bytes);
}

/* In pieces, as a server reads it. */
static void say_much(struct retained *r, enum stream stream, size_t n)
{
        char piece[4096];
        memset(piece, 'a', sizeof(piece));
        for (; n > 0; n -= MIN(n, sizeof(piece)))
                say(r, stream, slice_from(piece, MIN(n, sizeof(piece))));
}

struct vectors {
        struct arena arena;
        struct buf text;
        struct json_doc doc;
};

static struct slice text_of(struct vectors *v, const struct json *row, const char *key)
{
        const struct json *value = json_get(&v->doc, row, slice_from_str(key));
        return value ? json_string(&v->arena, &v->doc, value) : S("");
}

/* What the scripts of these leave behind; what comes later than the exit leaves nothing. */
static bool run_script(struct retained *r, struct slice name)
{
        if (slice_eq(name, S("phrase_then_over_1MiB"))) {
                say(r, STREAM_STDERR, S("permission denied\n"));
                say_much(r, STREAM_STDOUT, 1200000);
        } else if (slice_eq(name, S("phrase_after_1MiB"))) {
                say_much(r, STREAM_STDOUT, 1200000);
                say(r, STREAM_STDERR, S("permission denied\n"));
        } else {
                return slice_eq(name, S("phrase_late_from_background"));
        }
        return true;
}

static void run_vector(struct vectors *v, const struct json *row)
{
        struct retained r;
        int64_t code;
        struct slice name = text_of(v, row, "name"), encoded = text_of(v, row, "stderr_base64");
        retained_open(&r, MIB);
        say(&r, STREAM_STDOUT, text_of(v, row, "stdout"));
        say(&r, STREAM_STDERR, text_of(v, row, "stderr"));
        if (encoded.n > 0) {
                char bytes[256];
                size_t bad;
                ok(encoded.n < sizeof(bytes));
                ssize_t n = base64_decode(bytes, encoded.p, encoded.n, &bad);
                ok(n > 0);
                say(&r, STREAM_STDERR, slice_from(bytes, (size_t)n));
        }
        if (json_get(&v->doc, row, S("script_before_exit")))
                ok(run_script(&r, name));
        eq_int(json_i64(&v->doc, json_get(&v->doc, row, S("exit_code")), &code), 0);
        bool is_sandboxed = json_get(&v->doc, row, S("sandboxed"))->type == JSON_TRUE;
        bool is_denied = json_get(&v->doc, row, S("sandboxDenied"))->type == JSON_TRUE;
        bool is = is_sandboxed && task_output_denied(&r.output, false, (int)code);
        if (is != is_denied)
                print_error("%.*s\n", SLICE(name));
        eq_int(is, is_denied);
        output_release(&r.output);
}

TEST(all_vectors_of_denials)
{
        struct vectors v = { .arena = ARENA_INIT, .text = BUF_INIT(MIB) };
        struct json_error error;
        size_t count = 0;
        eq_int(fd_read_file(UNIT_VECTORS "/denial.json", MIB, &v.text), 0);
        eq_int(json_parse(&v.arena, buf_slice(&v.text), &v.doc, &error), 0);
        const struct json *cases = json_get(&v.doc, json_root(&v.doc), S("cases"));
        json_each (row, &v.doc, cases) {
                run_vector(&v, row);
                count++;
        }
        eq_u64(count, 40);
        arena_release(&v.arena);
        buf_release(&v.text);
}

TEST(only_the_newest_mebibyte_counts_however_much_is_retained)
{
        struct retained r;
        retained_open(&r, 4 * MIB);
        say(&r, STREAM_STDERR, S("permission denied\n"));
        say_much(&r, STREAM_STDOUT, MIB - 4096);
        ok(task_output_denied(&r.output, false, 1));
        say_much(&r, STREAM_STDOUT, 4096);
        ok(!task_output_denied(&r.output, false, 1));
        output_release(&r.output);
}

TEST(a_terminal_counts_as_stdout)
{
        struct retained r;
        retained_open(&r, MIB);
        say(&r, STREAM_PTY, S("sh: 1: cannot create x: Permission"));
        say(&r, STREAM_PTY, S(" denied\r\n"));
        ok(task_output_denied(&r.output, false, 2));
        ok(!task_output_denied(&r.output, false, 0));
        output_release(&r.output);
}

TEST(a_network_that_cannot_be_reached_counts_where_it_is_empty)
{
        struct retained r;
        retained_open(&r, MIB);
        ok(!task_output_denied(&r.output, true, 1));
        say(&r, STREAM_STDERR, S("connect: Network is unreachable"));
        ok(task_output_denied(&r.output, true, 1));
        ok(!task_output_denied(&r.output, false, 1));
        output_release(&r.output);
}
