/* changes: tells what changes below a directory where a server is, as it happens.
 *
 *     changes URL DIRECTORY
 *
 * URL is ws://HOST:PORT, wss://HOST or unix:/PATH; `-` is this machine, by a server that ends with this program.
 *
 *     cc changes.c $(pkg-config --cflags --libs farhand) -o changes
 */
#include <farhand/farhand.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_over;

static void on_started(struct farhand_watch *w, void *arg)
{
        (void)w;
        printf("watching %s\n", (const char *)arg);
        fflush(stdout);
}

static void on_change(struct farhand_watch *w, void *arg, enum farhand_change kind, const char *path,
                      const char *from)
{
        static const char *const words[] = { [FARHAND_CREATED] = "created",
                                             [FARHAND_MODIFIED] = "modified",
                                             [FARHAND_REMOVED] = "removed",
                                             [FARHAND_RENAMED] = "renamed" };
        (void)w;
        printf("%s %s%s%s\n", words[kind], path, from ? ", which was " : "", from ? from : "");
        fflush(stdout);
        /* When the directory itself goes, nothing follows. */
        is_over = kind == FARHAND_REMOVED && strcmp(path, arg) == 0;
}

/* Also when the connection was lost and is back: nobody knows what happened meanwhile. */
static void on_overflow(struct farhand_watch *w, void *arg)
{
        (void)w, (void)arg;
        printf("something was missed: look again\n");
        fflush(stdout);
}

static void on_failed(struct farhand_watch *w, void *arg, const struct farhand_error *error)
{
        (void)w;
        fprintf(stderr, "%s: %s\n", (const char *)arg, error->text);
        is_over = true;
}

int main(int argc, char **argv)
{
        static const struct farhand_watch_events events = { .on_started = on_started,
                                                            .on_change = on_change,
                                                            .on_overflow = on_overflow,
                                                            .on_failed = on_failed };
        struct farhand_error error;
        if (argc != 3) {
                fprintf(stderr, "usage: changes URL DIRECTORY\n");
                return 2;
        }

        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (strcmp(argv[1], "-") != 0)
                options.url = argv[1];
        struct farhand *f = farhand_connect(&options, &error);
        int r = f && farhand_watch_start(f, argv[2], true, &events, argv[2], &error) ? 0 : error.code;
        while (r == 0 && !is_over)
                r = farhand_wait(f, -1, &error);
        if (r < 0)
                fprintf(stderr, "changes: %s\n", error.text);
        farhand_free(f);
        return r < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}
