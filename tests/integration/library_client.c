/* A program that uses libfarhand, for test_library_client.py: library_client WHAT SERVER [ARGUMENT...]. Prints one line for each thing that it
 * is told. SERVER is a URL, or `-` for a private server of the program in FARHAND_BIN. */
#include <errno.h>
#include <farhand/farhand.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct farhand_error error;
static struct farhand *f;
static bool is_over;

static void say(const char *what, int r)
{
        printf("%s %d %s\n", what, r, r < 0 ? error.text : "");
        fflush(stdout);
}

/* Does work until `is_over`, or until the stdin ends when that counts. */
static void run(bool ends_with_stdin)
{
        while (!is_over) {
                struct pollfd fds[] = { { .fd = farhand_fd(f), .events = POLLIN },
                                        { .fd = ends_with_stdin ? 0 : -1, .events = POLLIN } };
                char byte;
                (void)poll(fds, 2, farhand_timeout_ms(f));
                if (fds[1].revents && read(0, &byte, 1) <= 0)
                        return;
                if (farhand_step(f, &error) < 0) {
                        say("step", error.code);
                        return;
                }
        }
}

/* ---- HTTP ---- */

static size_t body_bytes;

static void on_response(struct farhand_http *h, void *arg, int status,
                        const struct farhand_http_header *headers, size_t count)
{
        (void)h, (void)arg;
        printf("status %d\n", status);
        for (size_t i = 0; i < count; i++)
                printf("header %s: %s\n", headers[i].name, headers[i].value);
        fflush(stdout);
}

static void on_body(struct farhand_http *h, void *arg, const void *bytes, size_t n)
{
        (void)arg;
        body_bytes += n;
        if (n < 100)
                printf("body %.*s\n", (int)n, (const char *)bytes);
        fflush(stdout);
        if (n < 100 && memcmp(bytes, "free me", n) == 0) {
                farhand_http_free(h);
                is_over = true;
        }
}

static void on_done(struct farhand_http *h, void *arg)
{
        (void)h, (void)arg;
        printf("done %zu\n", body_bytes);
        is_over = true;
}

static void on_http_failed(struct farhand_http *h, void *arg, const struct farhand_error *e)
{
        (void)arg;
        error = *e;
        say("failed", e->code);
        farhand_http_free(h);
        is_over = true;
}

/* URL [METHOD [BODY [TIMEOUT_MS]]] */
static struct farhand_http_request request_of(char **argv, int argc)
{
        static const struct farhand_http_header headers[] = { { .name = "x-test", .value = "1" } };
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        request.url = argv[0];
        request.method = argc > 1 ? argv[1] : NULL;
        request.headers = headers;
        request.header_count = 1;
        request.body = argc > 2 ? argv[2] : NULL;
        request.body_bytes = argc > 2 ? strlen(argv[2]) : 0;
        request.timeout_ms = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
        request.stop_at_redirect = strstr(argv[0], "/stop") != NULL;
        return request;
}

static void http(char **argv, int argc)
{
        static const struct farhand_http_events events = { on_response, on_body, on_done, on_http_failed };
        struct farhand_http_request request = request_of(argv, argc);
        if (!farhand_http_start(f, &request, &events, NULL, &error))
                say("start", error.code);
        else
                run(false);
}

/* The same by the function that waits. */
static void fetch(char **argv, int argc)
{
        struct farhand_http_result result;
        struct farhand_http_request request = request_of(argv, argc);
        int r = farhand_http_fetch(f, &request, 1 << 20, 30000, &result, &error);
        say("fetch", r);
        if (r < 0)
                return;
        printf("%d %zu %s\n", result.status, result.header_count, result.body);
        farhand_http_result_release(&result);
}

/* ---- watches ---- */

static void on_watching(struct farhand_watch *w, void *arg)
{
        (void)w, (void)arg;
        say("watching", 0);
}

static void on_change(struct farhand_watch *w, void *arg, enum farhand_change kind, const char *path,
                      const char *from)
{
        static const char *const words[] = { "created", "modified", "removed", "renamed" };
        (void)w, (void)arg;
        printf("%s %s %s\n", words[kind], path, from ? from : "-");
        fflush(stdout);
}

static void on_overflow(struct farhand_watch *w, void *arg)
{
        (void)w, (void)arg;
        say("overflow", 0);
}

static void on_watch_failed(struct farhand_watch *w, void *arg, const struct farhand_error *e)
{
        (void)arg;
        error = *e;
        say("failed", e->code);
        farhand_watch_free(w);
        is_over = true;
}

static void watch(char **argv, int argc)
{
        static const struct farhand_watch_events events = { on_watching, on_change, on_overflow,
                                                            on_watch_failed };
        (void)argc;
        struct farhand_watch *w = farhand_watch_start(f, argv[0], true, &events, NULL, &error);
        run(true);
        if (!is_over)
                farhand_watch_free(w);
        (void)farhand_wait(f, 0, NULL);
}

/* ---- processes ---- */

static struct farhand_command command_of(char **argv)
{
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = (const char *const *)argv;
        command.stdin_open = true;
        return command;
}

/* Yields of 10 s until the command has exited; it gets a line after each that it did not end. */
static void yield(char **argv, int argc)
{
        struct farhand_command command = command_of(argv + 1);
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, &error);
        struct farhand_taken taken;
        int r = p ? farhand_process_collect(p, 1000, &error) : error.code;
        (void)argc;
        do {
                r = r < 0 ? r : farhand_process_yield(p, atoi(argv[0]), &taken, &error);
                if (r < 0)
                        break;
                printf("yield %d %zu %zu %" PRIu64 " %.20s\n", r, taken.n, taken.head_bytes,
                       taken.omitted_bytes, taken.bytes);
                fflush(stdout);
                free(taken.bytes);
                if (r > 0)
                        (void)farhand_process_write(p, "\n", 1, NULL);
        } while (r > 0);
        say("over", r);
}

struct listener {
        const char *name;
        uint64_t bytes;
        bool is_told;
};

static unsigned closed_count;

static void on_output(struct farhand_process *p, void *arg, enum farhand_stream stream, const void *bytes,
                      size_t n)
{
        struct listener *l = arg;
        (void)p, (void)bytes, (void)stream;
        l->bytes += n;
}

static void on_gap(struct farhand_process *p, void *arg, uint64_t first, uint64_t last, uint64_t bytes)
{
        struct listener *l = arg;
        (void)p;
        printf("%s gap %" PRIu64 " %d\n", l->name, first, last >= first && bytes > 0);
        l->bytes += bytes;
}

static void on_closed(struct farhand_process *p, void *arg)
{
        struct listener *l = arg;
        struct farhand_exit end = { .code = -1 };
        (void)farhand_process_has_exited(p, &end);
        printf("%s %" PRIu64 " %d\n", l->name, l->bytes, end.code);
        closed_count++;
}

static void on_failed(struct farhand_process *p, void *arg, const struct farhand_error *e)
{
        (void)p, (void)arg;
        error = *e;
        say("failed", e->code);
        is_over = true;
}

static const struct farhand_process_events events = {
        .on_output = on_output, .on_closed = on_closed, .on_failed = on_failed, .on_gap = on_gap
};

/* BYTES COMMAND: a second listener comes when the first has so many bytes, and a third when all is over. */
static void late(char **argv, int argc)
{
        struct listener first = { .name = "first" }, second = { .name = "second" },
                        third = { .name = "third" };
        struct farhand_command command = command_of(argv + 1);
        struct farhand_process *p = farhand_start(f, &command, &events, &first, &error);
        uint64_t wanted = strtoull(argv[0], NULL, 10);
        (void)argc;
        while (!is_over && first.bytes < wanted)
                (void)farhand_wait(f, -1, &error);
        (void)farhand_adopt(f, farhand_process_id(p), 0, &events, &second, &error);
        (void)farhand_process_write(p, "\n", 1, NULL);
        while (!is_over && closed_count < 2)
                (void)farhand_wait(f, -1, &error);
        (void)farhand_adopt(f, farhand_process_id(p), farhand_process_last_seq(p), &events, &third, &error);
        while (!is_over && closed_count < 3)
                (void)farhand_wait(f, -1, &error);
        struct farhand_snapshot s;
        int r = farhand_snapshot(f, farhand_process_id(p), 1000, -1, &s, &error);
        say("snapshot", r);
        if (r < 0)
                return;
        printf("%zu %d %d %d %d\n", s.out_bytes, s.out_omitted_bytes + s.out_bytes == first.bytes,
               s.is_truncated, s.is_closed, s.exit.code);
        farhand_snapshot_release(&s);
}

/* ---- the environment and files ---- */

static void environment(char **argv, int argc)
{
        struct farhand_environment *e;
        char *status;
        (void)argv, (void)argc;
        int r = farhand_environment_info(f, 30000, &e, &error);
        say("info", r);
        if (r == 0)
                printf("%s %s %s\n", e->shell_path, e->cwd ? e->cwd : "-",
                       e->executor_name ? e->executor_name : "-");
        if (r == 0)
                farhand_environment_free(e);
        r = farhand_environment_status(f, 30000, &status, &error);
        say(r == 0 ? status : "status", r);
        if (r == 0)
                free(status);
}

static uint64_t newest, total;
static unsigned steps;

static void on_progress(struct farhand_file *file, void *arg, uint64_t done_bytes, uint64_t total_bytes)
{
        (void)file, (void)arg;
        if (done_bytes <= newest)
                say("backwards", 1);
        newest = done_bytes;
        total = total_bytes;
        steps++;
}

/* FROM TO: copies a file of the server, and says what the progress was. */
static void copy(char **argv, int argc)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        char buf[65536];
        int64_t n;
        (void)argc;
        options.on_progress = on_progress;
        struct farhand_file *from = farhand_file_open(f, argv[0], &options, &error);
        options.mode = FARHAND_FILE_REPLACE;
        options.on_progress = NULL;
        struct farhand_file *to = farhand_file_open(f, argv[1], &options, &error);
        while (farhand_file_wait(from, -1, &error) == 0 &&
               (n = farhand_file_read(from, buf, sizeof(buf), &error)) > 0)
                for (int64_t at = 0, some; at<n; at += some> 0 ? some : 0)
                        if ((some = farhand_file_write(to, buf + at, (size_t)(n - at), &error)) == -EAGAIN)
                                (void)farhand_file_wait(to, -1, &error);
        printf("read %" PRIu64 " %d %d\n", newest, total == newest, steps > 1);
        while ((n = farhand_file_finish(to, &error)) == -EAGAIN)
                (void)farhand_file_wait(to, -1, &error);
        say("finish", (int)n);
        farhand_file_free(from);
        farhand_file_free(to);
        /* The same file again, now with the progress of what is written. */
        newest = steps = 0;
        options.on_progress = on_progress;
        to = farhand_file_open(f, argv[1], &options, &error);
        for (int i = 0; i < 20; i++)
                for (int64_t at = 0, some; at<(int64_t)sizeof(buf); at += some> 0 ? some : 0)
                        if ((some = farhand_file_write(to, buf, sizeof(buf) - (size_t)at, &error)) == -EAGAIN)
                                (void)farhand_file_wait(to, -1, &error);
        while ((n = farhand_file_finish(to, &error)) == -EAGAIN)
                (void)farhand_file_wait(to, -1, &error);
        printf("written %" PRIu64 " %d\n", newest, total == UINT64_MAX);
        farhand_file_free(to);
}

static void on_entry(void *arg, const char *path, bool is_directory)
{
        (void)arg;
        printf("%s %s\n", is_directory ? "directory" : "file", path);
}

static void on_error(void *arg, const char *path, const char *text)
{
        (void)arg;
        printf("error %s %s\n", path, text);
}

/* DIRECTORY: makes a tree there, copies it, links to it, and walks. */
static void tree(char **argv, int argc)
{
        struct farhand_walk all = FARHAND_WALK_INIT;
        char from[4096], to[4096], link[4096], file[4096];
        (void)argc;
        (void)snprintf(from, sizeof(from), "%s/from", argv[0]);
        (void)snprintf(to, sizeof(to), "%s/to", argv[0]);
        (void)snprintf(link, sizeof(link), "%s/link", argv[0]);
        (void)snprintf(file, sizeof(file), "%s/from/\xff", argv[0]); /* a name that is not UTF-8 */
        say("directory", farhand_make_directory(f, from, false, &error));
        say("file", farhand_write_file(f, file, "x", 1, -1, &error));
        say("copy", farhand_copy(f, from, to, false, &error) < 0);
        say("copy", farhand_copy(f, from, to, true, &error));
        say("link", farhand_symlink(f, "from", link, &error));
        all.on_entry = on_entry;
        all.on_error = on_error;
        say("walk", farhand_walk(f, argv[0], &all, &error));
        all.follow_links = true;
        say("walk", farhand_walk(f, argv[0], &all, &error));
        all.max_entries = 1;
        say("walk", farhand_walk(f, argv[0], &all, &error));
        say("walk", farhand_walk(f, "from", &all, &error) < 0);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                void (*run)(char **argv, int argc);
        } table[] = { { "http", http },   { "fetch", fetch }, { "watch", watch },
                      { "yield", yield }, { "late", late },   { "environment", environment },
                      { "copy", copy },   { "tree", tree } };
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (argc < 3)
                return 2;
        options.farhand = getenv("FARHAND_BIN");
        options.url = strcmp(argv[2], "-") == 0 ? NULL : argv[2];
        f = farhand_connect(&options, &error);
        if (!f)
                return say("connect", error.code), 0;
        for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
                if (strcmp(argv[1], table[i].name) == 0)
                        table[i].run(argv + 3, argc - 3);
        farhand_free(f);
        return 0;
}
