/* broker_rig: a command with the filter, a broker in a thread of the test, and the test in place of the server.
 *
 * What runs inside has no_new_privs; what runs outside has what the test has. So `grep NoNewPrivs /proc/self/status` tells where it ran. */
#pragma once

#include "base/clock.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/sys.h"
#include "intercept/broker.h"
#include "intercept/message.h"
#include "intercept/pack.h"
#include "keeper/keeper_shared.h"
#include "sandbox/exec_notify.h"
#include "unit.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define RIG_MS 60000 /* nothing here takes so long, however busy the machine is */
#define RIG_TEXT_BYTES (1 << 20)

#define INSIDE "NoNewPrivs:\t1\n"
#define OUTSIDE "NoNewPrivs:\t0\n"
#define WHERE "grep NoNewPrivs /proc/self/status"

#define ALLOW_GREP "prefix_rule(pattern=[\"grep\"], decision=\"allow\")\n"
#define ASK_GREP "prefix_rule(pattern=[\"grep\"], decision=\"prompt\")\n"
#define DENY_RMDIR "prefix_rule(pattern=[\"rmdir\"], decision=\"forbidden\")\n"

struct rig {
        struct intercept_options options;
        const char *rules;
        void (*body)(
                void); /* what the command's process does instead of executing a program; NULL: it executes */
        int err;       /* what becomes its stderr; 0: a pipe that rig_end reads */

        struct keeper *keeper;
        pid_t root;
        int out, server;
        pthread_t broker;
        struct buf in;
        size_t used;               /* of `in`: the message that was read last */
        char text[RIG_TEXT_BYTES]; /* stdout and stderr */
        int status;
};

static inline struct rig *rig_new(const char *rules)
{
        struct rig *g = calloc(1, sizeof(*g));
        g->rules = rules;
        g->options = (struct intercept_options){ .on_unmatched = INTERCEPT_UNMATCHED_RUN };
        return g;
}

static inline void rig_send_fd(int socket, int fd)
{
        char byte = 0;
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(sizeof(int))];
        } c = { .room = { 0 } };
        struct iovec iov = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
        };
        c.head = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(int)),
                                   .cmsg_level = SOL_SOCKET,
                                   .cmsg_type = SCM_RIGHTS };
        memcpy(CMSG_DATA(&c.head), &fd, sizeof(fd));
        if (sendmsg(socket, &m, 0) != 1)
                _exit(99);
}

static inline int rig_receive_fd(int socket)
{
        char byte;
        int fd;
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(sizeof(int))];
        } c;
        struct iovec iov = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &iov, .msg_iovlen = 1, .msg_control = &c, .msg_controllen = sizeof(c)
        };
        eq_int(recvmsg(socket, &m, MSG_CMSG_CLOEXEC), 1);
        ok(m.msg_controllen >= CMSG_LEN(sizeof(int)));
        memcpy(&fd, CMSG_DATA(&c.head), sizeof(fd));
        return fd;
}

static inline void rig_child(struct rig *g, int out, int socket, const char *const *argv)
{
        struct exec_cookie cookie;
        (void)setsid();
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        if (dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(g->err > 0 ? g->err : out, 2) < 0)
                _exit(98);
        (void)sys_sigmask(0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (exec_cookie_make(&cookie) < 0)
                _exit(97);
        int listener = exec_notify_install(&cookie);
        if (listener < 0)
                _exit(96);
        rig_send_fd(socket, listener);
        close(listener);
        if (g->body) {
                g->body();
                _exit(0);
        }
        long r = exec_notify_exec(argv[0], (char *const *)(uintptr_t)argv, environ, &cookie);
        _exit(r < 0 ? 95 : 94);
}

/* The broker wakes the keeper of a command with this signal. After a test that has failed it is not blocked any more. */
static inline void rig_woken(UNUSED int signo)
{
}

/* Starts the program under interception. */
static inline void rig_start_argv(struct rig *g, const char *const *argv)
{
        int pipes[2], handover[2], server[2];
        sigset_t set;
        sigfillset(&set);
        sigdelset(&set, SIGABRT);
        sigdelset(&set, SIGSEGV);
        sigdelset(&set, SIGINT);
        pthread_sigmask(SIG_BLOCK, &set, NULL);
        ok(signal(KEEPER_LOOK, rig_woken) != SIG_ERR);

        eq_int(pipe2(pipes, O_CLOEXEC), 0);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, handover), 0);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, server), 0);
        eq_int(fd_set_nonblock(server[0], true), 0);
        g->root = fork();
        if (g->root == 0)
                rig_child(g, pipes[1], handover[1], argv);
        close(pipes[1]);
        close(handover[1]);
        g->out = pipes[0];
        g->server = server[1];
        buf_init(&g->in, 8 << 20);
        g->keeper = calloc(1, sizeof(*g->keeper));
        g->keeper->leaf_fd = -1;

        struct broker_start *start = malloc(sizeof(*start));
        const struct exec_rules_text text = { .name = "test.rules", .text = slice_from_str(g->rules) };
        *start = (struct broker_start){ .keeper = g->keeper,
                                        .listener = rig_receive_fd(handover[0]),
                                        .socket = server[0],
                                        .config = intercept_pack(&g->options, &text, 1),
                                        .root = g->root };
        ok(start->config >= 0);
        close(handover[0]);
        eq_int(pthread_create(&g->broker, NULL, broker_run, start), 0);
}

static inline void rig_start(struct rig *g, const char *script)
{
        const char *const argv[] = { "/bin/bash", "-c", script, NULL };
        rig_start_argv(g, argv);
}

/* Waits for the next message of the broker; returns false when the broker has ended. The slices in it are valid until the next call. */
static inline bool rig_try_next(struct rig *g, struct intercept_message *ret)
{
        buf_consume(&g->in, g->used);
        g->used = 0;
        for (;;) {
                ssize_t n = intercept_message_read(buf_slice(&g->in), ret);
                ok(n >= 0);
                if (n > 0) {
                        g->used = (size_t)n;
                        return true;
                }
                char *p;
                struct pollfd ready = { .fd = g->server, .events = POLLIN };
                eq_int(buf_reserve(&g->in, 65536, &p), 0);
                eq_int(poll(&ready, 1, RIG_MS), 1);
                ssize_t got = read(g->server, p, 65536);
                ok(got >= 0);
                if (got == 0)
                        return false;
                buf_commit(&g->in, (size_t)got);
        }
}

static inline struct intercept_message rig_next(struct rig *g)
{
        struct intercept_message m;
        ok(rig_try_next(g, &m));
        return m;
}

static inline struct intercept_question rig_asked(struct rig *g)
{
        struct intercept_message m = rig_next(g);
        eq_int(m.kind, INTERCEPT_MSG_ASK);
        return m.question;
}

/* Returns 0, or -EPIPE when the broker has ended. */
static inline int rig_try_answer(struct rig *g, uint32_t id, enum intercept_action action, const char *reason,
                                 bool is_remembered)
{
        _buf_ struct buf out = BUF_INIT(65536);
        const struct intercept_message m = { .kind = INTERCEPT_MSG_ANSWER,
                                             .answer = { .id = id,
                                                         .action = action,
                                                         .is_remembered = is_remembered,
                                                         .reason = slice_from_str(reason) } };
        eq_int(intercept_message_write(&out, &m), 0);
        return fd_write_all(g->server, buf_slice(&out));
}

static inline void rig_answer(struct rig *g, uint32_t id, enum intercept_action action, const char *reason,
                              bool is_remembered)
{
        eq_int(rig_try_answer(g, id, action, reason, is_remembered), 0);
}

/* Reads a line of the command's output into the text. */
static inline void rig_read_line(struct rig *g)
{
        size_t n = strlen(g->text);
        do {
                struct pollfd ready = { .fd = g->out, .events = POLLIN };
                eq_int(poll(&ready, 1, RIG_MS), 1);
                eq_int(read(g->out, g->text + n, 1), 1);
        } while (g->text[n++] != '\n');
}

/* Waits for the command and its broker. The output and the wait status are in the rig then. */
static inline void rig_end(struct rig *g)
{
        size_t n = strlen(g->text);
        for (;;) {
                struct pollfd ready = { .fd = g->out, .events = POLLIN };
                eq_int(poll(&ready, 1, RIG_MS), 1);
                ssize_t got = read(g->out, g->text + n, sizeof(g->text) - 1 - n);
                ok(got >= 0);
                if (got == 0)
                        break;
                n += (size_t)got;
        }
        eq_int(waitpid(g->root, &g->status, 0), g->root);
        eq_int(pthread_join(g->broker, NULL), 0);
        eq_int(g->keeper->broker_children, 0);
        if (g->server >= 0)
                close(g->server);
        close(g->out);
}

static inline void rig_free(struct rig *g)
{
        buf_release(&g->in);
        free(g->keeper);
        free(g);
}
