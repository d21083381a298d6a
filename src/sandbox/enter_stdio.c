/* enter_stdio: checks the standard descriptors of a command and opens its terminal again inside of the view.
 *
 * The standard descriptors are the only ones that come from outside of the sandbox. A descriptor also leads to its place on
 * the machine: `..` of a directory leads out, and a terminal or a file can be changed through the mount on which it was
 * opened. It makes raw system calls only, as all code between clone and execve does.
 */
#include "sandbox/enter_view_internal.h"
#include "sandbox/landlock.h"

#include <errno.h>
#include <sys/sysmacros.h>

/* The major device numbers of pseudo-terminals. */
#define PTS_MAJOR_FIRST 136
#define PTS_MAJOR_LAST 143

static bool is_terminal(const struct stat *st)
{
        unsigned number = major(st->st_rdev);
        return S_ISCHR(st->st_mode) && number >= PTS_MAJOR_FIRST && number <= PTS_MAJOR_LAST;
}

/* Allows the command to open a standard file again with the same access, as programs do by /dev/stdin and similar names. */
static int allow_again(const struct landlock *l, int fd, const struct stat *st)
{
        long flags = sys_call3(SYS_fcntl, fd, F_GETFL, 0);
        if (flags < 0)
                return (int)flags;
        if (S_ISCHR(st->st_mode))
                return landlock_allow(l, fd, false, LANDLOCK_DEVICE);
        int r = (flags & O_ACCMODE) != O_WRONLY ? landlock_allow(l, fd, false, LANDLOCK_INPUT) : 0;
        return r == 0 && (flags & O_ACCMODE) != O_RDONLY ? landlock_allow(l, fd, false, LANDLOCK_OUTPUT) : r;
}

int enter_stdio_allow(const struct landlock *l, const struct enter_stdio *io)
{
        for (size_t i = 0; io && i < ARRAY_LEN(io->fds); i++) {
                struct stat st;
                int r = sys_fstat(io->fds[i], &st);
                if (r == 0 && S_ISDIR(st.st_mode))
                        r = -EISDIR;
                /* Landlock has no rules for pipes and sockets. */
                if (r == 0 && (S_ISREG(st.st_mode) || S_ISCHR(st.st_mode) || S_ISBLK(st.st_mode)))
                        r = allow_again(l, io->fds[i], &st);
                if (r < 0)
                        return r;
        }
        return 0;
}

int enter_stdio_reopen(struct enter_stdio *io, int dev)
{
        struct stat st, console;
        int fd = sys_openat(dev, "console", O_RDWR | O_NOCTTY);
        int r = fd < 0 ? fd : sys_fstat(fd, &console);
        for (size_t i = 0; r == 0 && i < ARRAY_LEN(io->fds); i++) {
                r = sys_fstat(io->fds[i], &st);
                if (r < 0 || !is_terminal(&st))
                        continue;
                if (st.st_dev == console.st_dev && st.st_ino == console.st_ino)
                        io->fds[i] = fd;
                else
                        r = -EXDEV; /* another terminal than the one that was mounted */
        }
        return r;
}

int enter_stdio_terminal(const struct enter_stdio *io)
{
        for (size_t i = 0; io && i < ARRAY_LEN(io->fds); i++) {
                struct stat st;
                if (sys_fstat(io->fds[i], &st) == 0 && is_terminal(&st))
                        return io->fds[i];
        }
        return -1;
}
