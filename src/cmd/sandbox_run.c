/* sandbox_run: runs one command in a sandbox with a single poll loop: reports of the spawner, signals, bytes of the
 * terminal, and the watch on repositories.
 *
 * When the command has exited, what it left running is ended. We end only when all processes of the sandbox are gone, so
 * that nothing of the command runs any more when the next program starts.
 */
#include "cmd/sandbox_run.h"

#include "base/fd.h"
#include "cmd/confined.h"
#include "cmd/refused.h"
#include "cmd/relay.h"
#include "cmd/stderr_tap.h"
#include "confine/prepare.h"
#include "sandbox/remedy.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"

/* ---- printing messages ---- */

void sandbox_print(FILE *to, struct slice text)
{
        for (size_t i = 0; i < text.n; i++) {
                unsigned char c = (unsigned char)text.p[i];
                fputc(c == '\n' || (c >= ' ' && c != 0x7f) ? c : '?', to);
        }
}

int sandbox_complain(const struct err *err)
{
        fputs("farhand sandbox: ", stderr);
        sandbox_print(stderr, slice_from_str(err->text));
        fputc('\n', stderr);
        if (err->step && err->os_errno)
                fprintf(stderr, "step: %s, errno: %s\n", err->step, errno_name(err->os_errno));
        else if (err->step)
                fprintf(stderr, "step: %s\n", err->step);
        if (err->remedy)
                fprintf(stderr, "remedy: %s\n", err->remedy);
        return SANDBOX_EXIT_OURS;
}

/* ---- the loop ---- */

struct run {
        struct runner *runner;
        struct git_access *git;
        struct confined confined;
        struct relay relay;
        struct stderr_tap tap;
        struct tail terminal, err; /* the newest output on the terminal and on stderr */
        int signals;               /* signalfd */
        bool is_err_terminal;
        bool is_told_to_end; /* a signal has told us to end */
        bool is_ending;
        bool is_planted; /* a `commondir` appeared (git_access.h) */
        bool is_broken;  /* the sandbox was broken from outside */
};

/* Catches signals with a signalfd. Signals that were ignored when we were started (nohup) are not passed on to the command
 * either. */
static int catch_signals(void)
{
        static const int list[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGWINCH };
        sigset_t set;
        sigemptyset(&set);
        for (size_t i = 0; i < ARRAY_LEN(list); i++) {
                struct sigaction now;
                if (sigaction(list[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
                        sigaddset(&set, list[i]);
        }
        /* SIGTTIN and SIGTTOU are only blocked: the relay checks before it touches the terminal. */
        sigset_t blocked = set;
        sigaddset(&blocked, SIGTTIN);
        sigaddset(&blocked, SIGTTOU);
        sigaddset(&blocked, SIGPIPE);
        if (sigprocmask(SIG_BLOCK, &blocked, NULL) < 0)
                return -errno;
        int fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        return fd < 0 ? -errno : fd;
}

static void pass_on(struct run *run, int signo)
{
        spawn_signal(run->runner->spawner, RUNNER_NUMBER, signo, SPAWN_GROUP);
}

/* Stops the command and then us. The process group of the command is orphaned, and the kernel ignores SIGTSTP for such a group,
 * so SIGSTOP is sent instead. */
static void stop(struct run *run)
{
        pass_on(run, SIGSTOP);
        spawn_on_ready(run->runner->spawner);
        relay_restore(&run->relay);
        (void)kill(getpid(), SIGSTOP);
}

static void take_signals(struct run *run)
{
        struct signalfd_siginfo info;
        while (read(run->signals, &info, sizeof(info)) == sizeof(info)) {
                switch ((int)info.ssi_signo) {
                case SIGWINCH:
                        relay_resize(&run->relay);
                        break;
                case SIGTSTP:
                        stop(run);
                        break;
                case SIGCONT:
                        pass_on(run, SIGCONT);
                        break;
                default:
                        run->is_told_to_end = true;
                        pass_on(run, (int)info.ssi_signo);
                        break;
                }
        }
}

/* Ends the command, if it still runs, and every process that it has left running. */
static void end_all(struct run *run)
{
        if (run->is_ending)
                return;
        run->is_ending = true;
        spawn_kill(run->runner->spawner, RUNNER_NUMBER);
}

static void check_sandbox(struct run *run)
{
        const struct runner *r = run->runner;
        if (r->has_started && !run->confined.sandbox.has_started)
                confined_started(&run->confined);
        if (!run->confined.is_broken || r->has_exited || r->is_over)
                return;
        run->is_broken = true;
        end_all(run);
}

static void poll_once(struct run *run)
{
        enum { FD_SPAWNER, FD_SIGNALS, FD_GIT, FD_GUARD, FD_TAP, FD_RELAY = FD_TAP + STDERR_TAP_FDS };
        enum { FDS = FD_RELAY + RELAY_FDS };
        struct spawner *spawner = run->runner->spawner;
        struct pollfd fds[FDS] = {
                [FD_SPAWNER] = { .fd = spawn_fd(spawner), .events = POLLIN },
                [FD_SIGNALS] = { .fd = run->signals, .events = POLLIN },
                [FD_GIT] = { .fd = run->git->watch, .events = POLLIN },
                [FD_GUARD] = { .fd = confined_fd(&run->confined), .events = POLLIN },
        };
        if (spawn_wants_write(spawner))
                fds[FD_SPAWNER].events |= POLLOUT;
        stderr_tap_prepare(&run->tap, &fds[FD_TAP]);
        int timeout_ms = relay_prepare(&run->relay, &fds[FD_RELAY]);
        int spawner_ms = spawn_wait_ms(spawner);
        if (spawner_ms >= 0 && (timeout_ms < 0 || spawner_ms < timeout_ms))
                timeout_ms = spawner_ms;
        if (poll(fds, FDS, timeout_ms) < 0)
                return; /* EINTR: poll has filled nothing in */
        if (fds[FD_SIGNALS].revents)
                take_signals(run);
        relay_carry(&run->relay, &fds[FD_RELAY]);
        stderr_tap_carry(&run->tap, &fds[FD_TAP]);
        if (fds[FD_GIT].revents && git_access_is_broken(run->git)) {
                run->is_planted = true;
                end_all(run);
        }
        if (fds[FD_GUARD].revents)
                confined_look(&run->confined);
        if (fds[FD_SPAWNER].revents || spawn_wait_ms(spawner) == 0)
                spawn_on_ready(spawner);
        check_sandbox(run);
        if (run->runner->has_exited)
                end_all(run);
}

/* Replaces our copies of stdin and stdout by /dev/null, so that the processes at their other ends notice when the command closes
 * its copies. */
static void replace_our_stdio(const struct relay *relay)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        for (int i = 0; null >= 0 && i <= STDOUT_FILENO; i++)
                if (relay->stdio[i] == i)
                        (void)dup2(null, i);
        fd_close(null);
}

static int report_failure(const struct run *run, const char *program)
{
        const struct runner *r = run->runner;
        struct err err = ERR_INIT;
        if (strcmp(r->step, "exec") == 0) {
                (void)err_set(&err, 0, -r->os_errno, "%s: %s", program, errno_text(r->os_errno));
                (void)sandbox_complain(&err);
                return r->os_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
        }
        if (run->confined.sandbox.image_fd >= 0 && prepare_is_step(r->step)) {
                prepare_explain(run->confined.sandbox.image_fd, r->step, r->os_errno, r->op, &err);
                return sandbox_complain(&err);
        }
        err.step = r->step;
        err.os_errno = r->os_errno;
        if (r->os_errno == ETOOMANYREFS)
                err.remedy = remedy_for(r->step, r->os_errno);
        (void)err_set(&err, 0, -r->os_errno, "%s cannot be started: %s", program, errno_text(r->os_errno));
        return sandbox_complain(&err);
}

/* Removes a `commondir`, or prints where it is when it cannot be removed. */
static int report_planted(struct run *run)
{
        struct err err = ERR_INIT;
        const char *left = git_access_repair(run->git);
        err.step = "git";
        err.remedy = left ? "remove it before git is used again" : NULL;
        (void)err_set(&err, 0, -EPERM,
                      "the command made a file `commondir` in a repository, by which git would run what is "
                      "elsewhere; it was ended%s%s",
                      left ? ", but this could not be removed: " : ", and the file removed",
                      left ? left : "");
        return sandbox_complain(&err);
}

static int report(const char *text, const char *remedy)
{
        struct err err = ERR_INIT;
        err.remedy = remedy;
        (void)err_set(&err, 0, -ECHILD, "%s", text);
        return sandbox_complain(&err);
}

/* After the command failed: prints what its output says was refused, as far as the plan refuses it. */
static void tell_refused(struct run *run, const struct sandbox_run *what)
{
        int status = run->runner->status;
        bool is_by_filter = WIFSIGNALED(status) ? WTERMSIG(status) == SIGSYS
                                                : WEXITSTATUS(status) == EXIT_SIGNAL + SIGSYS;
        bool has_failed = WIFEXITED(status) ? WEXITSTATUS(status) != 0 : is_by_filter;
        if (what->is_quiet || run->confined.sandbox.image_fd < 0 || !has_failed)
                return;
        const struct refused refused = {
                .plan = &run->confined.plan,
                .is_landlock = run->confined.sandbox.image->backend == BACKEND_LANDLOCK,
                .place = what->place,
                .has_profile = what->has_profile,
                .is_workspace_write = what->is_workspace_write,
                .has_git = what->has_git,
                .is_by_filter = is_by_filter,
                .terminal = tail_text(&run->terminal),
                .err = tail_text(&run->err),
        };
        _buf_ struct buf text = BUF_INIT(PIPE_BUF);
        refused_write(&refused, tail_is_open(run->is_err_terminal ? &run->terminal : &run->err), &text);
        if (text.n > 0)
                stderr_tap_say(&run->tap, buf_slice(&text));
}

static bool is_broken(const struct run *run)
{
        const struct runner *r = run->runner;
        bool is_killed =
                r->has_failed || (r->has_exited && WIFSIGNALED(r->status) && WTERMSIG(r->status) == SIGKILL);
        return run->is_broken || (is_killed && guarded_was_broken(&run->confined.sandbox));
}

static int exit_code(struct run *run, const struct sandbox_run *what)
{
        const struct runner *r = run->runner;
        /* This comes first: a command that is ended before its start was reported counts as failed, although it ran. */
        if (run->is_planted || git_access_is_broken(run->git))
                return report_planted(run);
        if (is_broken(run))
                return report("somebody moved or removed what the sandbox protects, so the command was ended",
                              "start it again, and leave the protected paths where they are meanwhile");
        if (r->has_failed)
                return report_failure(run, what->argv[0]);
        if (!r->has_exited)
                return report("a helper process was killed; what had begun is ended", "start it again");
        tell_refused(run, what);
        return WIFEXITED(r->status) ? WEXITSTATUS(r->status) : EXIT_SIGNAL + WTERMSIG(r->status);
}

/* ---- starting the command ---- */

static int start(struct run *run, const struct sandbox_run *what, struct err *err)
{
        const char *path = getenv("PATH");
        int r = run->signals = catch_signals();
        if (r >= 0)
                r = relay_open(&run->relay, err);
        else
                (void)err_set(err, 0, r, "%s", errno_text(r));
        if (r < 0)
                return r;
        run->is_err_terminal = run->relay.stdio[2] != STDERR_FILENO;
        if (!what->is_quiet && run->confined.sandbox.image_fd >= 0)
                stderr_tap_open(&run->tap, &run->err, run->relay.stdio);
        const struct command_spec command = {
                .argv = (const char *const *)what->argv,
                .env = (const char *const *)environ,
                .candidates = runner_candidates(what->arena, what->argv[0], path ? path : DEFAULT_PATH),
                .cwd = what->cwd ? what->cwd : what->place->cwd.p,
                .is_tty = run->relay.is_tty,
                .wants_cgroup = true,
                .has_image = run->confined.sandbox.image_fd >= 0,
                .image_fd = run->confined.sandbox.image_fd,
                .bwrap = preparer_bwrap(&run->confined.confine.preparer, run->confined.sandbox.image),
        };
        r = runner_start(run->runner, &command, run->relay.stdio, err);
        stderr_tap_close_write_end(&run->tap);
        return r;
}

static int run_to_end(struct run *run, const struct sandbox_run *what)
{
        struct err err = ERR_INIT;
        if (confined_make(&run->confined, what->arena, what->profile, what->place, what->backend, &err) < 0 ||
            start(run, what, &err) < 0)
                return sandbox_complain(&err);
        while (!run->runner->has_started && !run->runner->is_over)
                poll_once(run);
        replace_our_stdio(&run->relay);
        while (!run->runner->is_over)
                poll_once(run);
        relay_drain(&run->relay);
        relay_close(&run->relay);
        stderr_tap_drain(&run->tap, run->signals, run->is_told_to_end);
        return exit_code(run, what);
}

int sandbox_run(struct runner *runner, const struct sandbox_run *what)
{
        static struct run run; /* static, because the buffers in it are large */
        run.runner = runner;
        run.git = what->git;
        run.signals = -1;
        run.confined = CONFINED_INIT;
        relay_init(&run.relay, what->is_quiet ? NULL : &run.terminal);
        stderr_tap_init(&run.tap);
        int code = run_to_end(&run, what);
        relay_close(&run.relay);
        stderr_tap_close(&run.tap);
        confined_release(&run.confined);
        fd_close(run.signals);
        return code;
}
