/* backend: see backend.h.
 *
 * An attempt is the sandbox itself: a child that enters an image as the init of a command does (sandbox/enter.h), and
 * exits. What fails here is what would fail there.
 */
#include "sandbox/backend.h"

#include "base/fd.h"
#include "base/mem.h"
#include "base/sys.h"
#include "sandbox/enter.h"
#include "sandbox/image.h"
#include "sandbox/landlock.h"
#include "sandbox/remedy.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define STACK_BYTES (64 * 1024)
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"

static const char *const names[] = {
        [BACKEND_NAMESPACES] = "namespaces",
        [BACKEND_BUBBLEWRAP] = "bubblewrap",
        [BACKEND_LANDLOCK] = "landlock",
        [BACKEND_NONE] = "none",
};

const char *backend_name(enum backend b)
{
        return names[b];
}

int backend_parse(struct slice name, enum backend *ret)
{
        for (enum backend b = 0; b < BACKEND_NONE; b++) {
                if (slice_eq(name, slice_from_str(names[b]))) {
                        *ret = b;
                        return 0;
                }
        }
        if (!slice_eq(name, S("auto")))
                return -EINVAL;
        *ret = BACKEND_AUTO;
        return 0;
}

/* ---- attempts ---- */

/* Shared with the child. */
struct attempt {
        const struct image *image;
        struct enter_failure why;
        bool has_failed, is_done;
};

static NO_ASAN void attempt_run(void *arg)
{
        struct attempt *a = arg;
        int ruleset = -1;
        bool has_init = image_has_init(a->image);
        (void)sys_prctl(PR_SET_PDEATHSIG, SIGKILL);
        a->has_failed = (has_init ? enter_ids(a->image, &a->why) < 0 || enter_network(&a->why) < 0 ||
                                            enter_view(a->image, -1, &ruleset, &a->why) < 0
                                  : enter_rules(a->image, -1, &ruleset, &a->why) < 0) ||
                        enter_confine(a->image, &a->why) < 0 || enter_landlock(ruleset, &a->why) < 0;
        a->is_done = true;
        sys_exit(0);
}

/* Nobody else is to hear of the child or to reap it: it sends no signal when it ends, and is waited for by its descriptor. No
 * handler of ours runs in it. */
static int attempt_clone(struct attempt *a, char *stack)
{
        sigset_t all, before;
        int pidfd = -1;
        unsigned long flags = (unsigned long)enter_flags(a->image) | CLONE_PIDFD;
        sigfillset(&all);
        (void)pthread_sigmask(SIG_SETMASK, &all, &before);
        long pid = sys_clone_onto(flags, stack + STACK_BYTES, &pidfd, NULL, attempt_run, a);
        (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (pid < 0)
                return (int)pid;
        struct pollfd fd = { .fd = pidfd, .events = POLLIN };
        while (poll(&fd, 1, BACKEND_TEST_MS) < 0 && errno == EINTR)
                continue;
        (void)kill((pid_t)pid, SIGKILL);
        /* Who hangs in the kernel is not waited for. */
        (void)waitpid((pid_t)pid, NULL, __WALL | (fd.revents ? 0 : WNOHANG));
        fd_close(pidfd);
        return 0;
}

static void *shared_new(size_t n, int flags)
{
        void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, flags | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? NULL : p;
}

static struct backend_test failed(const char *step, int os_errno)
{
        return (struct backend_test){
                .was_tried = true, .os_errno = os_errno, .step = step, .remedy = remedy_for(step, os_errno)
        };
}

static struct backend_test attempt_judge(const struct attempt *a, int r)
{
        if (r < 0)
                return failed("namespaces", -r);
        if (!a->is_done)
                return failed("namespaces", ETIMEDOUT);
        if (a->has_failed)
                return failed(enter_step_name(a->why.step), a->why.os_errno);
        return (struct backend_test){ .was_tried = true };
}

static struct backend_test image_try(const struct image *image)
{
        struct backend_test result = failed("memory", ENOMEM);
        struct attempt *a = shared_new(sizeof(*a), MAP_SHARED);
        char *stack = shared_new(STACK_BYTES, MAP_PRIVATE);
        if (a && stack) {
                a->image = image;
                int r = attempt_clone(a, stack);
                result = attempt_judge(a, r);
        }
        if (stack)
                (void)munmap(stack, STACK_BYTES);
        if (a)
                (void)munmap(a, sizeof(*a));
        return result;
}

/* The real filters take longer to compile than all the rest; whether the kernel takes filters a small one tells. */
static struct backend_test plan_try(const struct plan *plan, enum backend backend, int landlock_abi)
{
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        const struct seccomp_filter filter = { &allow, 1 };
        const struct image_extra extra = { .backend = backend,
                                           .filter = &filter,
                                           .landlock_abi = landlock_abi };
        _close_ int fd = image_make(plan, &extra);
        struct image *image = fd < 0 ? NULL : image_map(fd);
        struct backend_test result = image ? image_try(image) : failed("memory", fd < 0 ? -fd : ENOMEM);
        image_unmap(image);
        return result;
}

/* ---- each ---- */

/* The machine read-only, without network: that has everything that a plan can ask for but operations. */
static struct backend_test namespaces_try(struct backends *b)
{
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ };
        return plan_try(&plan, BACKEND_NAMESPACES, b->landlock_abi);
}

/* As a command's keeper runs it; but what is in the view is not looked at. */
static struct backend_test bubblewrap_try(struct backends *b)
{
        struct err err = ERR_INIT;
        char cwd[PATH_MAX];
        const char *path = getenv("PATH");
        struct slice here = slice_from_str(getcwd(cwd, sizeof(cwd)));
        int r = bwrap_find(path ? path : DEFAULT_PATH, here, &b->bwrap, &err);
        if (r == 0)
                r = bwrap_test(&b->bwrap, &err);
        if (r == 0)
                return (struct backend_test){ .was_tried = true };
        return (struct backend_test){
                .was_tried = true, .os_errno = err.os_errno, .step = err.step, .remedy = err.remedy
        };
}

static struct backend_test landlock_try(struct backends *b)
{
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ };
        int abi = landlock_probe();
        if (abi < LANDLOCK_ALONE_ABI)
                return failed("landlock", abi < 0 ? -abi : EOPNOTSUPP);
        return plan_try(&plan, BACKEND_LANDLOCK, b->landlock_abi);
}

void backends_test(enum backend wish, bool tries_all, struct backends *ret)
{
        static struct backend_test (*const tries[])(struct backends *) = {
                [BACKEND_NAMESPACES] = namespaces_try,
                [BACKEND_BUBBLEWRAP] = bubblewrap_try,
                [BACKEND_LANDLOCK] = landlock_try,
        };
        *ret = (struct backends){ .wish = wish, .chosen = BACKEND_NONE, .landlock_abi = landlock_abi() };
        for (enum backend b = 0; b < BACKEND_NONE; b++) {
                bool is_wanted = (wish == BACKEND_AUTO || wish == b) && ret->chosen == BACKEND_NONE;
                if (!is_wanted && !tries_all)
                        continue;
                ret->tests[b] = tries[b](ret);
                if (is_wanted && ret->tests[b].os_errno == 0)
                        ret->chosen = b;
        }
}

/* ---- words ---- */

int backends_refuse(const struct backends *b, struct err *err)
{
        char text[512];
        size_t n = 0;
        const struct backend_test *first = NULL;
        for (enum backend i = 0; i < BACKEND_NONE && n < sizeof(text); i++) {
                const struct backend_test *t = &b->tests[i];
                if (!t->was_tried || t->os_errno == 0)
                        continue;
                first = first ? first : t;
                bool is_named = strcmp(t->step, names[i]) == 0;
                int more = snprintf(text + n, sizeof(text) - n, "%s%s%s%s: %s (os error %d)", n ? "; " : "",
                                    is_named ? "" : names[i], is_named ? "" : ": ", t->step,
                                    errno_text(t->os_errno), t->os_errno);
                n += (size_t)MAX(more, 0);
        }
        must(first);
        err->reason = "sandboxUnavailable";
        err->step = first->step;
        err->os_errno = first->os_errno;
        err->remedy = first->remedy;
        return err_set(err, 0, -first->os_errno, "sandbox intent cannot be enforced on this executor: %s",
                       text);
}
