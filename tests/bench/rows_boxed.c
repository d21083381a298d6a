/* rows_boxed: file requests with a permission profile, which a process of its own does for the server.
 *
 * Each turn has a workspace that is new to the server: its first request is measured by itself, and later requests use the
 * fs helper that the first has made. The first round also checks that the profile is enforced.
 */
#include "base/base64.h"
#include "base/mem.h"
#include "machine_files.h"
#include "rows_files.h"

#include <errno.h>
#include <stdio.h>
#include <sys/stat.h>

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)
#define BLOCK MIB
#define WORKSPACES 64
#define JSON_MAX 8192
#define BESIDE "beside" /* a file that the profile does not allow to be written, or even read */

enum { FIRST = 1 }; /* index of the metric after the latency: that of the first request */

/* The entries of the two profiles: one reads only the workspace and what programs need, the other reads everything and writes the
 * workspace. */
static const char read_entries[] =
        "{\"access\":\"read\",\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"minimal\"}}},"
        "{\"access\":\"read\",\"path\":{\"type\":\"special\",\"value\":"
        "{\"kind\":\"project_roots\"}}}";
static const char write_entries[] =
        "{\"access\":\"read\",\"path\":{\"type\":\"special\",\"value\":{\"kind\":\"root\"}}},"
        "{\"access\":\"write\",\"path\":{\"type\":\"special\",\"value\":"
        "{\"kind\":\"project_roots\"}}}";

static int prepare(const char *dir, size_t bytes, struct err *err)
{
        _free_ char *beside = mem_printf("%s/" BESIDE, dir);
        int r = file_make(beside, KIB, err);
        for (unsigned i = 0; r == 0 && i < (bytes > MIB ? 1 : WORKSPACES); i++) {
                _free_ char *workspace = mem_printf("%s/w%u", dir, i);
                _free_ char *file = mem_printf("%s/" FILE_IN, workspace);
                r = mkdir(workspace, 0755) < 0 ? files_failed(err, workspace) : file_make(file, bytes, err);
        }
        return r;
}

/* Returns the number of a workspace that this server has not used yet. */
static unsigned next_workspace(const struct turn *t)
{
        static unsigned used[WHOS];
        return used[t->server->who]++ % WORKSPACES;
}

static void sandbox_append(struct buf *to, const struct turn *t, const char *workspace, const char *entries)
{
        _buf_ struct buf uri = BUF_INIT(JSON_MAX);
        uri_append(&uri, t, workspace);
        must(buf_printf(to,
                        ",\"sandbox\":{\"cwd\":\"%s\",\"workspaceRoots\":[\"%s\"],"
                        "\"windowsSandboxLevel\":\"disabled\",\"permissions\":{\"type\":\"managed\","
                        "\"network\":\"restricted\",\"file_system\":{\"type\":\"restricted\",\"entries\":[%s]"
                        "}}}",
                        uri.p, uri.p, entries) == 0);
}

/* Checks that a request that the profile forbids is answered with an error. */
static int refusal_check(const struct turn *t, struct slice request, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        struct slice message;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = client_send_prepared(&c, request, err);
        if (r == 0)
                r = client_next(&c, &message, err);
        if (r == 0 && !message_has(message, S("\"error\"")))
                r = err_set(err, 0, -EPROTO, "the profile does not hold: %.*s", SLICE(message));
        return r;
}

static int measure(struct turn *t, struct slice request, size_t answer, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        uint64_t start = t->started_ns = now_ns();
        if (r == 0)
                r = ask(&c, request, answer, err);
        samples_add(&t->into[FIRST], us_since(start));
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                start = now_ns();
                r = ask(&c, request, answer, err);
                samples_add(&t->into[0], us_since(start));
        }
        return r;
}

static int read_boxed(struct turn *t, struct err *err)
{
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX), more = BUF_INIT(JSON_MAX),
                         bad = BUF_INIT(REQUEST_MAX);
        unsigned workspace = next_workspace(t);
        _free_ char *name = mem_printf("w%u", workspace), *file = mem_printf("w%u/" FILE_IN, workspace);
        sandbox_append(&more, t, name, read_entries);
        request_prepare(&request, t, "fs/readFile", "path", file, more.p);
        request_prepare(&bad, t, "fs/readFile", "path", BESIDE, more.p);
        int r = measure(t, buf_slice(&request), base64_encoded_size(t->bytes), err);
        return r == 0 && t->is_first ? refusal_check(t, buf_slice(&bad), err) : r;
}

/* The profile reads everything, so that the loop can answer itself. The file is read once before, because the loop leaves a file
 * that was just changed to an fs helper (src/fsop/quick.h). */
static int read_open(struct turn *t, struct err *err)
{
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX), more = BUF_INIT(JSON_MAX);
        unsigned workspace = next_workspace(t);
        _free_ char *name = mem_printf("w%u", workspace), *file = mem_printf("w%u/" FILE_IN, workspace);
        sandbox_append(&more, t, name, write_entries);
        request_prepare(&request, t, "fs/readFile", "path", file, more.p);
        _free_ char *path = mem_printf("%s/%s", t->dir, file);
        int r = file_check(path, t->bytes, err);
        return r < 0 ? r : measure(t, buf_slice(&request), base64_encoded_size(t->bytes), err);
}

static int write_boxed(struct turn *t, struct err *err)
{
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX), more = BUF_INIT(JSON_MAX),
                         bad = BUF_INIT(REQUEST_MAX);
        unsigned workspace = next_workspace(t);
        _free_ char *name = mem_printf("w%u", workspace), *file = mem_printf("w%u/" FILE_OUT, workspace);
        _free_ char *content = mem_zalloc(t->bytes), *data = mem_zalloc(base64_encoded_size(t->bytes) + 1);
        (void)base64_encode(data, content, t->bytes);
        must(buf_printf(&more, ",\"dataBase64\":\"%s\"", data) == 0);
        sandbox_append(&more, t, name, write_entries);
        request_prepare(&request, t, "fs/writeFile", "path", file, more.p);
        request_prepare(&bad, t, "fs/writeFile", "path", BESIDE, more.p);
        int r = measure(t, buf_slice(&request), 0, err);
        return r == 0 && t->is_first ? refusal_check(t, buf_slice(&bad), err) : r;
}

/* --- a stream ----------------------------------------------------------------------------------------------------- */

static int stream_boxed(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX), more = BUF_INIT(JSON_MAX);
        must(buf_append(&more, S(",\"handleId\":\"h\"")) == 0);
        sandbox_append(&more, t, "w0", read_entries);
        request_prepare(&request, t, "fs/open", "path", "w0/" FILE_IN, more.p);
        int r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        uint64_t start = now_ns();
        if (r == 0)
                r = ask(&c, buf_slice(&request), 0, err);
        for (size_t at = 0; r == 0 && at < t->bytes; at += BLOCK) {
                struct gist answer;
                r = client_send(&c, err,
                                "{\"id\":7,\"method\":\"fs/readBlock\",\"params\":{\"handleId\":\"h\","
                                "\"offset\":%zu,\"len\":%zu}}",
                                at, BLOCK);
                if (r == 0)
                        r = client_count(&c, &answer, err);
                if (r == 0 && answer.n < base64_encoded_size(BLOCK))
                        r = err_set(err, 0, -EPROTO, "a block of %zu bytes", answer.n);
        }
        samples_add(&t->into[0], (double)t->bytes / us_since(start));
        return r;
}

/* The machine's limit: reads the same file without a server. */
static int machine_stream(struct turn *t, struct err *err)
{
        _free_ char *dir = mem_printf("%s/w0", t->dir);
        struct turn inner = *t;
        inner.dir = dir;
        int r = machine_read(&inner, err);
        t->into[0] = inner.into[0];
        return r;
}

const struct row rows_boxed[] = {
        { .name = "sandbox-read",
          .budget_ms = 150,
          .bytes = KIB,
          .prepare = prepare,
          .server = read_boxed,
          .metrics = { { "latency", "readFile in a sandbox, 1 KiB", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 1.0 / 100, "100 x faster than reference" } } },
                       { .name = "first", .title = "- the first time", .unit = UNIT_US } } },
        { .name = "sandbox-read-all",
          .budget_ms = 150,
          .bytes = KIB,
          .prepare = prepare,
          .server = read_open,
          .metrics = { { "latency", "readFile under a profile that reads all, 1 KiB", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 1 / 1.2, "1.2 x faster than reference" } } },
                       { .name = "first", .title = "- the first time", .unit = UNIT_US } } },
        { .name = "sandbox-write",
          .budget_ms = 150,
          .bytes = KIB,
          .prepare = prepare,
          .server = write_boxed,
          .metrics = { { "latency", "writeFile in a sandbox, 1 KiB", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 1.0 / 50, "50 x faster than reference" } } },
                       { .name = "first", .title = "- the first time", .unit = UNIT_US } } },
        { .name = "sandbox-stream",
          .is_long = true,
          .rounds = 3,
          .budget_ms = 200,
          .bytes = 512 * MIB,
          .prepare = prepare,
          .server = stream_boxed,
          .machine = machine_stream,
          .metrics = { { "rate", "streamed read in a sandbox, 512 MiB, one block at a time", UNIT_MB_PER_S,
                         .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 2.5, ">= 2.5 x reference" } } } } },
        { 0 },
};
