/* spawn_rig: a real spawner with a poll loop, for the tests of spawn.c.
 *
 * Output of commands goes into one pipe. Everything that descends from a command holds its writing end, so the end of
 * file on it proves that no process is left, without asking /proc. The test is a sub-reaper: what escapes a dead spawner
 * becomes its child, and rig_close checks that no such child is left. Include unit.h first.
 */
#pragma once

#include "proc/spawn.h"

#include "base/clock.h"
#include "keeper/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIG_NUMBERS 512
#define RIG_PATIENCE_MS \
        60000 /* long enough for valgrind on a busy machine; an event ends every wait much earlier */

struct rig_seen {
        bool has_started, has_failed, has_exited, has_gone;
        pid_t pid;
        const char *step;
        int os_errno;
        uint32_t op;
        struct spawn_exit exit;
        int signalled;
        int signal_errno; /* the answer to the last signal */
};

struct rig {
        struct spawner *s;
        pid_t spawner_pid;
        bool is_lost;
        int out[2]; /* stdout and stderr of all commands */
        int null;
        size_t gone;      /* how many commands are gone */
        size_t strangers; /* children that other tests have left */
        struct rig_seen seen[RIG_NUMBERS];
        int (*wanted_errno)(int index); /* the expected answer to a signal; NULL: any */
        struct spawn_limits limits;     /* for the commands that are started next */
        bool has_image;                 /* image_fd is the sandbox of the commands that are started next */
        int image_fd;
        const struct bwrap *bwrap;   /* builds that sandbox; or NULL */
        bool is_intercepted;         /* the commands that are started next are intercepted */
        int config, socket;          /* what their brokers get */
        const struct inlets *inlets; /* of the commands that are started next; or NULL */
        int inlet_socket;            /* where their keepers send them */
        bool wants_cgroup;
        uint64_t session; /* the session of the commands; 0: no sandbox is prebuilt for them */
};

static struct spawner *rig_left; /* the spawner of a test that failed */

static inline struct rig_seen *rig_seen_at(void *arg, uint32_t number)
{
        struct rig *rig = arg;
        ok(number < RIG_NUMBERS);
        ok(!rig->is_lost);
        struct rig_seen *seen = &rig->seen[number];
        ok(!seen->has_gone);
        return seen;
}

static inline void rig_on_started(void *arg, uint32_t number, pid_t pid)
{
        struct rig_seen *seen = rig_seen_at(arg, number);
        ok(!seen->has_started && !seen->has_failed);
        seen->has_started = true;
        seen->pid = pid;
}

static inline void rig_on_failed(void *arg, uint32_t number, const char *step, int os_errno, uint32_t op)
{
        struct rig_seen *seen = rig_seen_at(arg, number);
        ok(!seen->has_started && !seen->has_failed);
        seen->has_failed = true;
        seen->step = step;
        seen->os_errno = os_errno;
        seen->op = op;
}

static inline void rig_on_exited(void *arg, uint32_t number, const struct spawn_exit *end)
{
        struct rig_seen *seen = rig_seen_at(arg, number);
        ok(seen->has_started && !seen->has_exited);
        seen->has_exited = true;
        seen->exit = *end;
}

static inline void rig_on_signalled(void *arg, uint32_t number, int os_errno)
{
        struct rig_seen *seen = rig_seen_at(arg, number);
        const struct rig *rig = arg;
        if (rig->wanted_errno)
                eq_int(os_errno, rig->wanted_errno(seen->signalled));
        seen->signalled++;
        seen->signal_errno = os_errno;
}

static inline void rig_on_gone(void *arg, uint32_t number)
{
        rig_seen_at(arg, number)->has_gone = true;
        ((struct rig *)arg)->gone++;
}

static inline void rig_on_lost(void *arg)
{
        ((struct rig *)arg)->is_lost = true;
}

static inline void rig_count_child(void *arg, UNUSED pid_t pid)
{
        (*(size_t *)arg)++;
}

static inline size_t rig_count_children(void)
{
        size_t n = 0;
        eq_int(tree_each_child(rig_count_child, &n), 0);
        return n;
}

static inline void rig_open(struct rig *rig)
{
        static const struct spawn_events events = {
                .started = rig_on_started,
                .failed = rig_on_failed,
                .exited = rig_on_exited,
                .signalled = rig_on_signalled,
                .gone = rig_on_gone,
                .lost = rig_on_lost,
        };
        rig_left = spawner_free(rig_left);
        while (waitpid(-1, NULL, WNOHANG) > 0)
                continue;
        *rig = (struct rig){ .strangers = rig_count_children(), .session = 1 };
        eq_int(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
        eq_int(pipe2(rig->out, O_CLOEXEC | O_NONBLOCK), 0);
        rig->null = open("/dev/null", O_RDWR | O_CLOEXEC);
        ok(rig->null >= 0);
        struct err err = ERR_INIT;
        rig->s = spawner_new(&events, rig, &err);
        ok(rig->s != NULL);
        rig->spawner_pid = spawn_pid(rig->s);
        rig_left = rig->s;
}

/* Waits until the spawner's socket is ready, at most `wait_ms`, and calls events. */
static inline void rig_turn(struct rig *rig, int wait_ms)
{
        struct pollfd p = { .fd = spawn_fd(rig->s), .events = POLLIN };
        if (spawn_wants_write(rig->s))
                p.events |= POLLOUT;
        int again_ms = spawn_wait_ms(rig->s);
        if (again_ms >= 0)
                wait_ms = MIN(wait_ms, again_ms);
        if (poll(&p, 1, wait_ms) > 0 || spawn_wait_ms(rig->s) == 0)
                spawn_on_ready(rig->s);
}

#define rig_wait(rig, cond)                                                 \
        do {                                                                \
                uint64_t give_up_ = clock_mono_ms() + RIG_PATIENCE_MS;      \
                while (!(cond)) {                                           \
                        if (clock_mono_ms() > give_up_)                     \
                                fail_msg("waited too long for: %s", #cond); \
                        rig_turn(rig, 100);                                 \
                }                                                           \
        } while (0)

/* Reads output until it contains `text`, or up to the end of file when `text` is NULL. */
static inline void rig_read(struct rig *rig, char *ret, size_t size, const char *text)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        size_t n = 0;
        for (;;) {
                struct pollfd p = { .fd = rig->out[0], .events = POLLIN };
                ok(clock_mono_ms() < give_up);
                (void)poll(&p, 1, 100);
                ssize_t r = read(rig->out[0], ret + n, size - 1 - n);
                if (r < 0) {
                        ok(errno == EAGAIN);
                        continue;
                }
                n += (size_t)r;
                ret[n] = 0;
                ok(n < size - 1);
                if (text ? strstr(ret, text) != NULL : r == 0)
                        return;
                ok(r > 0);
        }
}

/* Closes the test's copy of the writing end: after this only the commands and their descendants can write. */
static inline void rig_output_close(struct rig *rig)
{
        close(rig->out[1]);
        rig->out[1] = -1;
}

/* Returns whether no process holds the output: then the whole tree is dead, not just its root. */
static inline bool rig_output_ended(struct rig *rig)
{
        char rest[4096];
        ssize_t r;
        while ((r = read(rig->out[0], rest, sizeof(rest))) > 0)
                continue;
        return r == 0;
}

static inline int rig_start_argv(struct rig *rig, uint32_t number, const char *const *argv,
                                 const char *const *candidates, const char *cwd)
{
        static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = cwd,
                .limits = rig->limits,
                .wants_cgroup = rig->wants_cgroup,
                .has_image = rig->has_image,
                .image_fd = rig->image_fd,
                .bwrap = rig->bwrap,
                .is_intercepted = rig->is_intercepted,
                .intercept_config = rig->config,
                .intercept_socket = rig->socket,
                .inlets = rig->inlets,
                .inlet_socket = rig->inlet_socket,
                .session = rig->session,
        };
        const int stdio[] = { rig->null, rig->out[1], rig->out[1] };
        return spawn_start(rig->s, number, &command, stdio);
}

static inline void rig_start(struct rig *rig, uint32_t number, const char *program)
{
        const char *const argv[] = { program, NULL };
        eq_int(rig_start_argv(rig, number, argv, argv, "/"), 0);
}

static inline void rig_start_sh(struct rig *rig, uint32_t number, const char *script)
{
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        eq_int(rig_start_argv(rig, number, argv, candidates, "/"), 0);
}

/* Ends the spawner, and checks that no process is left. */
static inline void rig_close(struct rig *rig)
{
        rig_left = rig->s = spawner_free(rig->s);
        int status;
        eq_int(waitpid(rig->spawner_pid, &status, 0), rig->spawner_pid);
        eq_int(rig->is_lost ? 0 : status, 0);
        /* Keepers of a killed spawner became children of the test; they close the socket and end. */
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        while (rig_count_children() > rig->strangers) {
                ok(clock_mono_ms() < give_up);
                if (waitpid(-1, NULL, WNOHANG) == 0)
                        (void)poll(NULL, 0, 1);
        }
        if (rig->out[1] >= 0)
                rig_output_close(rig);
        ok(rig_output_ended(rig));
        close(rig->out[0]);
        close(rig->null);
}

/* A program whose execve hangs, as on a file server that does not answer: the kernel waits until the holder of the lease lets
 * go, for 45 s by default. */
struct rig_lease {
        char path[32];
        int fd;
        void (*old)(int);
};

static inline void rig_lease_end(struct rig_lease *l)
{
        close(l->fd);
        unlink(l->path);
        signal(SIGIO, l->old);
}

static inline void rig_lease_begin(struct rig_lease *l)
{
        *l = (struct rig_lease){ .path = "/tmp/spawn_test_XXXXXX" };
        l->fd = mkstemp(l->path);
        ok(l->fd >= 0);
        eq_int(fchmod(l->fd, 0700), 0);
        l->old = signal(SIGIO, SIG_IGN);
        if (fcntl(l->fd, F_SETLEASE, F_WRLCK) < 0) {
                rig_lease_end(l);
                skip(); /* this file system has no leases */
        }
}

static inline size_t rig_count_fds(pid_t pid)
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
        size_t n = 0;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        ok(fd >= 0);
        char room[8192];
        long r;
        while ((r = syscall(SYS_getdents64, fd, room, sizeof(room))) > 0)
                for (long at = 0; at < r; at += *(unsigned short *)(void *)(room + at + 16))
                        n++;
        close(fd);
        return n;
}
