/* fs_flow: one poll over the client, a descriptor of ours and signals. */
#include "farfs/fs_flow.h"

#include "base/fd.h"
#include "cli/outlet.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 * 1024)

enum { AT_CLIENT, AT_SIGNALS, AT_FD, AT_COUNT };

static sigset_t guarded(void)
{
        sigset_t set;
        sigemptyset(&set);
        sigaddset(&set, SIGINT);
        sigaddset(&set, SIGTERM);
        sigaddset(&set, SIGHUP);
        return set;
}

static void guard(struct fs_flow *flow)
{
        flow->signals = -1;
        flow->signo = 0;
        if (!flow->guards_signals)
                return;
        const sigset_t set = guarded();
        (void)sigprocmask(SIG_BLOCK, &set, NULL);
        flow->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* Unblocks the signals, unless one has ended the flow: then fs_flow_end does that, when the caller has cleaned up. */
static void unguard(struct fs_flow *flow)
{
        const sigset_t set = guarded();
        flow->signals = fd_close(flow->signals);
        if (flow->guards_signals && !flow->signo)
                (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

void fs_flow_end(struct fs_flow *flow)
{
        const sigset_t set = guarded();
        if (!flow->signo)
                return;
        (void)raise(flow->signo);
        (void)sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/* Waits for the client, a signal, or `events` of fd (-1: no descriptor), and does the work of the client. Returns the events of fd,
 * or -1 when the flow must end. */
static int turn(struct fs_flow *flow, int fd, short events)
{
        struct farhand *f = flow->fs->client;
        struct pollfd fds[AT_COUNT] = {
                [AT_CLIENT] = { .fd = farhand_fd(f), .events = POLLIN },
                [AT_SIGNALS] = { .fd = flow->signals, .events = POLLIN },
                [AT_FD] = { .fd = fd, .events = events },
        };
        if (poll(fds, AT_COUNT, farhand_timeout_ms(f)) < 0 && errno != EINTR)
                return -1;
        struct signalfd_siginfo info;
        if (fds[AT_SIGNALS].revents && read(flow->signals, &info, sizeof(info)) == sizeof(info)) {
                flow->signo = (int)info.ssi_signo;
                return -1;
        }
        (void)farhand_step(f, NULL); /* the stream tells a failure */
        return fds[AT_FD].revents;
}

/* ---- from the server ---- */

/* Moves the bytes that have arrived into the outlet. Returns 1 at the end of the file, 0 when more will come, or -1 after a
 * failure. */
static int fill(struct fs_flow *flow, struct outlet *out)
{
        struct farhand_error error;
        char piece[PIECE_BYTES];
        while (outlet_waiting(out) < OUTLET_FULL_BYTES && !out->is_broken) {
                int64_t n = farhand_file_read(flow->file, piece, sizeof(piece), &error);
                if (n == 0)
                        return 1;
                if (n == -EAGAIN)
                        return 0;
                if (n < 0) {
                        fs_complain(flow->fs, flow->there, &error);
                        return -1;
                }
                outlet_put(out, piece, (size_t)n);
        }
        return 0;
}

/* Ends the outlet as a failed write would, because its reader has gone while there were no bytes to write. */
static void drop_reader(struct outlet *out)
{
        (void)raise(SIGPIPE);
        out->is_broken = true;
        out->os_errno = EPIPE;
}

static int carry_out(struct fs_flow *flow, int fd)
{
        struct outlet out;
        int result = 0;
        outlet_init(&out, fd);
        while (result >= 0) {
                result = result == 1 ? 1 : fill(flow, &out);
                if (out.is_broken) {
                        fs_complain_errno(flow->fs, flow->here, out.os_errno);
                        result = -1;
                }
                if (result < 0 || (result == 1 && outlet_waiting(&out) == 0))
                        break;
                int revents = turn(flow, fd, outlet_waiting(&out) > 0 ? POLLOUT : 0);
                if (revents < 0)
                        result = -1;
                else if (revents & POLLERR && outlet_waiting(&out) == 0)
                        drop_reader(&out);
                outlet_flush(&out);
        }
        outlet_release(&out);
        return result < 0 ? -1 : 0;
}

/* ---- to the server ---- */

struct input {
        char piece[PIECE_BYTES];
        struct slice rest; /* bytes that are read, and not given to the stream yet */
        bool has_ended;
};

/* Gives bytes to the stream. Returns 1 when the server has confirmed all of them, 0 when it has not yet, or -1 after a failure. */
static int give(struct fs_flow *flow, struct input *in)
{
        struct farhand_error error;
        while (in->rest.n > 0) {
                int64_t n = farhand_file_write(flow->file, in->rest.p, in->rest.n, &error);
                if (n == -EAGAIN)
                        return 0;
                if (n < 0) {
                        fs_complain(flow->fs, flow->there, &error);
                        return -1;
                }
                in->rest = slice_from(in->rest.p + n, in->rest.n - (size_t)n);
        }
        int r = in->has_ended ? farhand_file_finish(flow->file, &error) : -EAGAIN;
        if (r == -EAGAIN)
                return 0;
        if (r < 0)
                fs_complain(flow->fs, flow->there, &error);
        return r < 0 ? -1 : 1;
}

static int carry_in(struct fs_flow *flow, int fd, struct slice head)
{
        struct input in = { .rest = head };
        int result;
        while ((result = give(flow, &in)) == 0) {
                bool wants_more = in.rest.n == 0 && !in.has_ended;
                int revents = turn(flow, wants_more ? fd : -1, POLLIN);
                if (revents < 0)
                        return -1;
                if (!wants_more || revents == 0)
                        continue;
                ssize_t n = read(fd, in.piece, sizeof(in.piece));
                if (n < 0 && errno != EINTR && errno != EAGAIN) {
                        fs_complain_errno(flow->fs, flow->here, errno);
                        return -1;
                }
                in.rest = slice_from(in.piece, n > 0 ? (size_t)n : 0);
                in.has_ended = n == 0;
        }
        return result < 0 ? -1 : 0;
}

/* ---- public ---- */

int fs_flow_out(struct fs_flow *flow, int fd)
{
        guard(flow);
        int r = carry_out(flow, fd);
        unguard(flow);
        return r;
}

int fs_flow_in(struct fs_flow *flow, int fd, struct slice head)
{
        guard(flow);
        int r = carry_in(flow, fd, head);
        unguard(flow);
        return r;
}
