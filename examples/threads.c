/* threads: starts a server of its own, and has several threads run commands there, each with a client of its own.
 *
 *     threads COUNT COMMAND [ARGUMENT...]
 *
 * However this program ends, the server and its commands end with it.
 *
 *     cc threads.c $(pkg-config --cflags --libs farhand) -pthread -o threads
 */
#include <farhand/farhand.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define THREADS_MAX 64

struct job {
        pthread_t thread;
        const char *url;
        const char *const *argv;
        int number;
        int result; /* negative: failed */
};

static void *run(void *arg)
{
        struct job *job = arg;
        struct farhand_error error = { 0 };
        struct farhand_output output;
        char variable[32];
        (void)snprintf(variable, sizeof(variable), "NUMBER=%d", job->number);
        const char *const env[] = { variable, NULL };

        struct farhand_options options = FARHAND_OPTIONS_INIT;
        options.url = job->url;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = job->argv;
        command.env = env;

        struct farhand *f = farhand_connect(&options, &error);
        job->result =
                f ? farhand_communicate(f, &command, NULL, 0, 1 << 20, -1, &output, &error) : error.code;
        if (job->result < 0) {
                fprintf(stderr, "thread %d: %s\n", job->number, error.text);
        } else {
                printf("thread %d: exit code %d: %s", job->number, output.exit.code, output.out);
                free(output.out);
                free(output.err);
        }
        farhand_free(f);
        return NULL;
}

/* Returns how many have failed. */
static int run_all(const char *url, int count, const char *const *argv)
{
        static struct job jobs[THREADS_MAX];
        int started = 0, failed = 0;
        for (; started < count; started++) {
                jobs[started] = (struct job){ .url = url, .argv = argv, .number = started };
                if (pthread_create(&jobs[started].thread, NULL, run, &jobs[started]) != 0)
                        break;
        }
        for (int i = 0; i < started; i++) {
                pthread_join(jobs[i].thread, NULL);
                failed += jobs[i].result < 0;
        }
        return failed + count - started;
}

int main(int argc, char **argv)
{
        int count = argc < 3 ? 0 : atoi(argv[1]);
        if (count < 1 || count > THREADS_MAX) {
                fprintf(stderr, "usage: threads COUNT COMMAND [ARGUMENT...], with COUNT from 1 to %d\n",
                        THREADS_MAX);
                return 2;
        }

        /* A unix socket in a directory of our own: on a port every user of this machine could run commands as us. */
        char directory[] = "/tmp/threads-XXXXXX", listen[64];
        if (!mkdtemp(directory)) {
                perror("threads: mkdtemp");
                return EXIT_FAILURE;
        }
        (void)snprintf(listen, sizeof(listen), "unix:%s/socket", directory);

        struct farhand_error error;
        struct farhand_server_options options = FARHAND_SERVER_OPTIONS_INIT;
        options.listen = listen;
        struct farhand_server *server = farhand_server_start(&options, &error);
        int failed = 1;
        if (server)
                failed = run_all(farhand_server_url(server), count, (const char *const *)argv + 2);
        else
                fprintf(stderr, "threads: %s\n", error.text);
        farhand_server_free(server); /* removes its socket */
        (void)rmdir(directory);
        return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
