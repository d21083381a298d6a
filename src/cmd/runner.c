/* runner: starts a spawner, gives it one command and notes what the spawner reports. */
#include "cmd/runner.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/slice.h"
#include "base/sys.h"

#include <errno.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* How long to wait for the end of the spawner: longer than the 10 s after which the spawner gives up by itself. */
#define CLOSE_MS 15000

static void on_started(void *arg, uint32_t number UNUSED, pid_t pid UNUSED)
{
        struct runner *r = arg;
        r->has_started = true;
}

static void on_failed(void *arg, uint32_t number UNUSED, const char *step, int os_errno, uint32_t op)
{
        struct runner *r = arg;
        r->has_failed = true;
        r->step = step;
        r->os_errno = os_errno;
        r->op = op;
}

static void on_exited(void *arg, uint32_t number UNUSED, const struct spawn_exit *exit)
{
        struct runner *r = arg;
        r->has_exited = true;
        r->status = exit->status;
}

static void on_signalled(void *arg UNUSED, uint32_t number UNUSED, int os_errno UNUSED)
{
}

static void on_gone(void *arg, uint32_t number UNUSED)
{
        struct runner *r = arg;
        r->is_over = true;
}

static void on_lost(void *arg)
{
        struct runner *r = arg;
        r->is_over = true;
}

int runner_open(struct runner *r, struct err *err)
{
        static const struct spawn_events events = {
                .started = on_started,
                .failed = on_failed,
                .exited = on_exited,
                .signalled = on_signalled,
                .gone = on_gone,
                .lost = on_lost,
        };
        *r = (struct runner){ .spawner = NULL };
        if (access("/dev/null", R_OK | W_OK) < 0) { /* the spawner would end without saying why */
                err->os_errno = errno;
                err_set(err, 0, -errno, "/dev/null: %s", errno_text(errno));
                err->remedy = "mount a /dev that has null, zero, full, random, urandom and tty";
                return err->code;
        }
        r->spawner = spawner_new(&events, r, err);
        if (!r->spawner)
                return err->code;
        pid_t pid = spawn_pid(r->spawner);
        (void)setpgid(pid, pid);
        (void)fd_raise_limit(); /* with a low limit on open files a start may fail */
        return 0;
}

int runner_start(struct runner *r, const struct command_spec *command, const int stdio[static 3],
                 struct err *err)
{
        int result = spawn_start(r->spawner, RUNNER_NUMBER, command, stdio);
        if (result < 0) {
                err->step = "start";
                err->os_errno = -result;
                return err_set(err, 0, result, "the command cannot be started: %s", errno_text(result));
        }
        return 0;
}

bool runner_wait(struct runner *r, int timeout_ms)
{
        uint64_t end_ms = clock_mono_ms() + (uint64_t)timeout_ms;
        for (uint64_t now_ms; !r->is_over && (now_ms = clock_mono_ms()) < end_ms;) {
                struct pollfd fd = { .fd = spawn_fd(r->spawner), .events = POLLIN };
                if (spawn_wants_write(r->spawner))
                        fd.events |= POLLOUT;
                int wait_ms = spawn_wait_ms(r->spawner);
                if (wait_ms < 0 || (uint64_t)wait_ms > end_ms - now_ms)
                        wait_ms = (int)(end_ms - now_ms);
                if (poll(&fd, 1, wait_ms) > 0 || spawn_wait_ms(r->spawner) == 0)
                        spawn_on_ready(r->spawner);
        }
        return r->is_over;
}

void runner_close(struct runner *r)
{
        if (!r->spawner)
                return;
        pid_t pid = spawn_pid(r->spawner);
        r->spawner = spawner_free(r->spawner);
        _close_ int pidfd = sys_pidfd_open(pid);
        if (pidfd < 0) {
                pidfd = -1;
                return;
        }
        uint64_t end_ms = clock_mono_ms() + CLOSE_MS, now_ms;
        struct pollfd fd = { .fd = pidfd, .events = POLLIN };
        while ((now_ms = clock_mono_ms()) < end_ms && poll(&fd, 1, (int)(end_ms - now_ms)) < 0)
                if (errno != EINTR)
                        break;
        (void)waitpid(pid, NULL, WNOHANG);
}

const char **runner_candidates(struct arena *a, const char *program, const char *path)
{
        struct slice rest = slice_from_str(path);
        size_t max = 2;
        for (size_t i = 0; i < rest.n; i++)
                max += rest.p[i] == ':';
        const char **list = arena_alloc(a, max * sizeof(*list));
        size_t n = 0;
        if (strchr(program, '/') || program[0] == 0) {
                list[n++] = program;
                rest.p = NULL;
        }
        while (rest.p) {
                struct slice dir = slice_split(&rest, ':');
                list[n++] = dir.n ? arena_printf(a, "%.*s/%s", SLICE(dir), program)
                                  : arena_printf(a, "./%s", program); /* an empty entry of PATH is the cwd */
        }
        list[n] = NULL;
        return list;
}
