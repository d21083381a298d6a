/* fd_test: reading, writing and closing descriptors. */
#include "base/fd.h"

#include "base/mem.h"
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Returns a file in memory that holds `s`, and a path that opens it anew. */
static int file_with(struct slice s, char path[32])
{
        int fd = memfd_create("fd_test", MFD_CLOEXEC);
        ok(fd >= 0);
        eq_int(fd_write_all(fd, s), 0);
        snprintf(path, 32, "/proc/self/fd/%d", fd);
        return fd;
}

TEST(close_keeps_errno_and_takes_minus_one)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

        ok(fd >= 0);
        errno = ELOOP;
        eq_int(fd_close(-1), -1);
        eq_int(fd_close(fd), -1);
        eq_int(errno, ELOOP);
        eq_int(fcntl(fd, F_GETFD), -1);
}

TEST(taken_descriptor_stays_open)
{
        int kept;
        {
                _close_ int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                kept = TAKE_FD(fd);
                eq_int(fd, -1);
        }
        ok(fcntl(kept, F_GETFD) >= 0);
        fd_close(kept);
}

TEST(nonblock_goes_on_and_off)
{
        int fds[2];

        eq_int(pipe2(fds, O_CLOEXEC), 0);
        eq_int(fd_set_nonblock(fds[0], true), 0);
        ok(fcntl(fds[0], F_GETFL) & O_NONBLOCK);
        eq_int(fd_set_nonblock(fds[0], true), 0);
        eq_int(fd_set_nonblock(fds[0], false), 0);
        ok(!(fcntl(fds[0], F_GETFL) & O_NONBLOCK));
        fd_close(fds[0]);
        fd_close(fds[1]);
        eq_int(fd_set_nonblock(-1, true), -EBADF);
}

TEST(file_is_read_whole_up_to_the_limit)
{
        static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 8192, 100000 };
        char path[32];

        for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
                size_t n = sizes[i];
                _free_ char *bytes = mem_alloc(n + 1);
                memset(bytes, 'q', n + 1);
                _close_ int fd = file_with(slice_from(bytes, n), path);
                ok(fd >= 0);

                _buf_ struct buf b = BUF_INIT((size_t)1 << 20);
                eq_int(fd_read_file(path, n, &b), 0); /* just fits */
                eq_slice(buf_slice(&b), slice_from(bytes, n));
                buf_truncate(&b, 0);
                eq_int(fd_read_file(path, n + 1, &b), 0);
                eq_slice(buf_slice(&b), slice_from(bytes, n));
                if (n == 0)
                        continue;
                buf_truncate(&b, 0);
                eq_int(fd_read_file(path, n - 1, &b), -EFBIG);
                eq_u64(b.n, 0);
        }
}

TEST(file_is_appended_and_failure_adds_nothing)
{
        char path[32];
        _close_ int fd = file_with(S("0123456789"), path);
        _buf_ struct buf b = BUF_INIT(15);

        ok(fd >= 0);
        eq_int(buf_append(&b, S("head:")), 0);
        eq_int(fd_read_file(path, 9, &b), -EFBIG);
        eq_str(b.p, "head:");
        eq_int(fd_read_file(path, 100, &b), 0);
        eq_str(b.p, "head:0123456789");
        eq_int(fd_read_file(path, 100, &b), -EFBIG); /* the ceiling of the buf */
        eq_str(b.p, "head:0123456789");
}

TEST(files_without_a_size_are_read_to_their_end)
{
        _buf_ struct buf b = BUF_INIT((size_t)1 << 20);

        eq_int(fd_read_file("/proc/self/status", (size_t)1 << 20, &b), 0);
        ok(slice_starts(buf_slice(&b), S("Name:")));
        buf_truncate(&b, 0);
        eq_int(fd_read_file("/proc/self/status", 16, &b), -EFBIG);
        eq_int(fd_read_file("/dev/null", 16, &b), 0);
        eq_int(fd_read_file("/dev/zero", 100000, &b), -EFBIG);
        eq_u64(b.n, 0);
}

TEST(what_is_no_file_is_refused)
{
        _buf_ struct buf b = BUF_INIT(100);

        eq_int(fd_read_file("/", 100, &b), -EISDIR);
        eq_int(fd_read_file("/dev/null/x", 100, &b), -ENOTDIR);
        eq_int(fd_read_file("/nonexistent-file-of-fd-test", 100, &b), -ENOENT);
        eq_int(fd_read_file("", 100, &b), -ENOENT);
}

TEST(silent_fifo_does_not_block)
{
        char path[] = "/tmp/fd_test.XXXXXX", fifo[64];
        _buf_ struct buf b = BUF_INIT(100);

        ok(mkdtemp(path) != NULL);
        snprintf(fifo, sizeof(fifo), "%s/fifo", path);
        eq_int(mkfifo(fifo, 0600), 0);
        eq_int(fd_read_file(fifo, 100, &b), 0); /* without a writer a FIFO is empty */
        _close_ int writer = open(fifo, O_RDWR | O_CLOEXEC);
        ok(writer >= 0);
        eq_int(fd_read_file(fifo, 100, &b), -EAGAIN);
        eq_int(unlink(fifo), 0);
        eq_int(rmdir(path), 0);
}

struct drain {
        int fd;
        size_t n;
        bool is_good;
};

static void *drain_slowly(void *arg)
{
        struct drain *d = arg;
        char piece[777];

        for (;;) {
                ssize_t r = read(d->fd, piece, sizeof(piece));
                if (r <= 0)
                        return NULL;
                for (ssize_t i = 0; i < r; i++)
                        d->is_good &= piece[i] == (char)(d->n++ % 128);
        }
}

TEST(write_goes_on_after_short_writes)
{
        enum { BYTES = 1 << 20 };
        _free_ char *bytes = mem_alloc(BYTES);
        struct drain d = { .is_good = true };
        pthread_t thread;
        int fds[2];

        for (size_t i = 0; i < BYTES; i++)
                bytes[i] = (char)(i % 128);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        d.fd = fds[0];
        eq_int(pthread_create(&thread, NULL, drain_slowly, &d), 0);
        eq_int(fd_write_all(fds[1], slice_from(bytes, BYTES)), 0);
        fd_close(fds[1]);
        eq_int(pthread_join(thread, NULL), 0);
        fd_close(fds[0]);
        eq_u64(d.n, BYTES);
        ok(d.is_good);
}

TEST(write_reports_failure)
{
        int fds[2];

        signal(SIGPIPE, SIG_IGN);
        eq_int(pipe2(fds, O_CLOEXEC), 0);
        fd_close(fds[0]);
        eq_int(fd_write_all(fds[1], S("x")), -EPIPE);
        eq_int(fd_write_all(fds[1], S("")), 0);
        fd_close(fds[1]);
        signal(SIGPIPE, SIG_DFL);
        eq_int(fd_write_all(-1, S("x")), -EBADF);
}

static bool is_open(int fd)
{
        return fcntl(fd, F_GETFD) >= 0;
}

TEST(all_but_those_that_are_kept_are_closed)
{
        pid_t pid = fork();
        if (pid == 0) {
                /* The list is not sorted, has two neighbours, and holds -1, which is no descriptor. */
                const int kept[] = { 40, -1, 12, 41, 3 };
                bool is_good = true;
                for (int fd = 3; fd < 50; fd++)
                        is_good &= dup2(STDERR_FILENO, fd) == fd;
                fd_close_all_but(kept, ARRAY_LEN(kept));
                for (int fd = 0; fd < 64; fd++)
                        is_good &= is_open(fd) == (fd < 3 || fd == 3 || fd == 12 || fd == 40 || fd == 41);
                _exit(is_good ? 0 : 1);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

/* ---- FIFOs are not opened ---- */

struct place {
        char path[64];
        int dir;
};

static void place_make(struct place *p)
{
        snprintf(p->path, sizeof(p->path), "/tmp/fd_test.XXXXXX");
        ok(mkdtemp(p->path));
        p->dir = open(p->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok(p->dir >= 0);
        fd_close(openat(p->dir, "file", O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        eq_int(mkfifoat(p->dir, "fifo", 0600), 0);
        eq_int(symlinkat("file", p->dir, "link"), 0);
}

static void place_remove(struct place *p)
{
        (void)unlinkat(p->dir, "file", 0);
        (void)unlinkat(p->dir, "fifo", 0);
        (void)unlinkat(p->dir, "link", 0);
        fd_close(p->dir);
        eq_int(rmdir(p->path), 0);
}

TEST(a_fifo_is_looked_at_and_not_opened)
{
        struct place p;
        struct stat st;
        place_make(&p);
        int fd = fd_open_looking(p.dir, "fifo", O_RDONLY); /* open(2) would wait for a writer */
        ok(fd >= 0);
        eq_int(fstat(fd, &st), 0);
        ok(S_ISFIFO(st.st_mode));
        char byte;
        eq_int(read(fd, &byte, 1), -1);
        eq_int(errno, EBADF);
        fd_close(fd);
        place_remove(&p);
}

TEST(a_file_is_opened_as_asked)
{
        struct place p;
        place_make(&p);
        int fd = fd_open_looking(p.dir, "file", O_WRONLY | O_NOFOLLOW);
        ok(fd >= 0);
        eq_int(fcntl(fd, F_GETFL) & O_ACCMODE, O_WRONLY);
        eq_int(fcntl(fd, F_GETFD), FD_CLOEXEC);
        eq_int(write(fd, "x", 1), 1);
        fd_close(fd);
        fd = fd_open_looking(p.dir, "link", O_RDONLY);
        ok(fd >= 0);
        char byte;
        eq_int(read(fd, &byte, 1), 1);
        fd_close(fd);
        eq_int(fd_open_looking(p.dir, "link", O_RDONLY | O_NOFOLLOW), -ELOOP);
        eq_int(fd_open_looking(p.dir, "none", O_RDONLY), -ENOENT);
        eq_int(fd_open_looking(p.dir, "file/x", O_RDONLY), -ENOTDIR);
        eq_int(fd_open_looking(p.dir, "file", O_RDONLY | O_DIRECTORY), -ENOTDIR);
        place_remove(&p);
}
