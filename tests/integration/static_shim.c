/* static_shim: a small static program that the tests of ssh:// send in place of farhand. It tells a version, and starts the farhand
 * under test for everything else. PROGRAM and VERSION are texts that the compiler is given. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
        if (argc > 1 && strcmp(argv[1], "--version") == 0)
                return printf("farhand " VERSION "\n") < 0;
        argv[0] = PROGRAM;
        execv(PROGRAM, argv);
        perror(PROGRAM);
        return 126;
}
