/* watch: runs several shell commands side by side, and prints their output as it comes.
 *
 *     watch URL COMMAND...
 *
 * One client has all of them, and nothing here blocks but poll(): this is how the library lives in a program with a loop of its own.
 *
 *     cc watch.c $(pkg-config --cflags --libs farhand) -o watch
 */
#include <farhand/farhand.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static size_t running, failed;

/* The arg of each process is its command, which is its name here. */

static void on_output(struct farhand_process *p, void *arg, enum farhand_stream stream, const void *bytes,
                      size_t n)
{
        (void)p;
        printf("%s, %s: %.*s", (const char *)arg, stream == FARHAND_STDERR ? "stderr" : "stdout", (int)n,
               (const char *)bytes);
        fflush(stdout);
}

static void on_closed(struct farhand_process *p, void *arg)
{
        struct farhand_exit end = { .code = -1 };
        (void)farhand_process_has_exited(p, &end);
        printf("%s: exit code %d\n", (const char *)arg, end.code);
        farhand_process_free(p);
        running--;
}

static void on_failed(struct farhand_process *p, void *arg, const struct farhand_error *error)
{
        fprintf(stderr, "%s: %s\n", (const char *)arg, error->text);
        farhand_process_free(p);
        running--;
        failed++;
}

/* The connection is there, or back: for a client that has just connected there is something to start. */
static void on_state(struct farhand *f, void *arg, int state, const char *text)
{
        static const struct farhand_process_events events = { .on_output = on_output,
                                                              .on_closed = on_closed,
                                                              .on_failed = on_failed };
        char **commands = arg;
        if (state == FARHAND_RECOVERING)
                fprintf(stderr, "watch: %s; trying again\n", text);
        if (state != FARHAND_READY || running > 0)
                return;
        for (; *commands; commands++) {
                const char *const argv[] = { "sh", "-c", *commands, NULL };
                struct farhand_command command = FARHAND_COMMAND_INIT;
                struct farhand_error error;
                command.argv = argv;
                if (farhand_start(f, &command, &events, *commands, &error))
                        running++;
                else
                        fprintf(stderr, "%s: %s\n", *commands, error.text);
        }
}

int main(int argc, char **argv)
{
        struct farhand_error error;
        if (argc < 3) {
                fprintf(stderr, "usage: watch URL COMMAND...\n");
                return 2;
        }

        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (strcmp(argv[1], "-") != 0)
                options.url = argv[1];
        options.on_state = on_state;
        options.arg = argv + 2;
        struct farhand *f = farhand_new(&options, &error);
        int r = f ? 0 : error.code;
        while (r == 0 && (farhand_get_state(f) == FARHAND_CONNECTING || running > 0)) {
                struct pollfd fds[] = { { .fd = farhand_fd(f),
                                          .events = POLLIN } }; /* and what else there is */
                if (poll(fds, 1, farhand_timeout_ms(f)) < 0 && errno != EINTR) {
                        perror("watch: poll");
                        break;
                }
                r = farhand_step(f, &error);
        }
        if (r < 0)
                fprintf(stderr, "watch: %s\n", error.text);
        farhand_free(f);
        return r < 0 || failed > 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
