/* task_network: the life of a command's managed network: its sockets, its way to farhand-egress, its end. */
#include "base/fd.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/server.h"
#include "proto/process.h"
#include "sandbox/image.h"
#include "session/task_network_internal.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 128

static struct task_network *network_of(struct gate_network *gate)
{
        return container_of(gate, struct task_network, gate);
}

struct client *network_client(const struct task_network *n)
{
        const struct task *t = n->task;
        struct client *c = t->session->client;
        return c && t->is_named && conn_is_usable(c->conn) ? c : NULL;
}

struct client *network_reader(const struct task_network *n)
{
        struct client *c = network_client(n);
        return c && conn_wants_output(c->conn) ? c : NULL;
}

static void on_lost(struct gate_network *gate)
{
        network_questions_drop(network_of(gate));
}

static const struct gate_events gate_events = {
        .asked = network_asked,
        .withdrawn = network_withdrawn,
        .decided = network_decided,
        .ended = network_ended,
        .lost = on_lost,
};

void task_network_begin(struct task *t, const struct process_network *in)
{
        struct task_network *n = mem_new(struct task_network);
        n->task = t;
        gate_network_init(&n->gate);
        n->is_enforced = in->is_enforced;
        n->has_socks = in->policy.has_socks;
        n->allows_local = in->policy.allows_local;
        n->policy = slice_dup(in->packed);
        n->policy_bytes = in->packed.n;
        n->execution_id =
                slice_dup(slice_from(in->execution_id.p, MIN(in->execution_id.n, (size_t)NETWORK_ID_BYTES)));
        n->question_ms = in->question_ms;
        n->socket = n->keeper_socket = -1;
        list_init(&n->questions);
        list_init(&n->decisions);
        t->network = n;
}

static void close_sockets(struct task_network *n)
{
        n->socket = fd_close(n->socket);
        n->keeper_socket = fd_close(n->keeper_socket);
        for (size_t i = 0; i < n->own_count; i++)
                fd_close(n->own[i].socket);
        n->own_count = 0;
}

void task_network_free(struct task *t)
{
        struct task_network *n = TAKE(t->network);
        if (!n)
                return;
        must(n->gate.id == 0 && list_is_empty(&n->questions));
        network_decisions_drop(n);
        close_sockets(n);
        free(n->policy);
        free(n->execution_id);
        free(n);
}

/* --- sockets ------------------------------------------------------------------------------------------------------ */

/* The keeper makes the sockets, in the network of the sandbox. */
static int want_inlets(struct task_network *n)
{
        int ends[2];
        n->wanted = (struct inlets){ .count = n->has_socks ? 2 : 1 };
        n->wanted.list[0] = (struct inlet){ INLET_TCP, NETWORK_HTTP_PORT, INADDR_LOOPBACK };
        n->wanted.list[1] = (struct inlet){ INLET_TCP, NETWORK_SOCKS_PORT, INADDR_LOOPBACK };
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) < 0)
                return -errno;
        n->socket = ends[0];
        n->keeper_socket = ends[1];
        n->http_port = NETWORK_HTTP_PORT;
        n->socks_port = n->has_socks ? NETWORK_SOCKS_PORT : 0;
        return 0;
}

/* Makes one socket in the network of the machine. */
static int listen_here(struct task_network *n, enum egressmsg_kind kind, uint16_t *ret_port)
{
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(at);
        _close_ int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || bind(fd, (const struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 ||
            getsockname(fd, (struct sockaddr *)&at, &size) < 0)
                return -errno;
        *ret_port = ntohs(at.sin_port);
        n->own[n->own_count++] = (struct gate_inlet){ .kind = kind, .socket = TAKE_FD(fd) };
        return 0;
}

static int make_sockets(struct task_network *n)
{
        if (n->is_enforced)
                return want_inlets(n);
        int r = listen_here(n, EGRESSMSG_HTTP_LISTENER, &n->http_port);
        if (r == 0 && n->has_socks)
                r = listen_here(n, EGRESSMSG_SOCKS_LISTENER, &n->socks_port);
        return r;
}

int task_network_connect(struct task *t, struct arena *a, struct command_spec *command, struct err *err)
{
        struct task_network *n = t->network;
        if (!n)
                return 0;
        /* What runs outside of the sandbox has the network of the machine. */
        n->is_enforced = n->is_enforced && t->sandbox.image;
        if (n->is_enforced && t->sandbox.image->backend == BACKEND_LANDLOCK)
                return err_set(err, RPC_INVALID_PARAMS, -ENOTSUP,
                               "managed network enforcement is not available on this executor");
        int r = gate_begin(t->session->server, &n->gate, &gate_events, slice_from(n->policy, n->policy_bytes),
                           err);
        if (r < 0)
                return r;
        r = make_sockets(n);
        if (r < 0)
                return err_set(err, RPC_INTERNAL, r, "sockets of the managed network: %s (os error %d)",
                               errno_text(-r), -r);
        if (n->is_enforced) {
                command->inlets = &n->wanted;
                command->inlet_socket = n->keeper_socket;
        }
        command->env = network_environment(a, command->env, n->http_port, n->socks_port, n->allows_local);
        return 0;
}

void task_network_handed_over(struct task *t)
{
        if (t->network)
                t->network->keeper_socket = fd_close(t->network->keeper_socket);
}

/* Takes the sockets that the keeper has sent before the command was executed. Returns 0 or -errno. */
static int receive_sockets(struct task_network *n, struct gate_inlet *ret)
{
        union {
                struct cmsghdr head;
                char room[CMSG_SPACE(2 * sizeof(int))];
        } control;
        struct inlets_message said = { 0 };
        struct iovec part = { &said, sizeof(said) };
        struct msghdr msg = { .msg_iov = &part,
                              .msg_iovlen = 1,
                              .msg_control = control.room,
                              .msg_controllen = sizeof(control.room) };
        ssize_t got = recvmsg(n->socket, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
        if (got <= 0)
                return got < 0 ? -errno : -EPIPE;
        const struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        size_t count = 0;
        int fds[2];
        if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
                count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
                memcpy(fds, CMSG_DATA(c), count * sizeof(int));
        }
        bool is_good = got == sizeof(said) && !(msg.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) &&
                       said.count == n->wanted.count && count == n->wanted.count;
        for (size_t i = 0; i < count; i++)
                if (is_good)
                        ret[i] = (struct gate_inlet){ .kind = i == 0 ? EGRESSMSG_HTTP_LISTENER
                                                                     : EGRESSMSG_SOCKS_LISTENER,
                                                      .socket = fds[i] };
                else
                        fd_close(fds[i]);
        return is_good ? 0 : -EPROTO;
}

int task_network_started(struct task *t)
{
        struct task_network *n = t->network;
        struct gate_inlet inlets[2];
        if (!n)
                return 0;
        if (!n->is_enforced) {
                gate_open(&n->gate, n->own, n->own_count);
                n->own_count = 0;
                return 0;
        }
        int r = receive_sockets(n, inlets);
        n->socket = fd_close(n->socket);
        if (r == 0)
                gate_open(&n->gate, inlets, n->wanted.count);
        return r;
}

/* --- its end ------------------------------------------------------------------------------------------------------ */

void task_network_disconnect(struct task *t)
{
        struct task_network *n = t->network;
        if (!n)
                return;
        gate_close(&n->gate);
        network_questions_drop(n);
        close_sockets(n);
}

void task_network_exited(struct task *t)
{
        if (t->network)
                gate_catch_up(t->session->server);
}

void task_network_closed(struct task *t)
{
        struct task_network *n = t->network;
        if (!n)
                return;
        gate_catch_up(t->session->server);
        network_tell_waiting(n);
        /* What the command has left behind without streams has no network any more. */
        n->is_over = true;
        gate_end(&n->gate);
        network_questions_drop(n);
}

void task_network_ask_again(struct task *t)
{
        if (t->network)
                network_questions_ask_again(t->network);
}

void task_network_pause(struct task *t, bool paused)
{
        if (!t->network || paused)
                return;
        network_tell_waiting(t->network);
        network_questions_ask_again(t->network);
}

/* --- what is told of a task --------------------------------------------------------------------------------------- */

void task_network_start_write(struct jsonw *w, const struct task *t)
{
        if (t->network)
                jsonw_member_str(w, "network", t->network->is_enforced ? "enforced" : "advisory");
}

void task_network_exit_write(struct jsonw *w, const struct task *t)
{
        const struct task_network *n = t->network;
        if (!n)
                return;
        jsonw_key(w, "connections");
        jsonw_object(w);
        jsonw_member_u64(w, "allowed", n->allowed);
        jsonw_member_u64(w, "denied", n->denied);
        jsonw_object_end(w);
}
