/* exec_pair: makes the pair in the command's own process (exec_pair.h). */
#include "sandbox/exec_pair.h"

#include "base/sys.h"

#include <sys/socket.h>

int exec_pair_open(void)
{
        int ends[2];
        long r = sys_call4(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends);
        if (r < 0)
                return (int)r;
        r = sys_call3(SYS_dup3, ends[1], EXEC_PAIR_NUMBER, 0);
        sys_close(ends[1]);
        if (r >= 0)
                return ends[0];
        sys_close(ends[0]);
        return (int)r;
}
