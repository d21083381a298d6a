/* backend: tries the ways to enforce a plan, and words the refusal when none works.
 *
 * An attempt builds a real sandbox: a child enters an image as the init of a command does (sandbox/enter.h), and exits. A step
 * that fails here would fail for a command.
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

/* ---- attempts ---- */

/* An attempt to enter an image, in memory that the child shares. */
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
                                            enter_view(a->image, NULL, &ruleset, &a->why) < 0
                                  : enter_rules(a->image, NULL, &ruleset, &a->why) < 0) ||
                        enter_confine(a->image, &a->why) < 0 || enter_landlock(ruleset, &a->why) < 0;
        a->is_done = true;
        sys_exit(0);
}

/* Runs an attempt in a child. The child sends no signal when it ends and is waited for by its pidfd, so that no other code of
 * the process reaps it. Signals are blocked, so that no handler of the server runs in the child. */
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
        /* A child that hangs in the kernel is not waited for. */
        (void)waitpid((pid_t)pid, NULL, __WALL | (fd.revents ? 0 : WNOHANG));
        fd_close(pidfd);
        return 0;
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
        struct attempt *a = sys_map(sizeof(*a), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1);
        char *stack = sys_stack_map(STACK_BYTES);
        if (a && stack) {
                a->image = image;
                int r = attempt_clone(a, stack);
                result = attempt_judge(a, r);
        }
        if (stack)
                sys_stack_unmap(stack, STACK_BYTES);
        if (a)
                (void)munmap(a, sizeof(*a));
        return result;
}

/* Tries a read-only view of the machine without network: everything that a plan can need except operations. A small filter is
 * enough to see whether the kernel accepts filters; the real ones take longer to compile than all the rest. */
static struct backend_test view_try(enum backend backend, int landlock_abi)
{
        const struct plan plan = { .has_view = true, .root = PLAN_ROOT_READ };
        struct sock_filter allow = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        const struct seccomp_filter filter = { &allow, 1 };
        const struct image_extra extra = { .backend = backend,
                                           .filter = &filter,
                                           .landlock_abi = landlock_abi };
        _close_ int fd = image_make(&plan, &extra);
        struct image *image = fd < 0 ? NULL : image_map(fd);
        struct backend_test result = image ? image_try(image) : failed("memory", fd < 0 ? -fd : ENOMEM);
        image_unmap(image);
        return result;
}

/* ---- the test of each back end ---- */

static struct backend_test namespaces_try(struct backends *b)
{
        return view_try(BACKEND_NAMESPACES, b->landlock_abi);
}

/* Runs bwrap as the keeper of a command does, but does not verify the view. */
static struct backend_test bubblewrap_try(struct backends *b)
{
        struct err err = ERR_INIT;
        char cwd[PATH_MAX];
        const char *path = getenv("PATH");
        struct slice here = slice_from_str(getcwd(cwd, sizeof(cwd)));
        int r = bwrap_find(path ? path : DEFAULT_PATH, here, &b->bwrap, &err);
        bool is_found = r == 0;
        if (is_found)
                r = bwrap_test(&b->bwrap, &err);
        if (r == 0)
                return (struct backend_test){ .was_tried = true };
        struct backend_test result = {
                .was_tried = true, .os_errno = err.os_errno, .step = err.step, .remedy = err.remedy
        };
        if (is_found) /* the text holds output of bwrap, which may be anything, so it is not kept */
                bwrap_release(&b->bwrap);
        else
                (void)snprintf(result.text, sizeof(result.text), "%.*s", BACKEND_TEXT_BYTES - 1, err.text);
        return result;
}

static struct backend_test landlock_try(struct backends *b)
{
        int abi = landlock_probe();
        if (abi < LANDLOCK_ALONE_ABI)
                return failed("landlock", abi < 0 ? -abi : EOPNOTSUPP);
        return view_try(BACKEND_LANDLOCK, b->landlock_abi);
}

/* Does this error only mean that processes, descriptors or memory are used up at the moment? */
static bool is_passing(int os_errno)
{
        return os_errno == EAGAIN || os_errno == ENOMEM || os_errno == EMFILE || os_errno == ENFILE ||
               os_errno == ETIMEDOUT;
}

void backends_test(enum backend wish, bool tries_all, struct backends *ret)
{
        static struct backend_test (*const tries[])(struct backends *) = {
                [BACKEND_NAMESPACES] = namespaces_try,
                [BACKEND_BUBBLEWRAP] = bubblewrap_try,
                [BACKEND_LANDLOCK] = landlock_try,
        };
        *ret = (struct backends){
                .wish = wish, .chosen = BACKEND_NONE, .landlock_abi = landlock_abi(), .bwrap = BWRAP_NONE
        };
        for (enum backend b = 0; b < BACKEND_NONE; b++) {
                bool is_wanted = (wish == BACKEND_AUTO || wish == b) && ret->chosen == BACKEND_NONE &&
                                 !ret->is_passing;
                if (!is_wanted && !tries_all)
                        continue;
                ret->tests[b] = tries[b](ret);
                if (is_wanted && ret->tests[b].os_errno == 0)
                        ret->chosen = b;
                ret->is_passing = ret->is_passing || (is_wanted && is_passing(ret->tests[b].os_errno));
        }
}

void backends_release(struct backends *b)
{
        bwrap_release(&b->bwrap);
}

/* ---- the refusal when no back end works ---- */

int backends_refuse(const struct backends *b, struct err *err)
{
        char text[BACKEND_NONE * (BACKEND_TEXT_BYTES + 128)];
        size_t n = 0;
        const struct backend_test *first = NULL;
        for (enum backend i = 0; i < BACKEND_NONE && n < sizeof(text); i++) {
                const struct backend_test *t = &b->tests[i];
                if (!t->was_tried || t->os_errno == 0)
                        continue;
                first = first ? first : t;
                bool is_named = strcmp(t->step, backend_name(i)) == 0;
                int more =
                        snprintf(text + n, sizeof(text) - n, "%s%s%s%s%s%s: %s (os error %d)", n ? "; " : "",
                                 is_named ? "" : backend_name(i), is_named ? "" : ": ", t->step,
                                 t->text[0] ? ": " : "", t->text, errno_text(t->os_errno), t->os_errno);
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
