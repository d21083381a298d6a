/* A program that uses libfarhand, for the tests: library_host WHAT [ARGUMENT...]. Prints one line for each thing that it finds out. */
#include <errno.h>
#include <farhand/farhand.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CALLS_MAX 1024

static struct farhand_error error;
static struct farhand_options options = FARHAND_OPTIONS_INIT;

static int say(const char *what, int r)
{
        printf("%s %d %s\n", what, r, r < 0 ? error.text : "");
        fflush(stdout);
        return 0;
}

static long ms(void)
{
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* Connects to a server. The first argument is its URL, or a program that speaks to us on its stdio; more arguments are its own. */
static struct farhand *connect_to(char **argv)
{
        if (strncmp(argv[0], "unix:", 5) == 0 || strncmp(argv[0], "ws:", 3) == 0)
                options.url = argv[0];
        else
                options.argv = (const char *const *)argv;
        struct farhand *f = farhand_connect(&options, &error);
        if (!f) {
                say("connect", error.code);
                exit(0);
        }
        return f;
}

/* ---- a server of our own ---- */

static int serve(char **argv)
{
        struct farhand_server_options o = FARHAND_SERVER_OPTIONS_INIT;
        char byte;
        o.listen = argv[0];
        o.farhand = argv[1];
        o.start_timeout_ms = argv[2] ? (unsigned)atoi(argv[2]) : 0;
        struct farhand_server *s = farhand_server_start(&o, &error);
        if (!s)
                return say("start", error.code);
        printf("%s %d\n", farhand_server_url(s) ? farhand_server_url(s) : "none", farhand_server_fd(s) >= 0);
        fflush(stdout);
        while (read(STDIN_FILENO, &byte, 1) > 0)
                ;
        farhand_server_free(s);
        return say("freed", 0);
}

static int check(char **argv)
{
        return say("check", farhand_listen_url_check(argv[0], &error));
}

/* ---- hostile servers ---- */

static unsigned exits, answers, fails;

static void on_exited(struct farhand_process *p, void *arg, const struct farhand_exit *end)
{
        (void)p, (void)arg, (void)end;
        exits++;
}

static void on_failed(struct farhand_process *p, void *arg, const struct farhand_error *e)
{
        (void)arg;
        fails++;
        error = *e;
        farhand_process_free(p);
}

static const struct farhand_process_events events = { .on_exited = on_exited, .on_failed = on_failed };
static const char *const command_argv[] = { "x", NULL };

static void on_answer(struct farhand *f, void *arg, const char *result, const struct farhand_error *e)
{
        (void)f, (void)arg, (void)result, (void)e;
        answers++;
}

static int communicate(char **argv)
{
        struct farhand *f = connect_to(argv);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        struct farhand_output output = { 0 };
        command.argv = command_argv;
        int r = farhand_communicate(f, &command, NULL, 0, 1000, 20000, &output, &error);
        say("communicate", r);
        printf("code %d out %zu\n", r == 0 ? output.exit.code : 0, output.out_bytes);
        free(output.out);
        free(output.err);
        farhand_free(f);
        return 0;
}

/* Prints how many exits of one process are reported. */
static int exited(char **argv)
{
        struct farhand *f = connect_to(argv);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = command_argv;
        struct farhand_process *p = farhand_start(f, &command, &events, NULL, &error);
        say("wait", farhand_process_wait(p, 20000, NULL, &error));
        say("exits", (int)exits);
        farhand_free(f);
        return 0;
}

/* Prints how often a paused client has something to do while the server is gone. */
static int paused(char **argv)
{
        struct farhand *f = connect_to(argv);
        int steps = 0;
        farhand_pause(f, true);
        for (long end = ms() + 700; ms() < end; steps++)
                (void)farhand_wait(f, 700, NULL);
        say("steps", steps);
        farhand_pause(f, false);
        int r = 0;
        for (long end = ms() + 10000; r == 0 && ms() < end;)
                r = farhand_wait(f, 5000, &error);
        say("after", r < 0);
        farhand_free(f);
        return 0;
}

/* Prints how much is queued for a server that pings and does not read. */
static int pinged(char **argv)
{
        struct farhand *f = connect_to(argv);
        size_t most = 0;
        while (farhand_get_state(f) == FARHAND_READY) {
                (void)farhand_wait(f, 1000, NULL);
                most = farhand_queued_bytes(f) > most ? farhand_queued_bytes(f) : most;
        }
        say("queued", most < (1 << 20) ? 0 : 1);
        farhand_free(f);
        return 0;
}

/* Prints how long it takes until a lost connection is back. */
static int recover(char **argv)
{
        struct farhand *f = connect_to(argv);
        long begin = ms();
        while (farhand_get_state(f) == FARHAND_READY)
                (void)farhand_wait(f, 1000, &error);
        while (farhand_get_state(f) == FARHAND_RECOVERING)
                (void)farhand_wait(f, 1000, &error);
        say("ready", farhand_get_state(f) == FARHAND_READY);
        say("slow", ms() - begin > 5000);
        farhand_free(f);
        return 0;
}

/* Prints how long it takes to recover a process whose server reports its events backwards. */
static int adopt(char **argv)
{
        struct farhand *f = connect_to(argv);
        long begin = ms();
        struct farhand_process *p = farhand_adopt(f, "p", 0, &events, NULL, &error);
        while (p && !fails && farhand_wait(f, 10000, NULL) == 0)
                ;
        say("failed", (int)fails);
        say("slow", ms() - begin > 5000);
        farhand_free(f);
        return 0;
}

/* Makes calls that are never answered, and gives them up. */
static int unanswered(char **argv)
{
        struct farhand *f = connect_to(argv);
        char *result;
        int r = 0;
        for (int i = 0; i < CALLS_MAX + 10 && (r == 0 || r == -ETIMEDOUT); i++)
                r = farhand_call_wait(f, "x", NULL, i % 2 ? FARHAND_REPEAT : 0, 0, &result, &error);
        say("last", r);
        farhand_free(f);
        return 0;
}

/* Makes as many calls as there may be: what needs one more fails with an error, and calls no callback. */
static int crowded(char **argv)
{
        struct farhand *f = connect_to(argv);
        int n = 0;
        while (farhand_call(f, "x", NULL, 0, on_answer, NULL, &error) == 0)
                n++;
        say("calls", n);
        struct farhand_process *p = farhand_adopt(f, "p", 0, &events, NULL, &error);
        say("adopt", p ? 0 : error.code);
        say("fails", (int)fails);
        farhand_free(f);
        return 0;
}

/* Frees a process that is the argument of a callback: the call of that callback is answered all the same. */
static int argument(char **argv)
{
        struct farhand *f = connect_to(argv);
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = command_argv;
        struct farhand_process *p = farhand_start(f, &command, NULL, NULL, &error);
        (void)farhand_call(f, "x", NULL, 0, on_answer, p, &error);
        farhand_process_free(p);
        for (long end = ms() + 10000; ms() < end && !answers;)
                (void)farhand_wait(f, 1000, NULL);
        say("answers", (int)answers);
        farhand_free(f);
        return 0;
}

/* Sends to a server that reads nothing: what waits to be sent is bounded, and the program goes on. */
static int flooded(char **argv)
{
        struct farhand *f = connect_to(argv);
        size_t n = (size_t)60 << 20;
        char *params = malloc(n + 3);
        int r = 0;
        memset(params, ' ', n);
        memcpy(params + n, "{}", 3);
        for (int i = 0; i < 8 && r == 0; i++)
                r = farhand_call(f, "x", params, 0, on_answer, NULL, &error);
        say("call", r);
        free(params);
        farhand_free(f);
        return 0;
}

/* ---- HTTP, watches, snapshots ---- */

static int fetch(char **argv)
{
        struct farhand *f = connect_to(argv);
        struct farhand_http_request request = FARHAND_HTTP_REQUEST_INIT;
        struct farhand_http_result result;
        request.url = "http://x/";
        int r = farhand_http_fetch(f, &request, 1 << 20, 20000, &result, &error);
        say("fetch", r);
        if (r == 0) {
                printf("body %s\n", result.body);
                farhand_http_result_release(&result);
        }
        farhand_free(f);
        return 0;
}

static unsigned changes, overflows;
static bool is_last;

static void on_change(struct farhand_watch *w, void *arg, enum farhand_change kind, const char *path,
                      const char *from)
{
        (void)w, (void)arg, (void)from, (void)kind;
        changes++;
        is_last = strcmp(path, "/last") == 0;
}

static void on_overflow(struct farhand_watch *w, void *arg)
{
        (void)w, (void)arg;
        overflows++;
}

static int watch(char **argv)
{
        static const struct farhand_watch_events watch_events = { .on_change = on_change,
                                                                  .on_overflow = on_overflow };
        struct farhand *f = connect_to(argv);
        struct farhand_watch *w = farhand_watch_start(f, "/x", true, &watch_events, NULL, &error);
        for (long end = ms() + 20000; !is_last && ms() < end;)
                (void)farhand_wait(f, 1000, NULL);
        farhand_watch_free(w);
        say("changes", (int)changes);
        say("overflows", (int)overflows);
        farhand_free(f);
        return 0;
}

static int snapshot(char **argv)
{
        struct farhand *f = connect_to(argv);
        struct farhand_snapshot s;
        int r = farhand_snapshot(f, "p", 1000, 20000, &s, &error);
        say("snapshot", r);
        if (r == 0) {
                printf("%zu %zu %d\n", s.out_bytes, s.err_bytes, s.is_truncated);
                farhand_snapshot_release(&s);
        }
        farhand_free(f);
        return 0;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(char **argv);
        } table[] = { { "serve", serve },     { "check", check },       { "communicate", communicate },
                      { "exited", exited },   { "paused", paused },     { "pinged", pinged },
                      { "adopt", adopt },     { "recover", recover },   { "unanswered", unanswered },
                      { "crowded", crowded }, { "argument", argument }, { "flooded", flooded },
                      { "fetch", fetch },     { "watch", watch },       { "snapshot", snapshot } };
        for (size_t i = 0; argc > 2 && i < sizeof(table) / sizeof(*table); i++)
                if (strcmp(argv[1], table[i].name) == 0)
                        return table[i].run(argv + 2);
        return 2;
}
