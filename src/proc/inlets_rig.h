/* inlets_rig: commands with inlets (keeper/inlets.h) in sandboxes, for the tests of inlets. Include unit.h first. */
#pragma once

#include "proc/inlet_sockets.h"
#include "proc/sandboxed_rig.h"

#include <grp.h>
#include <netinet/in.h>

#define STRANGER 58342 /* a user that owns nothing */
#define TWICE                                    \
        {                                        \
                INLET_TCP, 3128, INADDR_LOOPBACK \
        }

/* The network of a managed command: two proxies, names, and a port on all addresses. */
static const struct inlets usual = { .count = 5,
                                     .list = {
                                             { INLET_TCP, 3128, INADDR_LOOPBACK },
                                             { INLET_TCP, 1080, INADDR_LOOPBACK },
                                             { INLET_UDP, 53, INADDR_LOOPBACK },
                                             { INLET_TCP, 53, INADDR_LOOPBACK },
                                             { INLET_TCP, 443, INADDR_ANY },
                                     } };
enum { HTTP, SOCKS, NAMES_UDP, NAMES_TCP, PORT };

struct managed {
        struct rigged b;
        int socket; /* the test's end */
        int fds[INLETS_MAX];
        uint32_t taken;
};

/* ---- the rig ---- */

static inline void managed_open(struct managed *t)
{
        *t = (struct managed){ .socket = -1 };
        rigged_open_workspace(&t->b);
        t->b.rig.inlets = &usual;
}

static inline void pair_open(struct managed *t)
{
        int ends[2];
        eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        t->socket = ends[0];
        t->b.rig.inlet_socket = ends[1];
}

/* Starts a script as command 1, with inlets. */
static inline void managed_start(struct managed *t, const char *script)
{
        t->b.rig.seen[1] = (struct rig_seen){ 0 };
        if (t->socket < 0)
                pair_open(t);
        rigged_start(&t->b, 1, script);
        close(t->b.rig.inlet_socket);
}

static inline void inlets_take(struct managed *t)
{
        int r = -EAGAIN;
        rig_wait(&t->b.rig, t->b.rig.seen[1].has_failed || t->b.rig.seen[1].has_gone ||
                                    (r = inlet_sockets_take(t->socket, t->b.rig.inlets, t->fds)) != -EAGAIN);
        if (t->b.rig.seen[1].has_failed)
                fail_msg("start failed at %s: %s", t->b.rig.seen[1].step,
                         strerror(t->b.rig.seen[1].os_errno));
        if (r == -EAGAIN)
                r = inlet_sockets_take(t->socket, t->b.rig.inlets, t->fds);
        eq_int(r, 0);
        t->taken = t->b.rig.inlets->count;
}

static inline void inlets_close(struct managed *t)
{
        for (uint32_t i = 0; i < t->taken; i++)
                close(t->fds[i]);
        t->taken = 0;
        close(t->socket);
        t->socket = -1;
}

static inline void managed_end(struct managed *t)
{
        rig_wait(&t->b.rig, t->b.rig.seen[1].has_gone);
        inlets_close(t);
}

/* Waits until there is something to take from a socket, and takes it with the call `take`. */
static inline int with_patience(struct rig *rig, int fd, int (*take)(int fd))
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        int r;
        while ((r = take(fd)) < 0) {
                ok(errno == EAGAIN && clock_mono_ms() < give_up);
                rig_turn(rig, 1);
        }
        return r;
}

static inline int take_connection(int fd)
{
        return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

static inline int take_datagram(int fd)
{
        char text[16] = "";
        ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
        if (n >= 0)
                eq_str(text, "who\n");
        return (int)n;
}

/* Skips the test without bash, which can open a connection. */
static inline void shell_or_skip(void)
{
        rigged_or_skip();
        if (access("/bin/bash", X_OK) == 0)
                return;
        print_message("skipped: no bash\n");
        skip();
}

/* Returns the errno of a start that fails at the step "network", and checks that no command ran. */
static inline int failed_as(struct managed *t, const char *script)
{
        managed_start(t, script);
        struct rig_seen *seen = &t->b.rig.seen[1];
        rig_wait(&t->b.rig, seen->has_gone);
        ok(seen->has_failed);
        eq_str(seen->step, "network");
        ok(read(t->b.rig.out[0], t->b.out, 1) < 0);
        inlets_close(t);
        return seen->os_errno;
}

static inline size_t fds_now(void)
{
        return rig_count_fds(getpid());
}

/* ---- as another user ---- */

static inline void run_as(uid_t uid, const char *name, void (*body)(void **state))
{
        const struct CMUnitTest one = { .name = name, .test_func = body };
        int status;
        fflush(stdout);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                eq_int(setgroups(0, NULL), 0);
                eq_int(setresgid(uid, uid, uid), 0);
                eq_int(setresuid(uid, uid, uid), 0);
                eq_int(prctl(PR_SET_DUMPABLE, 1), 0); /* so that the server owns its files in /proc */
                int failed = _cmocka_run_group_tests("as a user", &one, 1, NULL, NULL);
                fflush(stdout);
                _exit(failed);
        }
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

/* A test that is run as the user of the tests, and, where that is root, as another user, too. */
#define TEST_AS_BOTH(name)                                    \
        static void name##_body(void **state);                \
        TEST(name)                                            \
        {                                                     \
                if (geteuid() == 0)                           \
                        run_as(STRANGER, #name, name##_body); \
                name##_body(NULL);                            \
        }                                                     \
        static void name##_body(UNUSED void **state)

/* ---- the inlets work ---- */

#define TALK                                                                      \
        "exec bash -c '"                                                          \
        "for at in 127.0.0.1/3128 127.0.0.1/1080 127.0.0.1/53 127.1.2.3/443; do " \
        "exec 3<>/dev/tcp/$at || exit 1; read x <&3; echo \"$at $x\"; done; "     \
        "echo who >/dev/udp/127.0.0.1/53; "                                       \
        "read a b < <(grep -c : /proc/net/dev; ) ; echo devices $a; "             \
        "exec 3<>/dev/tcp/127.0.0.1/80' 2>/dev/null"

static inline void answer_next(struct managed *t, int inlet, const char *text)
{
        int fd = with_patience(&t->b.rig, t->fds[inlet], take_connection);
        eq_int(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static inline void talk(struct managed *t)
{
        size_t before = fds_now();
        managed_start(t, TALK);
        inlets_take(t);
        answer_next(t, HTTP, "http\n");
        answer_next(t, SOCKS, "socks\n");
        answer_next(t, NAMES_TCP, "name\n");
        answer_next(t, PORT, "port\n");
        eq_int(with_patience(&t->b.rig, t->fds[NAMES_UDP], take_datagram), 4);
        struct rig_seen *seen = &t->b.rig.seen[1];
        rig_wait(&t->b.rig, seen->has_gone);
        ok(seen->has_exited);
        eq_int(seen->exit.status, 1 << 8); /* nobody listens on port 80 */
        ssize_t n = read(t->b.rig.out[0], t->b.out, sizeof(t->b.out) - 1);
        t->b.out[MAX(n, 0)] = 0;
        eq_str(t->b.out, "127.0.0.1/3128 http\n127.0.0.1/1080 socks\n127.0.0.1/53 name\n"
                         "127.1.2.3/443 port\ndevices 1\n");
        int none[INLETS_MAX];
        eq_int(inlet_sockets_take(t->socket, &usual, none), -EPIPE); /* nobody else has the other end */
        inlets_close(t);
        eq_int(fds_now(), before);
}
