/* farhand_init: receives an order from the keeper, checks the view, and becomes the init of the sandbox (farhand_init.h). */
#include "keeper/farhand_init.h"

#include "base/sys.h"
#include "keeper/sandboxed_internal.h"

#include <errno.h>
#include <sys/socket.h>

static NORETURN void fail(struct keeper *k, int socket, long r)
{
        sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
        sandboxed_init_end(k, socket);
}

static int order_receive(int socket, struct sandboxed_order *ret, int fds[static SANDBOXED_FDS])
{
        struct iovec part = { ret, sizeof(*ret) };
        *ret = (struct sandboxed_order){ .inherited = 0 };
        long n = sandboxed_receive(socket, &part, 1, fds, SANDBOXED_FDS);
        if (n == -EMFILE && ret->inherited > 0) {
                for (int i = 0; i < SANDBOXED_FDS; i++)
                        fds[i] = (int)ret->inherited + i;
                return 0;
        }
        return n < 0 ? (int)n : n == sizeof(*ret) ? 0 : -EPROTO;
}

static int order_read(const struct sandboxed_order *in, int block, struct keeper_order *ret)
{
        const struct command_head *head = &in->command;
        size_t pointers = (size_t)head->argc + head->envc + head->candidatec + 3;
        char *bytes = sys_map(in->image_bytes + head->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, block);
        char **room =
                sys_map(pointers * sizeof(char *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!bytes || !room)
                return -ENOMEM;
        ret->image = (struct image *)(void *)bytes;
        ret->has_nofile = true;
        ret->nofile = in->nofile;
        ret->is_intercepted = in->is_intercepted;
        ret->asking = in->asking;
        return in->holds ? 0 : keeper_order_unpack(ret, head, bytes + in->image_bytes, room);
}

/* Copies the command's stdio to higher numbers, so that the child can put it on 0, 1 and 2. */
static int stdio_lift(const int *fds, int ret[static 3])
{
        for (int i = 0; i < 3; i++) {
                ret[i] = (int)sys_call3(SYS_fcntl, fds[SANDBOXED_FD_STDIN + i], F_DUPFD_CLOEXEC, 10);
                if (ret[i] < 0)
                        return ret[i];
        }
        return 0;
}

/* Waits until the keeper has finished the view and made the inlets. When the keeper fails to do so, the socket closes. */
static void finish_await(int socket)
{
        const struct sandboxed_message here = { .kind = SANDBOXED_HERE };
        char byte;
        long n = sys_send(socket, &here, sizeof(here), MSG_NOSIGNAL);
        while (n >= 0 && (n = sys_read(socket, &byte, 1)) == -EINTR)
                n = 0;
        if (n != 1)
                sys_exit(127);
}

/* Runs in process 1 of a view that an fs helper joins. That process lives as long as its socket is open, and the kernel ends all
 * processes of the view with it. It closes all other descriptors, which come from outside of the view. The fs helper itself
 * checks whether the view is the right one. */
static NORETURN void hold(struct keeper *k, int socket)
{
        const struct sandboxed_message here = { .kind = SANDBOXED_HERE };
        struct enter_failure why;
        char byte;
        long r = sys_call3(SYS_close_range, 0, socket - 1, 0);
        if (r == 0)
                r = sys_call3(SYS_close_range, socket + 1, ~0U, 0);
        if (r < 0)
                fail(k, socket, r);
        if (enter_confine(k->order.image, &why) < 0) {
                child_note(k, &why);
                sandboxed_init_end(k, socket);
        }
        long n = sys_send(socket, &here, sizeof(here), MSG_NOSIGNAL);
        while (n > 0 || n == -EINTR)
                n = sys_read(socket, &byte, 1);
        sys_exit(0);
}

void farhand_init_run(int socket)
{
        static struct keeper k;
        struct sandboxed_order in;
        struct enter_failure why;
        struct child_start child = {
                .k = &k, .parent = sys_getpid(), .ruleset = -1, .children = -1, .socket = socket
        };
        int fds[SANDBOXED_FDS];

        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-init");
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sys_sigmask(~UINT64_C(0));
        k.leaf_fd = -1;
        int r = order_receive(socket, &in, fds);
        if (r == 0)
                r = order_read(&in, fds[SANDBOXED_FD_BLOCK], &k.order);
        if (r == 0)
                r = stdio_lift(fds, k.order.stdio);
        if (r == 0)
                r = sys_getpid() == 1 ? verify_spaces_new(k.order.image, &in.outside) : -EPROTO;
        if (r < 0)
                fail(&k, socket, r);
        if (in.holds)
                hold(&k, socket);
        if (k.order.image->finishes || in.has_inlets)
                finish_await(socket);
        child.io = child_stdio(&k.order);
        if (verify_view(k.order.image, &in.outside, &child.io, &child.ruleset, &why) < 0) {
                child_note(&k, &why);
                sandboxed_init_end(&k, socket);
        }
        sandboxed_init_run(&k, k.order.image, &child);
}
