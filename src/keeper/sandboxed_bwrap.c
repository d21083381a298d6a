/* sandboxed_bwrap: the keeper starts bwrap, which starts farhand-init. Raw system calls only.
 *
 * bwrap runs outside of the sandbox, so it must get nothing that belongs to the command: not the environment, which may contain
 * LD_PRELOAD, and not the pipes, which bwrap would keep open. All that goes to farhand-init over the socket. But while the kernel
 * passes no descriptors on (lend.h), bwrap inherits them for farhand-init: it closes its own copies once farhand-init has them.
 */
#include "keeper/sandboxed_internal.h"

#include "base/sys_proc.h"
#include "sandbox/placeholder.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/socket.h>

/* What the process that will be bwrap needs; on the keeper's stack, which is valid until the start is over. */
struct bwrap_start {
        struct keeper *k;
        const struct image *image;
        int socket;                /* the end of farhand-init of a socket pair with the keeper */
        int arguments;             /* a memfd with the arguments of bwrap */
        int errors_fd;             /* a memfd that bwrap writes its errors to */
        int handed[SANDBOXED_FDS]; /* the descriptors of the order; the block is -1 once they were sent */
        bool enters_leaf;
        pid_t keeper;
};

static int memfd(const char *name)
{
        return (int)sys_call2(SYS_memfd_create, name, MFD_CLOEXEC);
}

static long write_all(int fd, const void *p, size_t n)
{
        const char *at = p;
        while (n > 0) {
                long r = sys_write(fd, at, n);
                if (r == -EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? r : -EIO;
                at += r;
                n -= (size_t)r;
        }
        return 0;
}

/* ---- the process that becomes bwrap ---- */

/* Finds the name of the command's terminal, which becomes /dev/console in the sandbox; as in sandbox/enter_view.c. */
static bool find_tty(const struct keeper_order *o, char ret[static PATH_MAX])
{
        struct sys_path self = { .n = 0 };
        struct stat named, tty;
        if (!o->is_tty)
                return false;
        sys_path_add(&self, "/proc/self/fd/");
        sys_path_add_pid(&self, o->stdio[0]);
        long n = sys_call4(SYS_readlinkat, AT_FDCWD, self.text, ret, PATH_MAX - 1);
        if (n <= 1 || ret[0] != '/')
                return false;
        ret[n] = 0;
        int fd = sys_open(ret, O_PATH | O_NOFOLLOW);
        bool is_it = fd >= 0 && sys_fstat(fd, &named) == 0 && sys_fstat(o->stdio[0], &tty) == 0 &&
                     named.st_dev == tty.st_dev && named.st_ino == tty.st_ino;
        if (fd >= 0)
                sys_close(fd);
        return is_it;
}

/* Copies a descriptor to a number above all those that sandbox/bwrap.h assigns. */
static int lift(int fd, uint32_t above)
{
        return (int)sys_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, above);
}

/* Raises the limit on descriptors: bwrap needs one for each empty file that covers another, which may be more than a command may
 * open. */
static long raise_nofile(uint32_t needed)
{
        struct rlimit limit;
        long r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
        if (r < 0 || limit.rlim_cur >= needed)
                return r;
        limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)needed);
        return sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL);
}

static long check_mark(int fd, const struct helper_mark *mark)
{
        struct stat st;
        long r = sys_fstat(fd, &st);
        if (r < 0)
                return r;
        struct helper_mark now = helper_mark_of(&st);
        return helper_mark_eq(&now, mark) ? 0 : -ESTALE;
}

/* Checks that the two programs are those that the server found at its start. */
static long check_programs(const struct bwrap_start *s)
{
        const int *programs = s->k->order.bwrap;
        long r = check_mark(programs[0], &s->image->program);
        return r < 0 || s->image->init_is_copy ? r : check_mark(programs[1], &s->image->init);
}

/* Gives the descriptors the numbers of sandbox/bwrap.h; execve closes everything else. bwrap itself is put above them. */
static long arrange(const struct bwrap_start *s, int *ret_program)
{
        const int *handed = s->handed;
        uint32_t handed_count = handed[SANDBOXED_FD_BLOCK] >= 0 ? SANDBOXED_FDS : 0;
        uint32_t empty_end = BWRAP_FD_EMPTY + s->image->empties, end = empty_end + handed_count;
        long r = raise_nofile(end + 16);
        int null = sys_open("/dev/null", O_RDWR);
        int from[] = { null, null, s->errors_fd, s->socket, s->k->order.bwrap[1], s->arguments };
        if (r == 0)
                r = null < 0 ? null : check_programs(s);
        if (r >= 0)
                r = *ret_program = lift(s->k->order.bwrap[0], end);
        for (size_t i = 0; r >= 0 && i < ARRAY_LEN(from); i++)
                r = from[i] = lift(from[i], end);
        int lifted[SANDBOXED_FDS];
        for (uint32_t i = 0; r >= 0 && i < handed_count; i++)
                r = lifted[i] = lift(handed[i], end);
        for (int i = 0; r >= 0 && i < (int)ARRAY_LEN(from); i++)
                r = sys_call3(SYS_dup3, from[i], i, 0);
        for (uint32_t i = BWRAP_FD_EMPTY; r >= 0 && i < empty_end; i++)
                r = sys_call3(SYS_dup3, from[0], i, 0);
        for (uint32_t i = 0; r >= 0 && i < handed_count; i++)
                r = sys_call3(SYS_dup3, lifted[i], empty_end + i, 0);
        if (r >= 0)
                r = sys_call3(SYS_close_range, end, ~0U, CLOSE_RANGE_CLOEXEC);
        return MIN(r, 0);
}

static NORETURN NO_ASAN void bwrap_exec(const struct bwrap_start *s, int program, const char *tty)
{
        const char *argv[16] = { "bwrap", "--args", "5" };
        const char *const env[] = { NULL };
        size_t n = 3;
        if (tty) {
                argv[n++] = "--dev-bind";
                argv[n++] = tty;
                argv[n++] = "/dev/console";
        }
        if (s->image->has_view) {
                argv[n++] = "--remount-ro";
                argv[n++] = "/dev";
        }
        argv[n++] = "--";
        argv[n++] = "/proc/self/fd/4";
        (void)sys_sigmask(0);
        child_fail(s->k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, sys_exec_fd(program, argv, env));
}
_Static_assert(BWRAP_FD_ARGUMENTS == 5 && BWRAP_FD_INIT == 4, "as bwrap_exec has them");

/* With bwrap, mounts that are made on the machine later appear in the sandbox. To prevent that, this function leaves the machine's
 * mount namespace first, if it may: as root, or inside of the fence with the capabilities of that namespace. */
static void mounts_part(void)
{
        if (sys_call1(SYS_unshare, CLONE_NEWNS) == 0)
                (void)sys6(SYS_mount, 0, SYS_ARG("/"), 0, SYS_MS_REC | SYS_MS_PRIVATE, 0, 0);
}

static NO_ASAN void bwrap_run(void *arg)
{
        const struct bwrap_start *s = arg;
        char tty[PATH_MAX];
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (sys_getppid() != s->keeper)
                sys_exit(127);
        if (s->enters_leaf)
                child_enter_leaf(s->k);
        (void)sys_call0(SYS_setsid); /* bwrap must not have a controlling terminal */
        if (s->k->fence_fd >= 0) {
                long entered = sys_call2(SYS_setns, s->k->fence_fd, CLONE_NEWUSER);
                if (entered < 0)
                        child_fail(s->k, SPAWN_STEP_NAMESPACES, entered);
        }
        mounts_part();
        bool has_tty = s->image->has_view && find_tty(&s->k->order, tty);
        int program = -1;
        long r = arrange(s, &program);
        if (r < 0)
                child_fail(s->k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
        bwrap_exec(s, program, has_tty ? tty : NULL);
}

/* ---- the order for farhand-init ---- */

static long put_strings(int fd, char *const *list, uint32_t *ret_count)
{
        long r = 0;
        for (*ret_count = 0; r == 0 && *list; list++, ++*ret_count) {
                size_t n = 0;
                while ((*list)[n])
                        n++;
                r = write_all(fd, *list, n + 1);
        }
        return r;
}

static long block_write(const struct keeper_order *o, const struct image *image, int fd,
                        struct sandboxed_order *ret)
{
        char *const cwd[] = { (char *)(uintptr_t)o->cwd, NULL };
        uint32_t one;
        long r = write_all(fd, image, image->bytes);
        if (r == 0)
                r = put_strings(fd, cwd, &one);
        if (r == 0)
                r = put_strings(fd, o->argv, &ret->command.argc);
        if (r == 0)
                r = put_strings(fd, o->env, &ret->command.envc);
        if (r == 0)
                r = put_strings(fd, o->candidates, &ret->command.candidatec);
        long end = r == 0 ? sys_call3(SYS_lseek, fd, 0, SEEK_CUR) : r;
        ret->command.bytes = end < 0 ? 0 : (uint64_t)end - image->bytes;
        return MIN(end, 0);
}

static long order_send(int socket, struct sandboxed_order *order, const int fds[SANDBOXED_FDS], bool with_fds)
{
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(SANDBOXED_FDS * sizeof(int))] = { 0 };
        struct iovec part = { order, sizeof(*order) };
        struct msghdr msg = { .msg_iov = &part, .msg_iovlen = 1 };
        if (with_fds) {
                msg.msg_control = control;
                msg.msg_controllen = sizeof(control);
                struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
                *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(SANDBOXED_FDS * sizeof(int)),
                                       .cmsg_level = SOL_SOCKET,
                                       .cmsg_type = SCM_RIGHTS };
                for (size_t i = 0; i < SANDBOXED_FDS * sizeof(int); i++)
                        CMSG_DATA(c)[i] = ((const unsigned char *)fds)[i];
        }
        long r = sys_call3(SYS_sendmsg, socket, &msg, MSG_NOSIGNAL);
        return MIN(r, 0L);
}

/* Sends the order with its descriptors, or without them when bwrap has to pass them on: then the block stays open. */
static long order_hand_over(struct bwrap_start *s, int socket, struct sandboxed_order *order)
{
        int *block = &s->handed[SANDBOXED_FD_BLOCK];
        long r = order_send(socket, order, s->handed, true);
        if (r == -ETOOMANYREFS) {
                order->inherited = BWRAP_FD_EMPTY + s->image->empties;
                return order_send(socket, order, NULL, false);
        }
        sys_close(*block);
        *block = -1;
        return r;
}

static long order_make(struct bwrap_start *s, int socket)
{
        const struct keeper_order *o = &s->k->order;
        struct sandboxed_order order = { .image_bytes = s->image->bytes,
                                         .command = { .is_tty = o->is_tty, .limits = o->limits },
                                         .holds = o->holds,
                                         .has_inlets = o->inlets.count > 0,
                                         .is_intercepted = o->is_intercepted,
                                         .asking = o->asking,
                                         .nofile = o->nofile };
        for (int i = 0; i < 3; i++)
                s->handed[SANDBOXED_FD_STDIN + i] = o->stdio[i];
        long r = sandboxed_outside(s->k, &order.outside);
        if (r == 0 && !o->has_nofile)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &order.nofile);
        int block = r == 0 ? memfd("farhand-order") : (int)r;
        s->handed[SANDBOXED_FD_BLOCK] = block;
        r = block < 0 ? block : block_write(o, s->image, block, &order);
        return r == 0 ? order_hand_over(s, socket, &order) : r;
}

/* ---- functions that run in the keeper ---- */

/* Writes the arguments of bwrap for the placeholders as they are now, because bwrap would create a placeholder that is missing. */
static long arguments_write(const struct image *image, int fd)
{
        const struct image_op *ops = image_at(image, image->ops);
        const struct image_placeholder *placeholders = image_at(image, image->placeholders);
        const char *text = image_at(image, image->arguments),
                   *others = image_at(image, image->arguments_others);
        uint32_t from = 0;
        long r = 0;
        for (uint32_t n = 0; r == 0 && n < image->placeholder_count; n++) {
                const struct bwrap_placeholder *bwrap = &placeholders[n].bwrap;
                const struct image_op *op = &ops[placeholders[n].op];
                bool is_planned = (op->is_directory != 0) == (placeholders[n].is_directory != 0);
                if (!op->may_be_missing && is_planned)
                        continue;
                r = write_all(fd, text + from, bwrap->planned.at - from);
                from = bwrap->planned.at + bwrap->planned.bytes;
                if (r == 0 && !op->may_be_missing)
                        r = write_all(fd, others + bwrap->other.at, bwrap->other.bytes);
        }
        return r == 0 ? write_all(fd, text + from, image->arguments_bytes - from) : r;
}

int sandboxed_bwrap_start(struct keeper *k, struct image *image, int ends[2], int *ret_errors_fd)
{
        struct enter_failure why;
        struct bwrap_start s = { .k = k,
                                 .image = image,
                                 .socket = ends[1],
                                 .arguments = -1,
                                 .errors_fd = -1,
                                 .handed = { -1, -1, -1, -1 },
                                 .keeper = sys_getpid() };
        if (placeholders_make(image, &why) < 0 || verify_sources(image, &why) < 0) {
                child_note(k, &why);
                return -why.os_errno;
        }
        s.errors_fd = *ret_errors_fd = memfd("farhand-errors");
        long r = s.errors_fd < 0 ? s.errors_fd : (s.arguments = memfd("farhand-bwrap"));
        if (r >= 0)
                r = arguments_write(image, s.arguments);
        if (r >= 0)
                r = sys_call3(SYS_lseek, s.arguments, 0, SEEK_SET);
        if (r >= 0)
                r = order_make(&s, ends[0]);
        /* A forked keeper may run with sanitizers, so its child gets memory of its own, too. */
        if (r >= 0)
                r = sandboxed_process(k, k->is_fork ? 0 : CLONE_VM | CLONE_VFORK, bwrap_run, &s,
                                      &s.enters_leaf);
        if (s.arguments >= 0)
                sys_close(s.arguments);
        if (s.handed[SANDBOXED_FD_BLOCK] >= 0)
                sys_close(s.handed[SANDBOXED_FD_BLOCK]);
        if (r < 0) {
                sandboxed_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
                return (int)r;
        }
        k->root = (pid_t)r;
        return 0;
}

/* Keeps only the end of what bwrap has written to its stderr, because the last words name the error. */
void sandboxed_bwrap_read_errors(struct image *image, int errors_fd)
{
        long size = sys_call3(SYS_lseek, errors_fd, 0, SEEK_END);
        long from = MAX(size - (BWRAP_WORDS_MAX - 1), 0L);
        long n = size < 0 ? size : sys_call4(SYS_pread64, errors_fd, image->words, BWRAP_WORDS_MAX - 1, from);
        image->words[MAX(n, 0L)] = 0;
}
