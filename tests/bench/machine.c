/* machine: measures commands, TCP, pipes and terminals without any server in between. */
#include "machine.h"

#include "base/fd.h"
#include "base/mem.h"
#include "procinfo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#define PING_BYTES 64 /* roughly the length of a request for the status */
#define WAIT_MS 20000
#define READ_BYTES (64 * 1024)

static char *const environment[] = { (char[]){ "PATH=/usr/bin:/bin" }, NULL };

static int failed(struct err *err, const char *what)
{
        int e = errno;
        return err_set(err, 0, -e, "%s: %s", what, errno_text(e));
}

static void reap(pid_t pid)
{
        while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
                continue;
}

/* --- commands ----------------------------------------------------------------------------------------------------- */

static int spawn_true(pid_t *ret, struct err *err)
{
        char *const argv[] = { (char[]){ "/bin/true" }, NULL };
        int r = posix_spawn(ret, argv[0], NULL, NULL, argv, environment);
        return r == 0 ? 0 : err_set(err, 0, -r, "posix_spawn: %s", errno_text(r));
}

int machine_true(struct err *err)
{
        pid_t pid;
        int r = spawn_true(&pid, err);
        if (r == 0)
                reap(pid);
        return r;
}

int machine_spawn(struct turn *t, struct err *err)
{
        for (size_t n = 0; turn_goes_on(t, n); n++) {
                pid_t pid;
                uint64_t start = now_ns();
                int r = spawn_true(&pid, err);
                if (r < 0)
                        return r;
                reap(pid);
                samples_add(&t->into[0], us_since(start));
        }
        return 0;
}

static NORETURN void spawn_until(const struct turn *t, _Atomic size_t *count)
{
        struct err err = ERR_INIT;
        pid_t pid;
        for (size_t n = 0; turn_goes_on(t, n) && spawn_true(&pid, &err) == 0; n++) {
                reap(pid);
                ++*count;
        }
        _exit(err.code ? 1 : 0);
}

/* Several processes spawn and wait: one alone would be stopped during each vfork, and on a busy machine it would get one share of
 * the processors where a server and its helpers get several. */
int machine_spawn_many(struct turn *t, struct err *err)
{
        _Atomic size_t *count =
                mmap(NULL, sizeof(*count), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (count == MAP_FAILED)
                return failed(err, "mmap");
        pid_t pids[MACHINE_IN_FLIGHT];
        uint64_t start = t->started_ns = now_ns();
        for (size_t i = 0; i < MACHINE_IN_FLIGHT; i++) {
                pids[i] = fork();
                if (pids[i] == 0)
                        spawn_until(t, count);
        }
        for (size_t i = 0; i < MACHINE_IN_FLIGHT; i++)
                reap(pids[i]);
        size_t n = *count;
        munmap((void *)count, sizeof(*count));
        if (n == 0)
                return err_set(err, 0, -EAGAIN, "nothing could be spawned");
        samples_add(&t->into[0], (double)n * 1e6 / us_since(start));
        return 0;
}

/* --- TCP ---------------------------------------------------------------------------------------------------------- */

static int tcp_socket(void)
{
        int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0)
                (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        return fd;
}

static int tcp_pair(int ret[2])
{
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t n = sizeof(a);
        _close_ int listener = tcp_socket(), near = tcp_socket();
        if (listener < 0 || near < 0 || bind(listener, (struct sockaddr *)&a, n) < 0 ||
            listen(listener, 1) < 0 || getsockname(listener, (struct sockaddr *)&a, &n) < 0 ||
            connect(near, (struct sockaddr *)&a, n) < 0)
                return -errno;
        int on = 1, far = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (far < 0)
                return -errno;
        (void)setsockopt(far, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
        ret[0] = TAKE_FD(near);
        ret[1] = far;
        return 0;
}

static NORETURN void echo(int fd)
{
        char bytes[PING_BYTES];
        for (ssize_t n; (n = recv(fd, bytes, sizeof(bytes), 0)) > 0;)
                if (send(fd, bytes, (size_t)n, MSG_NOSIGNAL) != n)
                        break;
        _exit(0);
}

static int ping_pong(struct turn *t, int fd, struct err *err)
{
        char bytes[PING_BYTES] = { 0 };
        for (size_t n = 0; turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                if (send(fd, bytes, sizeof(bytes), MSG_NOSIGNAL) != sizeof(bytes) ||
                    recv(fd, bytes, sizeof(bytes), MSG_WAITALL) != sizeof(bytes))
                        return failed(err, "TCP ping-pong");
                samples_add(&t->into[0], us_since(start));
        }
        return 0;
}

int machine_tcp(struct turn *t, struct err *err)
{
        int ends[2] = { -1, -1 };
        if (tcp_pair(ends) < 0)
                return failed(err, "TCP pair");
        pid_t pid = fork();
        if (pid == 0) {
                fd_close(ends[0]);
                echo(ends[1]);
        }
        fd_close(ends[1]);
        int r = pid < 0 ? failed(err, "fork") : ping_pong(t, ends[0], err);
        fd_close(ends[0]); /* the child ends when it reads this end of file */
        reap(pid);
        return r;
}

/* --- pipes and terminals ------------------------------------------------------------------------------------------ */

static pid_t run_on(int in, int out, const char *const *argv)
{
        pid_t pid = fork();
        if (pid != 0)
                return pid;
        setsid();
        if (dup2(in, 0) >= 0 && dup2(out, 1) >= 0)
                execv(argv[0], (char *const *)argv);
        _exit(127);
}

static int open_terminal(int *ret_master, int *ret_slave, bool raw)
{
        if (openpty(ret_master, ret_slave, NULL, NULL, NULL) < 0)
                return -errno;
        (void)fcntl(*ret_master, F_SETFD, FD_CLOEXEC);
        (void)fcntl(*ret_slave, F_SETFD, FD_CLOEXEC);
        struct termios tio;
        if (raw && tcgetattr(*ret_slave, &tio) == 0) {
                cfmakeraw(&tio);
                (void)tcsetattr(*ret_slave, TCSANOW, &tio);
        }
        return 0;
}

static int wait_readable(int fd)
{
        struct pollfd p = { .fd = fd, .events = POLLIN };
        int r = poll(&p, 1, WAIT_MS);
        if (r == 0)
                errno = ETIMEDOUT;
        return r > 0 ? 0 : -errno;
}

int machine_pty_byte(struct turn *t, struct err *err)
{
        static const char *const cat[] = { "/bin/cat", NULL };
        int master, slave, r = 0;
        if (open_terminal(&master, &slave, true) < 0)
                return failed(err, "openpty");
        pid_t pid = run_on(slave, slave, cat);
        fd_close(slave);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                char byte = 'x';
                uint64_t start = now_ns();
                if (write(master, &byte, 1) != 1 || wait_readable(master) < 0 || read(master, &byte, 1) != 1)
                        r = failed(err, "cat on a terminal");
                else if (n > 0) /* the first byte waits until cat runs */
                        samples_add(&t->into[0], us_since(start));
        }
        if (pid > 0)
                kill(pid, SIGKILL); /* before the terminal hangs up, or cat would print an error */
        fd_close(master);
        reap(pid);
        return r;
}

uint64_t bulk_bytes(const struct turn *t, bool tty)
{
        uint64_t mb = tty ? 32 : 256;
        if (t->server && t->server->who == WHO_REFERENCE && !tty)
                mb /= 2; /* the reference is slower with pipes: it takes as much time for fewer bytes */
        return (t->is_quick ? mb / 4 : mb) << 20;
}

static int read_all(struct turn *t, int fd, uint64_t bytes, struct err *err)
{
        _free_ char *room = mem_alloc(READ_BYTES);
        uint64_t start = now_ns(), got = 0;
        double cpu = own_cpu_s();
        while (got < bytes) {
                ssize_t r = wait_readable(fd) < 0 ? -1 : read(fd, room, READ_BYTES);
                if (r < 0 && errno == EINTR && !is_interrupted())
                        continue;
                if (r <= 0)
                        return failed(err, "bulk output");
                got += (uint64_t)r;
        }
        samples_add(&t->into[0], (double)got / us_since(start));
        samples_add(&t->into[1], (own_cpu_s() - cpu) * 1e9 / (double)got);
        return 0;
}

static int produce(struct turn *t, int ours, int theirs, bool tty, struct err *err)
{
        uint64_t bytes = bulk_bytes(t, tty);
        char count[24];
        snprintf(count, sizeof(count), "%llu", (unsigned long long)bytes);
        const char *const argv[] = { "/usr/bin/head", "-c", count, "/dev/zero", NULL };
        _close_ int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
        pid_t pid = run_on(null, theirs, argv);
        fd_close(theirs);
        int r = pid < 0 ? failed(err, "fork") : read_all(t, ours, bytes, err);
        if (pid > 0)
                kill(pid, SIGKILL); /* the producer has ended, unless the measurement failed */
        fd_close(ours);
        reap(pid);
        return r;
}

int machine_pipe(struct turn *t, struct err *err)
{
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return failed(err, "pipe");
        return produce(t, ends[0], ends[1], false, err);
}

int machine_pty(struct turn *t, struct err *err)
{
        int master, slave;
        if (open_terminal(&master, &slave, false) < 0)
                return failed(err, "openpty");
        return produce(t, master, slave, true, err);
}
