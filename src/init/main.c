/* farhand-init: process 1 of a sandbox that bwrap has built (proc/stage.h). Started by bwrap and nobody else. */
#include "proc/stage.h"

#include "sandbox/bwrap.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "fh-init"

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[1], BWRAP_TEST_OPTION) == 0)
                return puts(BWRAP_TEST_WORDS) < 0; /* bwrap has brought us here: that was the question */
        int type = 0;
        socklen_t n = sizeof(type);
        if (getsockopt(BWRAP_FD_SOCKET, SOL_SOCKET, SO_TYPE, &type, &n) < 0 || type != SOCK_SEQPACKET) {
                fprintf(stderr, "farhand-init is started by farhand, in a sandbox\n");
                return 2;
        }
        /* As the processes of farhand are called. */
        size_t room = argc > 0 ? strlen(argv[0]) : 0;
        for (size_t i = 0; i < room; i++)
                argv[0][i] = i < strlen(NAME) ? NAME[i] : 0;
        stage_run(BWRAP_FD_SOCKET);
}
