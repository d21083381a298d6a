/* task_denied_test: runs the test vectors of denials on retained output. tests/integration/test_sandbox_denied.py runs them with
 * a real server. */
#include "session/task_internal.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "denial/denials.h"
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

/* Appends `n` bytes in pieces, as the server would read them. */
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

/* Appends the output of the script that a vector names. phrase_late_from_background prints only after the exit, so nothing is
 * appended for it. Returns false for an unknown name. */
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

static void reports(const struct retained *r, int exit_signal, const char *expected)
{
        char *json = task_denials(&r->output, true, exit_signal);
        eq_str(json, expected);
        free(json);
}

TEST(each_denial_is_reported_once)
{
        struct retained r;
        retained_open(&r, MIB);
        say(&r, STREAM_STDERR,
            S("ok\ntouch: cannot touch '/ro/a b': Read-only file system\ntouch: cannot tou"));
        say(&r, STREAM_STDOUT, S("sandbox\n"));
        say(&r, STREAM_STDERR, S("ch '/ro/a b': Read-only file system\r\nsh: 1: /ro/c: Permission denied"));
        reports(&r, 0,
                "[{\"operation\":\"write\",\"path\":\"file:///ro/a%20b\",\"source\":\"output\"},"
                "{\"operation\":\"unknown\",\"source\":\"output\"},"
                "{\"operation\":\"unknown\",\"path\":\"file:///ro/c\",\"source\":\"output\"}]");
        output_release(&r.output);
}

TEST(a_denied_address_is_reported)
{
        struct retained r;
        retained_open(&r, MIB);
        say(&r, STREAM_STDERR,
            S("bash: connect: Network is unreachable\n"
              "bash: line 1: /dev/tcp/192.0.2.1/80: Network is unreachable\n"
              "curl: (6) Could not resolve host: example.com\n"));
        reports(&r, 0,
                "[{\"operation\":\"connect\",\"source\":\"output\"},"
                "{\"operation\":\"connect\",\"address\":\"192.0.2.1:80\",\"source\":\"output\"},"
                "{\"operation\":\"connect\",\"address\":\"example.com\",\"source\":\"output\"}]");
        ok(!task_output_denied(&r.output, false, 1));
        output_release(&r.output);
        retained_open(&r, MIB);
        say(&r, STREAM_STDERR, S("curl: (6) Could not resolve host: example.com\n"));
        ok(!task_output_denied(&r.output, true, 1)); /* the reference server gives the same verdict */
        output_release(&r.output);
}

TEST(a_death_by_sigsys_is_reported_as_one)
{
        struct retained r;
        retained_open(&r, MIB);
        reports(&r, 31, "[{\"operation\":\"systemCall\",\"source\":\"signal\"}]");
        reports(&r, 0, "[]");
        output_release(&r.output);
}

TEST(a_report_is_bounded_in_number_and_bytes)
{
        struct retained r;
        char line[1024];
        retained_open(&r, MIB);
        for (int i = 0; i < 100; i++) {
                int n = snprintf(line, sizeof(line), "'/%d': permission denied\n", i);
                say(&r, STREAM_STDERR, slice_from(line, (size_t)n));
        }
        char *json = task_denials(&r.output, false, 0);
        size_t count = 0;
        for (const char *p = json; (p = strstr(p, "\"operation\"")); p++)
                count++;
        ok(count > 20 && count <= DENIALS_MAX && strlen(json) < TASK_DENIALS_BYTES);
        free(json);
        output_release(&r.output);

        retained_open(&r, MIB);
        memset(line, '"', sizeof(line)); /* in a URI each of these takes three bytes */
        memcpy(line, "'/", 2);
        memcpy(line + 500, "': permission denied\n", 21);
        for (char c = 'a'; c < 'z'; c++) {
                line[2] = c;
                say(&r, STREAM_STDERR, slice_from(line, 521));
        }
        json = task_denials(&r.output, false, 0);
        ok(json && strlen(json) > 1500 && strlen(json) < TASK_DENIALS_BYTES);
        free(json);
        output_release(&r.output);
}

TEST(a_line_that_is_too_long_is_left_out_and_the_next_is_not)
{
        struct retained r;
        retained_open(&r, MIB);
        say_much(&r, STREAM_STDOUT, 10000);
        say(&r, STREAM_STDOUT, S(" '/a': permission denied\n'/b': permission denied"));
        reports(&r, 0, "[{\"operation\":\"unknown\",\"path\":\"file:///b\",\"source\":\"output\"}]");
        output_release(&r.output);
}
