/* A program outside of the tree, for test_library.py: it has functions of its own with names that the library has inside of itself. */
#include <farhand/farhand.h>
#include <stdio.h>
#include <stdlib.h>

int buf_append(void);
int buf_append(void)
{
        return 7;
}

int json_parse(void);
int json_parse(void)
{
        return 8;
}

int main(int argc, char **argv)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_error error;
        options.farhand = argv[1];
        struct farhand *f = farhand_connect(&options, &error);
        if (!f)
                return fprintf(stderr, "%s\n", error.text), 1;
        const char *const command_argv[] = { "sh", "-c", "cat; exit 3", NULL };
        struct farhand_command command = FARHAND_COMMAND_INIT;
        command.argv = command_argv;
        struct farhand_output output;
        if (farhand_communicate(f, &command, "hello", 5, 1000, 30000, &output, &error) < 0)
                return fprintf(stderr, "%s\n", error.text), 1;
        printf("%s %d %d\n", output.out, output.exit.code, buf_append() + json_parse() + (argc > 99));
        free(output.out);
        free(output.err);
        farhand_free(f);
}
