/* flush: gets the errors that a close would report, while the descriptor stays open. Unlike fsop.c it works without paths. */
#include "fsop/fsop.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

int fsop_flush(int fd)
{
        /* Closing a second descriptor flushes too: every close does, not only the last. */
        int again = fcntl(fd, F_DUPFD_CLOEXEC, 3);
        if (again < 0)
                return 0; /* without a second descriptor the errors cannot be known; the real close ignores them */
        return close(again) < 0 && errno != EINTR ? -errno : 0;
}
