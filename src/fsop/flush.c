/* flush: the errors of a close, while the descriptor is still open. Apart from fsop.c: it knows no paths, and is as right
 * where those are stood in for. */
#include "fsop/fsop.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int fsop_flush(int fd)
{
        /* Every close flushes, not only the last. */
        int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (again < 0)
                return 0; /* no descriptor to ask with: as good as it was */
        return close(again) < 0 && errno != EINTR ? -errno : 0;
}
