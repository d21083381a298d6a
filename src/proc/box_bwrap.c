/* box_bwrap: the keeper starts bwrap, which starts farhand-init. See sandbox/bwrap.h; raw system calls only.
 *
 * bwrap runs outside the sandbox, so nothing of the command's is its business: not the environment, where LD_PRELOAD may
 * be, and not the pipes, which it would hold open. All that goes to farhand-init over the socket.
 */
#include "proc/box_internal.h"

#include "base/sys.h"
#include "sandbox/stub.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <sys/socket.h>

#define NUMBER_BYTES 24

/* What the process that will be bwrap needs; on the keeper's stack, which stays until the start is over. */
struct bwrap_start {
        struct keeper *k;
        const struct image *image;
        int socket, arguments, words;
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

/* ---- bwrap itself ---- */

/* "/proc/self/fd/7" */
static void put_fd_path(char ret[static 32 + NUMBER_BYTES], int fd)
{
        static const char prefix[] = "/proc/self/fd/";
        char digits[NUMBER_BYTES];
        size_t n = 0, count = 0;
        for (; prefix[n]; n++)
                ret[n] = prefix[n];
        for (unsigned left = (unsigned)fd; count == 0 || left > 0; left /= 10)
                digits[count++] = (char)('0' + left % 10);
        while (count > 0)
                ret[n++] = digits[--count];
        ret[n] = 0;
}

/* The name of the command's terminal, which shall be /dev/console in there; as enter_view.c has it. */
static bool find_tty(const struct keeper_order *o, char ret[static PATH_MAX])
{
        char self[32 + NUMBER_BYTES];
        struct stat named, tty;
        if (!o->is_tty)
                return false;
        put_fd_path(self, o->stdio[0]);
        long n = sys_call4(SYS_readlinkat, AT_FDCWD, self, ret, PATH_MAX - 1);
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

/* A copy above all numbers that are given away. */
static int lift(int fd, uint32_t above)
{
        return (int)sys_call3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, above);
}

/* Every lid on a file takes a descriptor, and there may be more of them than a command gets. */
static long raise_nofile(uint32_t needed)
{
        struct rlimit limit;
        long r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit);
        if (r < 0 || limit.rlim_cur >= needed)
                return r;
        limit.rlim_cur = MIN(limit.rlim_max, (rlim_t)needed);
        return sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, NULL);
}

/* By number, as bwrap.h has them; everything else is closed by execve. */
static long arrange(const struct bwrap_start *s)
{
        uint32_t end = BWRAP_FD_EMPTY + s->image->empties;
        long r = raise_nofile(end + 16);
        int null = sys_open("/dev/null", O_RDWR);
        int init = sys_open(image_at(s->image, s->image->init), O_PATH);
        int from[] = { null, null, s->words, s->socket, init, s->arguments };
        if (r == 0)
                r = null < 0 ? null : MIN(init, 0);
        for (size_t i = 0; r >= 0 && i < ARRAY_LEN(from); i++)
                r = from[i] = lift(from[i], end);
        for (int i = 0; r >= 0 && i < (int)ARRAY_LEN(from); i++)
                r = sys_call3(SYS_dup3, from[i], i, 0);
        for (uint32_t i = BWRAP_FD_EMPTY; r >= 0 && i < end; i++)
                r = sys_call3(SYS_dup3, from[0], i, 0);
        if (r >= 0)
                r = sys_call3(SYS_close_range, end, ~0U, CLOSE_RANGE_CLOEXEC);
        return MIN(r, 0);
}

static NORETURN NO_ASAN void bwrap_exec(const struct bwrap_start *s, const char *tty)
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
        child_fail(s->k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP,
                   sys_call3(SYS_execve, image_at(s->image, s->image->program), argv, env));
}
_Static_assert(BWRAP_FD_ARGUMENTS == 5 && BWRAP_FD_INIT == 4, "as bwrap_exec has them");

/* bwrap lets mounts that the machine makes later appear in the sandbox. Who may, takes it out of the machine's first. */
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
        if (s->enters_leaf) {
                int entered = cgroup_leaf_enter(s->k->leaf_fd);
                if (entered < 0 && s->k->order.needs_leaf)
                        child_fail(s->k, SPAWN_STEP_LIMITS, entered);
        }
        (void)sys_call0(SYS_setsid); /* no terminal is its own */
        mounts_part();
        bool has_tty = s->image->has_view && find_tty(&s->k->order, tty);
        long r = arrange(s);
        if (r < 0)
                child_fail(s->k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
        bwrap_exec(s, has_tty ? tty : NULL);
}

/* ---- farhand-init's order ---- */

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
                        struct box_order *ret)
{
        char *const cwd[] = { (char *)(uintptr_t)o->cwd, NULL };
        uint32_t one;
        long r = write_all(fd, image, image->bytes);
        if (r == 0)
                r = put_strings(fd, cwd, &one);
        if (r == 0)
                r = put_strings(fd, o->argv, &ret->argc);
        if (r == 0)
                r = put_strings(fd, o->env, &ret->envc);
        if (r == 0)
                r = put_strings(fd, o->candidates, &ret->candidatec);
        long end = r == 0 ? sys_call3(SYS_lseek, fd, 0, SEEK_CUR) : r;
        ret->bytes = (uint64_t)MAX(end, 0);
        return MIN(end, 0);
}

static long order_send(const struct keeper_order *o, int socket, struct box_order *order, int block)
{
        const int fds[BOX_FDS] = { o->stdio[0], o->stdio[1], o->stdio[2], block };
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(fds))] = { 0 };
        struct iovec part = { order, sizeof(*order) };
        struct msghdr msg = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        *c = (struct cmsghdr){ .cmsg_len = CMSG_LEN(sizeof(fds)),
                               .cmsg_level = SOL_SOCKET,
                               .cmsg_type = SCM_RIGHTS };
        for (size_t i = 0; i < sizeof(fds); i++)
                CMSG_DATA(c)[i] = ((const unsigned char *)fds)[i];
        return MIN(sys_call3(SYS_sendmsg, socket, &msg, MSG_NOSIGNAL), 0L);
}

static long order_make(struct keeper *k, const struct image *image, int socket)
{
        const struct keeper_order *o = &k->order;
        struct box_order order = {
                .image_bytes = image->bytes, .is_tty = o->is_tty, .nofile = o->nofile, .limits = o->limits
        };
        long r = verify_spaces_get(&order.outside);
        if (r == 0 && !o->set_nofile)
                r = sys_call4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &order.nofile);
        int block = r == 0 ? memfd("farhand-order") : (int)r;
        r = block < 0 ? block : block_write(o, image, block, &order);
        if (r == 0)
                r = order_send(o, socket, &order, block);
        if (block >= 0)
                sys_close(block);
        return r;
}

/* ---- the keeper ---- */

/* With what lies on stubs as they are now: what there is none of bwrap would make. */
static long arguments_write(const struct image *image, int fd)
{
        const struct image_op *ops = image_at(image, image->ops);
        const struct image_stub *stubs = image_at(image, image->stubs);
        const char *text = image_at(image, image->arguments),
                   *others = image_at(image, image->arguments_others);
        uint32_t from = 0;
        long r = 0;
        for (uint32_t n = 0; r == 0 && n < image->stub_count; n++) {
                const struct bwrap_stub *lid = &stubs[n].lid;
                const struct image_op *op = &ops[stubs[n].op];
                bool is_planned = (op->is_directory != 0) == (stubs[n].is_directory != 0);
                if (!op->may_miss && is_planned)
                        continue;
                r = write_all(fd, text + from, lid->planned.at - from);
                from = lid->planned.at + lid->planned.bytes;
                if (r == 0 && !op->may_miss)
                        r = write_all(fd, others + lid->other.at, lid->other.bytes);
        }
        return r == 0 ? write_all(fd, text + from, image->arguments_bytes - from) : r;
}

int box_bwrap_start(struct keeper *k, struct image *image, int ends[2], int *ret_words)
{
        struct enter_failure why;
        struct bwrap_start s = { .k = k,
                                 .image = image,
                                 .socket = ends[1],
                                 .arguments = -1,
                                 .words = -1,
                                 .keeper = sys_getpid() };
        if (stubs_make(image, &why) < 0 || verify_sources(image, &why) < 0) {
                child_note(k, &why);
                return -why.os_errno;
        }
        s.words = *ret_words = memfd("farhand-words");
        long r = s.words < 0 ? s.words : (s.arguments = memfd("farhand-bwrap"));
        if (r >= 0)
                r = arguments_write(image, s.arguments);
        if (r >= 0)
                r = sys_call3(SYS_lseek, s.arguments, 0, SEEK_SET);
        if (r >= 0)
                r = order_make(k, image, ends[0]);
        /* A forked keeper has memory of its own, and sanitizers in it. */
        if (r >= 0)
                r = box_process(k, k->is_fork ? 0 : CLONE_VM | CLONE_VFORK, bwrap_run, &s, &s.enters_leaf);
        if (s.arguments >= 0)
                sys_close(s.arguments);
        if (r < 0) {
                box_fail_at(k, SPAWN_STEP_SANDBOX + ENTER_BUBBLEWRAP, r);
                return (int)r;
        }
        k->root = (pid_t)r;
        return 0;
}

/* Its last words are the ones that count. */
void box_bwrap_listen(struct image *image, int words)
{
        long size = sys_call3(SYS_lseek, words, 0, SEEK_END);
        long from = MAX(size - (BWRAP_WORDS_MAX - 1), 0L);
        long n = size < 0 ? size : sys_call4(SYS_pread64, words, image->words, BWRAP_WORDS_MAX - 1, from);
        image->words[MAX(n, 0L)] = 0;
}
