/* rows_files: the content of files: whole files read and written, and a file read in blocks.
 *
 * Requests are masked beforehand and answers are counted, not kept. The bytes are checked once,
 * outside of the time that is measured.
 */
#include "rows_files.h"

#include "base/base64.h"
#include "base/mem.h"
#include "base/uri.h"
#include "machine_files.h"
#include "procinfo.h"

#include <errno.h>
#include <stdio.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define GB 1e9
#define BLOCK MIB

/* --- requests ----------------------------------------------------------------------------------------------------- */

void uri_append(struct buf *to, const struct turn *t, const char *path)
{
        _free_ char *full = mem_printf("%s/%s", t->dir, path);
        must(uri_from_path(to, slice_from_str(full)) == 0);
}

void request_prepare(struct buf *to, const struct turn *t, const char *method, const char *member,
                     const char *path, const char *more)
{
        _buf_ struct buf text = BUF_INIT(REQUEST_MAX);
        must(buf_printf(&text, "{\"id\":7,\"method\":\"%s\",\"params\":{\"%s\":\"", method, member) == 0);
        uri_append(&text, t, path);
        must(buf_append(&text, S("\"")) == 0 && buf_append(&text, slice_from_str(more)) == 0 &&
             buf_append(&text, S("}}")) == 0);
        client_prepare(to, buf_slice(&text));
}

int ask(struct client *c, struct slice request, size_t answer_min, struct err *err)
{
        struct gist answer;
        int r = client_send_prepared(c, request, err);
        if (r == 0)
                r = client_count(c, &answer, err);
        if (r == 0 && answer.n < answer_min)
                r = err_set(err, 0, -EPROTO, "an answer of %zu bytes: %.*s", answer.n, (int)answer.front_n,
                            answer.front);
        return r;
}

/* --- what a turn costs -------------------------------------------------------------------------------------------- */

enum { COST_CPU = 1, COST_CLIENT_CPU, COST_PEAK }; /* indexes of the metrics after the first one */

struct costs {
        struct family family;
        double cpu, own;
};

/* The memory of each server before it has done anything but answer one client. */
static double idle_bytes[WHOS];

static int costs_begin(struct costs *c, const struct turn *t, struct err *err)
{
        int r = family_find(t->server->pid, &c->family, err);
        if (r == 0)
                r = family_peak_reset(&c->family, err);
        if (r == 0 && t->is_first)
                r = family_peak_bytes(&c->family, &idle_bytes[t->server->who], err);
        return r;
}

/* Begins to measure anew, after requests that do not count. */
static void costs_restart(struct costs *c)
{
        c->cpu = family_cpu_s(&c->family);
        c->own = own_cpu_s();
}

static int costs_end(const struct costs *c, struct turn *t, size_t times, bool has_peak, struct err *err)
{
        double peak = 0, cpu = family_cpu_s(&c->family) - c->cpu, own = own_cpu_s() - c->own;
        bool is_small = t->bytes <= FILE_SMALL;
        double scale = is_small ? 1e6 / (double)times : GB / (double)(t->bytes * times);
        samples_add(&t->into[COST_CPU], cpu * scale);
        samples_add(&t->into[COST_CLIENT_CPU], own * scale);
        int r = has_peak ? family_peak_bytes(&c->family, &peak, err) : 0;
        if (r == 0 && has_peak)
                samples_add(&t->into[COST_PEAK], peak - idle_bytes[t->server->who]);
        return r;
}

/* Large files take long: one sample is enough, without a warm-up before it. */
static bool is_large(const struct turn *t)
{
        return t->bytes > 4 * MIB;
}

static bool file_turn_goes_on(const struct turn *t, size_t samples)
{
        return is_large(t) && samples > 0 ? now_ns() - t->started_ns < t->budget_ns
                                          : turn_goes_on(t, samples);
}

/* --- readFile ----------------------------------------------------------------------------------------------------- */

static int prepare_in(const char *dir, size_t bytes, struct err *err)
{
        _free_ char *path = mem_printf("%s/" FILE_IN, dir);
        return file_make(path, bytes, err);
}

/* Checks that the base64 after `member` is that of `content`. */
static int member_check(struct slice message, struct slice member, struct slice content, struct err *err)
{
        const char *p = memmem(message.p, message.n, member.p, member.n);
        p = p ? p + member.n : NULL;
        const char *end = p ? memchr(p, '"', (size_t)(message.p + message.n - p)) : NULL;
        if (!end)
                return err_set(err, 0, -EPROTO, "an answer without data: %.*s", (int)MIN(message.n, 200),
                               message.p);
        size_t n = (size_t)(end - p);
        _free_ char *bytes = mem_alloc(base64_decoded_max(n) + 1);
        ssize_t got = base64_decode(bytes, p, n, NULL);
        if (got < 0 || !slice_eq(slice_from(bytes, (size_t)got), content))
                return err_set(err, 0, -EPROTO, "what was read is not what the file holds");
        return 0;
}

/* Reads the file on a connection of its own, whose buffer keeps the whole message; that of a measured connection is too small. */
static int read_check(const struct turn *t, struct slice request, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _free_ char *content = content_new(t->bytes);
        struct slice message;
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        if (r == 0)
                r = client_send_prepared(&c, request, err);
        if (r == 0)
                r = client_next(&c, &message, err);
        return r < 0 ? r : member_check(message, S("\"dataBase64\":\""), slice_from(content, t->bytes), err);
}

static int read_times(struct turn *t, struct client *c, struct slice request, bool has_peak, struct err *err)
{
        struct costs costs;
        size_t n = 0, answer = base64_encoded_size(t->bytes);
        int r = costs_begin(&costs, t, err);
        if (r == 0 && t->is_first)
                r = read_check(t, request, err);
        if (r == 0 && !is_large(t))
                r = ask(c, request, answer, err);
        costs_restart(&costs);
        for (; r == 0 && file_turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = ask(c, request, answer, err);
                if (r == 0)
                        file_sample(t, start);
        }
        return r < 0 ? r : costs_end(&costs, t, n, has_peak, err);
}

static int read_file(struct turn *t, bool has_peak, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX);
        request_prepare(&request, t, "fs/readFile", "path", FILE_IN, "");
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        return r < 0 ? r : read_times(t, &c, buf_slice(&request), has_peak, err);
}

static int read_plain(struct turn *t, struct err *err)
{
        return read_file(t, false, err);
}

static int read_large(struct turn *t, struct err *err)
{
        return read_file(t, true, err);
}

/* --- getMetadata -------------------------------------------------------------------------------------------------- */

static int look(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX);
        struct costs costs;
        size_t n = 0;
        request_prepare(&request, t, "fs/getMetadata", "path", FILE_IN, "");
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = costs_begin(&costs, t, err);
        if (r == 0)
                r = ask(&c, buf_slice(&request), 0, err);
        costs_restart(&costs);
        for (; r == 0 && file_turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = ask(&c, buf_slice(&request), 0, err);
                if (r == 0)
                        file_sample(t, start);
        }
        return r < 0 ? r : costs_end(&costs, t, n, false, err);
}

/* --- writeFile ---------------------------------------------------------------------------------------------------- */

static int prepare_nothing(UNUSED const char *dir, UNUSED size_t bytes, UNUSED struct err *err)
{
        return 0;
}

static const char *out_name(const struct turn *t)
{
        return t->server->who == WHO_OURS ? FILE_OUT "-farhand" : FILE_OUT "-reference";
}

static void write_prepare(struct buf *to, const struct turn *t)
{
        _free_ char *content = content_new(t->bytes);
        _buf_ struct buf more = BUF_INIT(REQUEST_MAX);
        char *room;
        must(buf_append(&more, S(",\"dataBase64\":\"")) == 0 &&
             buf_reserve(&more, base64_encoded_size(t->bytes), &room) == 0);
        buf_commit(&more, base64_encode(room, content, t->bytes));
        must(buf_append(&more, S("\"")) == 0);
        request_prepare(to, t, "fs/writeFile", "path", out_name(t), more.p);
}

static int write_times(struct turn *t, struct client *c, struct slice request, bool has_peak, struct err *err)
{
        struct costs costs;
        size_t n = 0;
        int r = costs_begin(&costs, t, err);
        if (r == 0 && !is_large(t))
                r = ask(c, request, 0, err);
        costs_restart(&costs);
        for (; r == 0 && file_turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = ask(c, request, 0, err);
                if (r == 0)
                        file_sample(t, start);
        }
        return r < 0 ? r : costs_end(&costs, t, n, has_peak, err);
}

static int write_file(struct turn *t, bool has_peak, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX);
        write_prepare(&request, t);
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        t->started_ns = now_ns(); /* the time of the preparations does not count */
        if (r == 0)
                r = write_times(t, &c, buf_slice(&request), has_peak, err);
        if (r < 0 || !t->is_first)
                return r;
        _free_ char *path = mem_printf("%s/%s", t->dir, out_name(t));
        return file_check(path, t->bytes, err);
}

static int write_plain(struct turn *t, struct err *err)
{
        return write_file(t, false, err);
}

/* When the reference closes the connection because the message is too long, it has no figure; anything else is a failure. */
static int write_large(struct turn *t, struct err *err)
{
        int r = write_file(t, true, err);
        bool hung_up = r == -ECONNRESET || r == -EPIPE;
        return hung_up && t->server->who == WHO_REFERENCE ? 0 : r;
}

/* --- readBlock ---------------------------------------------------------------------------------------------------- */

/* The requests that read the file once. */
struct stream {
        struct buf open, close, blocks;
        size_t count, *ends; /* where the request of each block ends in `blocks` */
};

static void stream_release(struct stream *s)
{
        buf_release(&s->open);
        buf_release(&s->close);
        buf_release(&s->blocks);
        free(s->ends);
}

static void stream_init(struct stream *s, const struct turn *t)
{
        *s = (struct stream){ BUF_INIT(REQUEST_MAX), BUF_INIT(REQUEST_MAX), BUF_INIT(REQUEST_MAX),
                              .count = t->bytes / BLOCK };
        s->ends = mem_alloc(s->count * sizeof(*s->ends));
        request_prepare(&s->open, t, "fs/open", "path", FILE_IN, ",\"handleId\":\"h\"");
        client_prepare(&s->close, S("{\"id\":7,\"method\":\"fs/close\",\"params\":{\"handleId\":\"h\"}}"));
        for (size_t i = 0; i < s->count; i++) {
                char text[128];
                snprintf(text, sizeof(text),
                         "{\"id\":7,\"method\":\"fs/readBlock\",\"params\":{\"handleId\":\"h\","
                         "\"offset\":%zu,\"len\":%zu}}",
                         i * BLOCK, BLOCK);
                client_prepare(&s->blocks, slice_from_str(text));
                s->ends[i] = s->blocks.n;
        }
}

/* Returns the requests of the blocks from `from` up to, but without, `to`. */
static struct slice stream_requests(const struct stream *s, size_t from, size_t to)
{
        size_t start = from ? s->ends[from - 1] : 0;
        return slice_from(s->blocks.p + start, s->ends[to - 1] - start);
}

/* Reads the file once, with `depth` requests under way. Answers may come in any order, so they are only counted. */
static int stream_read(const struct stream *s, struct client *c, size_t depth, struct err *err)
{
        int r = ask(c, buf_slice(&s->open), 0, err);
        if (r == 0)
                r = client_send_prepared(c, stream_requests(s, 0, depth), err);
        for (size_t got = 0, sent = depth; r == 0 && got < s->count; got++) {
                struct gist answer;
                r = client_count(c, &answer, err);
                if (r == 0 && answer.n < base64_encoded_size(BLOCK))
                        r = err_set(err, 0, -EPROTO, "a block of %zu bytes", answer.n);
                if (r == 0 && sent < s->count) {
                        r = client_send_prepared(c, stream_requests(s, sent, sent + 1), err);
                        sent++;
                }
        }
        return r < 0 ? r : ask(c, buf_slice(&s->close), 0, err);
}

static int stream_check(const struct stream *s, const struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _free_ char *content = content_new(t->bytes);
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        if (r == 0)
                r = ask(&c, buf_slice(&s->open), 0, err);
        for (size_t i = 0; r == 0 && i < s->count; i++) {
                struct slice message;
                r = client_send_prepared(&c, stream_requests(s, i, i + 1), err);
                if (r == 0)
                        r = client_next(&c, &message, err);
                if (r == 0)
                        r = member_check(message, S("\"chunk\":\""), slice_from(content + i * BLOCK, BLOCK),
                                         err);
        }
        return r;
}

static int stream_deep(struct turn *t, size_t depth, struct err *err)
{
        CLEANUP(stream_release) struct stream s;
        _client_ struct client c = CLIENT_INIT;
        struct costs costs;
        size_t n = 0;
        stream_init(&s, t);
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        if (r == 0)
                r = costs_begin(&costs, t, err);
        costs_restart(&costs);
        for (; r == 0 && file_turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = stream_read(&s, &c, depth, err);
                if (r == 0)
                        file_sample(t, start);
        }
        if (r == 0)
                r = costs_end(&costs, t, n, true, err);
        return r == 0 && t->is_first ? stream_check(&s, t, err) : r;
}

static int stream_one(struct turn *t, struct err *err)
{
        return stream_deep(t, 1, err);
}

static int stream_four(struct turn *t, struct err *err)
{
        return stream_deep(t, 4, err);
}

/* --- rows --------------------------------------------------------------------------------------------------------- */

#define CPU_EACH                                                                            \
        { .name = "cpu", .title = "- CPU of the server, each", .unit = UNIT_US },           \
        {                                                                                   \
                .name = "clientCpu", .title = "- CPU of this client, each", .unit = UNIT_US \
        }
#define CPU_PER_GB                                                                              \
        { .name = "cpu", .title = "- CPU of the server", .unit = UNIT_CPU_S_PER_GB },           \
        {                                                                                       \
                .name = "clientCpu", .title = "- CPU of this client", .unit = UNIT_CPU_S_PER_GB \
        }
#define PEAK_TITLE "- memory at its peak, over idle"
#define PEAK_GOAL                                   \
        {                                           \
                GOAL_VALUE, 16.0 * MIB, "<= 16 MiB" \
        }

const struct row rows_files[] = {
        { .name = "read-1k",
          .budget_ms = 100,
          .bytes = KIB,
          .prepare = prepare_in,
          .server = read_plain,
          .machine = machine_read,
          .metrics = { { "latency", "readFile, 1 KiB", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 0.4, "<= 0.4 x reference" } } },
                       CPU_EACH } },
        { .name = "metadata",
          .budget_ms = 100,
          .bytes = KIB,
          .prepare = prepare_in,
          .server = look,
          .machine = machine_look,
          .metrics = { { "latency", "getMetadata", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 0.4, "<= 0.4 x reference" } } },
                       CPU_EACH } },
        { .name = "read-1m",
          .budget_ms = 150,
          .bytes = MIB,
          .prepare = prepare_in,
          .server = read_plain,
          .machine = machine_read,
          .metrics = { { "rate", "readFile, 1 MiB", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 3, ">= 3 x reference" } } },
                       CPU_PER_GB } },
        { .name = "read-64m",
          .budget_ms = 300,
          .bytes = 64 * MIB,
          .prepare = prepare_in,
          .server = read_large,
          .machine = machine_read,
          .metrics = { { "rate", "readFile, 64 MiB", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 6, ">= 6 x reference" } } },
                       CPU_PER_GB,
                       { "peak", PEAK_TITLE, UNIT_BYTES, .goals = { PEAK_GOAL } } } },
        { .name = "write-1k",
          .budget_ms = 100,
          .bytes = KIB,
          .prepare = prepare_nothing,
          .server = write_plain,
          .machine = machine_write,
          .metrics = { { "latency", "writeFile, 1 KiB", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 1 / 1.3, "1.3 x faster than reference" } } },
                       CPU_EACH } },
        { .name = "write-1m",
          .budget_ms = 150,
          .bytes = MIB,
          .prepare = prepare_nothing,
          .server = write_plain,
          .machine = machine_write,
          .metrics = { { "rate", "writeFile, 1 MiB", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 2, ">= 2 x reference" } } },
                       CPU_PER_GB } },
        { .name = "write-8m",
          .budget_ms = 200,
          .bytes = 8 * MIB,
          .prepare = prepare_nothing,
          .server = write_plain,
          .machine = machine_write,
          .metrics = { { "rate", "writeFile, 8 MiB", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 3, ">= 3 x reference" } } },
                       CPU_PER_GB } },
        { .name = "write-64m",
          .rounds = 5,
          .budget_ms = 300,
          .bytes = 64 * MIB,
          .prepare = prepare_nothing,
          .server = write_large,
          .machine = machine_write,
          .metrics = { { "rate", "writeFile, 64 MiB", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_VALUE, 1, "works" } } },
                       CPU_PER_GB,
                       { .name = "peak", .title = PEAK_TITLE, .unit = UNIT_BYTES } } },
        { .name = "stream-1",
          .budget_ms = 200,
          .bytes = 64 * MIB,
          .prepare = prepare_in,
          .server = stream_one,
          .machine = machine_read,
          .metrics = { { "rate", "streamed read, one block of 1 MiB at a time", UNIT_MB_PER_S,
                         .more_is_better = true, .goals = { { GOAL_REFERENCE, 2.5, ">= 2.5 x reference" } } },
                       CPU_PER_GB,
                       { "peak", PEAK_TITLE, UNIT_BYTES, .goals = { PEAK_GOAL } } } },
        { .name = "stream-4",
          .budget_ms = 200,
          .bytes = 64 * MIB,
          .prepare = prepare_in,
          .server = stream_four,
          .machine = machine_read,
          .metrics = { { "rate", "streamed read, four blocks under way", UNIT_MB_PER_S,
                         .more_is_better = true, .goals = { { GOAL_REFERENCE, 3, ">= 3 x reference" } } },
                       CPU_PER_GB,
                       { "peak", PEAK_TITLE, UNIT_BYTES, .goals = { PEAK_GOAL } } } },
        { 0 },
};
