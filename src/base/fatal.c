/* fatal: ends a program that cannot go on, after one line on standard error. */
#include "base/fatal.h"

#include "base/errno_text.h"
#include "base/errout.h"

#include <poll.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#define TEXT_BYTES 256
#define SAY_MS 1000 /* how long to wait for a slow reader of stderr */

static struct {
        const char *path;
        dev_t dev;
        ino_t ino;
        pid_t owner;
} to_remove;

void fatal_removes(const char *path, dev_t dev, ino_t ino)
{
        to_remove.path = path;
        to_remove.dev = dev;
        to_remove.ino = ino;
        to_remove.owner = getpid();
}

static void remove_file(void)
{
        struct stat st;
        if (to_remove.path && to_remove.owner == getpid() && lstat(to_remove.path, &st) == 0 &&
            st.st_dev == to_remove.dev && st.st_ino == to_remove.ino)
                (void)unlink(to_remove.path);
}

void fatal(const char *what, int os_errno)
{
        char text[TEXT_BYTES];
        int n = os_errno == 0 ? snprintf(text, sizeof(text), "fatal: %s\n", what)
                              : snprintf(text, sizeof(text), "fatal: %s: %s\n", what, errno_text(os_errno));
        remove_file();
        struct pollfd room = { .fd = STDERR_FILENO, .events = POLLOUT };
        (void)poll(&room, 1, SAY_MS); /* the wait has an end, because a pipe may never be read */
        if (n > 0)
                (void)errout_write(slice_from(text, MIN((size_t)n, sizeof(text) - 1)));
        _exit(1);
}

void must_failed(const char *cond, const char *file, int line)
{
        char text[512];
        int n = snprintf(text, sizeof(text), "fatal: %s:%d: must(%s)\n", file, line, cond);

        if (n > 0)
                (void)errout_write(slice_from(text, MIN((size_t)n, sizeof(text) - 1)));
        abort();
}
