/* stage: see stage.h. */
#include "proc/stage.h"

#include "base/sys.h"
#include "proc/box_internal.h"

#include <errno.h>
#include <sys/socket.h>

static NORETURN void fail(struct keeper *k, int socket, long r)
{
        box_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
        box_init_end(k, socket);
}

static int order_receive(int socket, struct box_order *ret, int fds[static BOX_FDS])
{
        struct iovec part = { ret, sizeof(*ret) };
        long n = box_receive(socket, &part, 1, fds, BOX_FDS);
        return n < 0 ? (int)n : n == sizeof(*ret) ? 0 : -EPROTO;
}

/* The next `count` strings of the block; they become a list with NULL behind it. */
static char **list_take(char ***room, uint32_t count, char **at)
{
        char **list = *room;
        for (uint32_t i = 0; i < count; i++) {
                *(*room)++ = *at;
                *at += strlen(*at) + 1;
        }
        *(*room)++ = NULL;
        return list;
}

static int order_read(const struct box_order *in, int block, struct keeper_order *ret)
{
        size_t pointers = (size_t)in->argc + in->envc + in->candidatec + 3;
        char *bytes = sys_map(in->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, block);
        char **room =
                sys_map(pointers * sizeof(char *), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1);
        if (!bytes || !room)
                return -ENOMEM;
        char *at = bytes + in->image_bytes;
        ret->image = (struct image *)(void *)bytes;
        ret->cwd = at;
        at += strlen(at) + 1;
        ret->argv = list_take(&room, in->argc, &at);
        ret->env = list_take(&room, in->envc, &at);
        ret->candidates = list_take(&room, in->candidatec, &at);
        ret->is_tty = in->is_tty;
        ret->set_nofile = true;
        ret->nofile = in->nofile;
        ret->limits = in->limits;
        return 0;
}

/* Below the command's stdio there must be room for 0, 1 and 2 of its own. */
static int stdio_lift(const int *fds, int ret[static 3])
{
        for (int i = 0; i < 3; i++) {
                ret[i] = (int)sys_call3(SYS_fcntl, fds[BOX_FD_STDIN + i], F_DUPFD_CLOEXEC, 10);
                if (ret[i] < 0)
                        return ret[i];
        }
        return 0;
}

void stage_run(int socket)
{
        static struct keeper k;
        struct box_order in;
        struct enter_failure why;
        struct child_start child = {
                .k = &k, .parent = sys_getpid(), .ruleset = -1, .children = -1, .socket = socket
        };
        int fds[BOX_FDS];

        (void)sys_prctl(PR_SET_NAME, (unsigned long)"fh-init");
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)sys_sigmask(~UINT64_C(0));
        k.leaf_fd = -1;
        int r = order_receive(socket, &in, fds);
        if (r == 0)
                r = order_read(&in, fds[BOX_FD_BLOCK], &k.order);
        if (r == 0)
                r = stdio_lift(fds, k.order.stdio);
        if (r < 0)
                fail(&k, socket, r);
        if (verify_view(k.order.image, &in.outside, in.is_tty ? k.order.stdio[0] : -1, &child.ruleset, &why) <
            0) {
                child_note(&k, &why);
                box_init_end(&k, socket);
        }
        box_init_run(&k, k.order.image, &child);
}
