/* farhand-init: the program that is process 1 of a sandbox that bwrap has built (keeper/farhand_init.h). Only bwrap starts it. */
#include "keeper/farhand_init.h"

#include "sandbox/bwrap.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "fh-init"

static bool has_socket(void)
{
        int type = 0;
        socklen_t n = sizeof(type);
        return getsockopt(BWRAP_FD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &n) == 0 && type == SOCK_SEQPACKET;
}

/* Serves the self-test of bwrap: prints a text to show that bwrap has started this program, and then waits, so that the caller
 * can find out whether another process may join its namespaces. */
static int test(void)
{
        char byte;
        if (puts(BWRAP_TEST_WORDS) < 0 || fflush(stdout) != 0)
                return 1;
        if (has_socket() && send(BWRAP_FD_SOCKET, "", 1, MSG_NOSIGNAL) == 1)
                (void)!read(BWRAP_FD_SOCKET, &byte, 1);
        return 0;
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], BWRAP_TEST_OPTION) == 0)
                return test();
        if (!has_socket()) {
                fprintf(stderr, "farhand-init is started by farhand, in a sandbox\n");
                return 2;
        }
        /* Gives this process the same kind of name as the other processes of farhand. */
        size_t room = argc > 0 ? strlen(argv[0]) : 0;
        for (size_t i = 0; i < room; i++)
                argv[0][i] = i < strlen(NAME) ? NAME[i] : 0;
        farhand_init_run(BWRAP_FD_SOCKET);
}
