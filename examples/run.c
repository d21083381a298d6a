/* run: runs a command where a server is, and prints what it wrote and how it ended.
 *
 *     run URL COMMAND [ARGUMENT...]
 *
 * URL is ws://HOST:PORT, wss://HOST or unix:/PATH; `-` is this machine, by a server that ends with this program.
 *
 *     cc run.c $(pkg-config --cflags --libs farhand) -o run
 */
#include <farhand/farhand.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct farhand_error *error)
{
        fprintf(stderr, "run: %s\n", error->text);
        return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
        struct farhand_error error;
        if (argc < 3) {
                fprintf(stderr, "usage: run URL COMMAND [ARGUMENT...]\n");
                return 2;
        }

        struct farhand_options options = FARHAND_OPTIONS_INIT;
        if (strcmp(argv[1], "-") != 0)
                options.url = argv[1];
        struct farhand *f = farhand_connect(&options, &error);
        if (!f)
                return fail(&error);

        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = (const char *const *)argv + 2;
        struct farhand_output output;
        /* No input, at most a mebibyte of each stream, as long as it takes. */
        if (farhand_communicate(f, &command, NULL, 0, 1 << 20, -1, &output, &error) < 0) {
                farhand_free(f);
                return fail(&error);
        }
        fwrite(output.out, 1, output.out_bytes, stdout);
        fwrite(output.err, 1, output.err_bytes, stderr);
        printf("exit code %d\n", output.exit.code);
        free(output.out);
        free(output.err);
        farhand_free(f);
        return EXIT_SUCCESS;
}
