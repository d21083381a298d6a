/* landlock_test: processes under a ruleset get exactly the rights that it gives, and none that an older ABI lacks. */
#include "unit.h"

#include "sandbox/landlock.h"

#include "base/fd.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define ABI_OLDEST 2
#define ABI_SCOPED 6

/* A tree with a writable directory, a writable file, and files without any right. */
struct place {
        char root[64];
        int in, out, file; /* O_PATH */
        int abi;
};

static void put(int dir, const char *name)
{
        _close_ int fd = openat(dir, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        ok(fd >= 0);
        eq_int(write(fd, "12345", 5), 5);
}

static void place_open(struct place *p)
{
        *p = (struct place){ .root = "/tmp/landlock-test-XXXXXX" };
        ok(mkdtemp(p->root) != NULL);
        _close_ int root = open(p->root, O_PATH | O_DIRECTORY | O_CLOEXEC);
        eq_int(mkdirat(root, "in", 0700), 0);
        eq_int(mkdirat(root, "out", 0700), 0);
        p->in = openat(root, "in", O_PATH | O_CLOEXEC);
        p->out = openat(root, "out", O_PATH | O_CLOEXEC);
        eq_int(mkdirat(p->in, "sub", 0700), 0);
        put(p->in, "kept");
        put(p->out, "kept");
        put(p->out, "file");
        p->file = openat(p->out, "file", O_PATH | O_CLOEXEC);
        p->abi = landlock_abi();
}

static void place_close(struct place *p)
{
        static const char *const names[] = { "sub/kept", "sub/moved", "kept", "new", "moved",
                                             "link",     "fifo",      "file", NULL };
        for (size_t i = 0; names[i]; i++) {
                unlinkat(p->in, names[i], 0);
                unlinkat(p->out, names[i], 0);
        }
        unlinkat(p->in, "sub", AT_REMOVEDIR);
        unlinkat(p->in, "dir", AT_REMOVEDIR);
        fd_close(p->in);
        fd_close(p->out);
        fd_close(p->file);
        char *in = mem_printf("%s/in", p->root), *out = mem_printf("%s/out", p->root);
        eq_int(rmdir(in), 0);
        eq_int(rmdir(out), 0);
        eq_int(rmdir(p->root), 0);
        free(in);
        free(out);
}

/* Valgrind does not know the system calls of Landlock. */
static bool is_usable(void)
{
        if (unit_is_valgrind())
                return false;
        if (landlock_abi() > 0)
                return true;
        print_message("skipped: the kernel has no Landlock that is of use\n");
        return false;
}

/* Restricts the process as sandbox/enter.h does. Returns 0 or -errno. */
static int apply(int abi, const int *writable_fds, size_t count)
{
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        struct landlock landlock;
        int r = landlock_begin(&landlock, LANDLOCK_WRITING, (uint32_t)abi);
        _close_ int ruleset = landlock.ruleset;
        for (size_t i = 0; i < count && r >= 0; i++) {
                struct stat st;
                r = fstat(writable_fds[i], &st) < 0
                            ? -errno
                            : landlock_allow(&landlock, writable_fds[i], S_ISDIR(st.st_mode), LANDLOCK_WRITE);
        }
        if (r < 0)
                return r;
        return syscall(446 /* landlock_restrict_self */, ruleset, 0) < 0 ? -errno : 0;
}

#define CHECK(step, cond)            \
        do {                         \
                if (!(cond))         \
                        return step; \
        } while (0)

/* Calls `fn` in a child that may write in `in` and to `file`, and returns its result: 0, or the number of the
 * step that failed. */
static int in_child(const struct place *p, int abi, int (*fn)(const struct place *p))
{
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                int writable[] = { p->in, p->file };
                if (apply(abi, writable, 2) < 0)
                        _exit(99);
                _exit(fn(p));
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static bool opens(int dir, const char *name, int flags)
{
        int fd = openat(dir, name, flags | O_CLOEXEC, 0600);
        if (fd >= 0)
                close(fd);
        return fd >= 0;
}

static int write_inside(const struct place *p)
{
        CHECK(1, opens(p->in, "new", O_WRONLY | O_CREAT | O_EXCL));
        CHECK(2, opens(p->in, "kept", O_RDWR | O_TRUNC));
        CHECK(3, mkdirat(p->in, "dir", 0700) == 0 && unlinkat(p->in, "dir", AT_REMOVEDIR) == 0);
        CHECK(4, symlinkat("kept", p->in, "link") == 0 && mkfifoat(p->in, "fifo", 0600) == 0);
        CHECK(5, renameat(p->in, "new", p->in, "sub/moved") == 0); /* into another directory */
        CHECK(6, linkat(p->in, "kept", p->in, "sub/kept", 0) == 0);
        CHECK(7, unlinkat(p->in, "kept", 0) == 0);
        return 0;
}

static int write_outside(const struct place *p)
{
        CHECK(1, !opens(p->out, "new", O_WRONLY | O_CREAT) && errno == EACCES);
        CHECK(2, !opens(p->out, "kept", O_RDWR) && errno == EACCES);
        CHECK(3, mkdirat(p->out, "dir", 0700) < 0 && errno == EACCES);
        CHECK(4, unlinkat(p->out, "kept", 0) < 0 && errno == EACCES);
        CHECK(5, symlinkat("x", p->out, "link") < 0 && errno == EACCES);
        CHECK(6, mkfifoat(p->out, "fifo", 0600) < 0 && errno == EACCES);
        CHECK(7, renameat(p->in, "kept", p->out, "moved") < 0);
        CHECK(8, renameat(p->out, "kept", p->in, "moved") < 0);
        CHECK(9, renameat(p->out, "kept", p->out, "moved") < 0 && errno == EACCES);
        CHECK(10, unlinkat(p->out, "file", 0) < 0 && errno == EACCES); /* only the content may be written */
        CHECK(11, opens(p->out, "kept", O_RDONLY));
        return 0;
}

/* Landlock can forbid truncating by name from ABI 3 on. */
static int truncate_outside(const struct place *p)
{
        char path[128];
        snprintf(path, sizeof(path), "%s/out/kept", p->root);
        CHECK(1, !opens(p->out, "kept", O_RDONLY | O_TRUNC) && errno == EACCES);
        CHECK(2, truncate(path, 0) < 0 && errno == EACCES);
        return 0;
}

static int write_file(const struct place *p)
{
        char path[128];
        snprintf(path, sizeof(path), "%s/out/file", p->root);
        int fd = openat(p->out, "file", O_RDWR | O_TRUNC | O_CLOEXEC);
        CHECK(1, fd >= 0 && write(fd, "x", 1) == 1);
        CHECK(2, truncate(path, 0) == 0);
        return 0;
}

TEST(writing_is_left_beneath_what_was_given_and_nowhere_else)
{
        if (!is_usable())
                skip();
        int newest = landlock_abi();
        for (int abi = ABI_OLDEST; abi <= newest; abi++) { /* each ABI stands for an older kernel */
                struct place p;
                place_open(&p);
                eq_int(in_child(&p, abi, write_outside), 0);
                eq_int(in_child(&p, abi, write_file), 0);
                if (abi >= 3)
                        eq_int(in_child(&p, abi, truncate_outside), 0);
                eq_int(in_child(&p, abi, write_inside), 0);
                place_close(&p);
        }
}

/* A pipe is in no directory, but programs open it by name, as in > /dev/stderr. */
static int use_what_is_open(UNUSED const struct place *p)
{
        int fds[2], master, slave;
        char name[64];
        CHECK(1, pipe(fds) == 0);
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[1]);
        CHECK(2, opens(AT_FDCWD, name, O_WRONLY));
        CHECK(3, openpty(&master, &slave, NULL, NULL, NULL) < 0); /* no rule allows /dev */
        return 0;
}

TEST(pipes_are_opened_again_by_name)
{
        if (!is_usable())
                skip();
        struct place p;
        place_open(&p);
        eq_int(in_child(&p, p.abi, use_what_is_open), 0);
        place_close(&p);
}

/* With a right for the terminal, a program can open it and change its settings. */
TEST(a_terminal_works_when_it_is_given)
{
        if (!is_usable())
                skip();
        int master, slave;
        char name[64];
        if (openpty(&master, &slave, name, NULL, NULL) < 0)
                skip(); /* no terminals here */
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                struct termios t;
                if (apply(landlock_abi(), &slave, 1) < 0)
                        _exit(99);
                int again = open(name, O_RDWR | O_NOCTTY | O_CLOEXEC);
                _exit(again < 0                           ? 1
                      : tcgetattr(again, &t) < 0          ? 2
                      : tcsetattr(again, TCSANOW, &t) < 0 ? 3
                                                          : 0);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
        close(master);
        close(slave);
}

static struct sockaddr_un listener; /* an abstract address */
static socklen_t listener_len;

static int reach_outside(UNUSED const struct place *p)
{
        CHECK(1, kill(getppid(), 0) < 0 && errno == EPERM);
        CHECK(2, kill(getpid(), 0) == 0);
        pid_t pid = fork();
        CHECK(3, pid >= 0);
        if (pid == 0)
                for (;;)
                        pause();
        int status;
        CHECK(4, kill(pid, SIGKILL) == 0 &&
                         waitpid(pid, &status, 0) == pid); /* a confined process can signal its own child */
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(5, fd >= 0 && connect(fd, (struct sockaddr *)&listener, listener_len) < 0 && errno == EPERM);
        return 0;
}

TEST(signals_and_abstract_sockets_stay_inside)
{
        if (!is_usable() || landlock_abi() < ABI_SCOPED)
                skip();
        struct place p;
        place_open(&p);
        _close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        listener = (struct sockaddr_un){ .sun_family = AF_UNIX };
        listener_len = sizeof(listener);
        eq_int(bind(fd, (struct sockaddr *)&listener, sizeof(sa_family_t)),
               0); /* the kernel chooses the name */
        eq_int(getsockname(fd, (struct sockaddr *)&listener, &listener_len), 0);
        eq_int(listen(fd, 1), 0);
        eq_int(in_child(&p, p.abi, reach_outside), 0);
        place_close(&p);
}

/* ---- reading ---- */

static bool can_read(int dir, const char *name)
{
        _close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC);
        return fd >= 0;
}

/* Restricts the process so that it can read `in` and only list `out`, except for one file in `out`; then tries that. */
static int read_some(const struct place *p)
{
        struct landlock landlock;
        CHECK(1, prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(2, landlock_begin(&landlock, LANDLOCK_READING, (uint32_t)p->abi) == 0);
        CHECK(3, landlock_allow(&landlock, p->in, true, LANDLOCK_READ) == 0);
        CHECK(4, landlock_allow(&landlock, p->out, true, LANDLOCK_LIST) == 0);
        CHECK(5, landlock_allow(&landlock, p->file, false, LANDLOCK_INPUT) == 0);
        CHECK(6, syscall(446, landlock.ruleset, 0) == 0);
        CHECK(7, can_read(p->in, "kept") && can_read(p->in, "sub") && can_read(p->in, "."));
        CHECK(8, can_read(p->out, ".") && can_read(p->out, "file"));
        CHECK(9, !can_read(p->out, "kept") && errno == EACCES);
        CHECK(10, open(p->root, O_RDONLY | O_DIRECTORY) < 0 && errno == EACCES);
        CHECK(11, openat(p->in, "kept", O_WRONLY) < 0 && errno == EACCES);
        CHECK(12, openat(p->out, "file", O_WRONLY) < 0 && errno == EACCES);
        return 0;
}

TEST(what_is_not_granted_cannot_be_read)
{
        struct place p;
        if (!is_usable())
                return;
        place_open(&p);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0)
                _exit(read_some(&p));
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
        place_close(&p);
}
