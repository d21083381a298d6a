/* sandbox_run: see sandbox_run.h.
 *
 * One loop: what the spawner says, signals, bytes of the terminal, the watch on repositories. The command has exited before
 * we end; what it left running ends with it; and we go when nobody is left, so that nothing of the sandbox is to be seen
 * by whoever comes next.
 */
#include "cmd/sandbox_run.h"

#include "base/fd.h"
#include "cmd/box.h"
#include "cmd/relay.h"
#include "sandbox/prepare.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define EXIT_SIGNAL 128
#define DEFAULT_PATH "/usr/local/bin:/bin:/usr/bin"

/* ---- words ---- */

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
        struct box_kept box;
        struct relay relay;
        int signals; /* signalfd */
        bool is_ending;
        bool is_planted; /* git_access.h */
        bool is_broken;  /* the sandbox, from outside */
};

/* What we were told to ignore (nohup) the command is spared too. */
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
        /* SIGTTIN and SIGTTOU are only kept away: the relay looks before it touches the terminal. */
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

/* The command's group has no shell above it that could continue it, so SIGTSTP would not stop it. */
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
                default:
                        pass_on(run, (int)info.ssi_signo);
                        break;
                }
        }
}

/* Whoever the command left behind ends with it. */
static void end_all(struct run *run)
{
        if (run->is_ending)
                return;
        run->is_ending = true;
        spawn_kill(run->runner->spawner, RUNNER_NUMBER);
}

static void check_box(struct run *run)
{
        const struct runner *r = run->runner;
        if (r->has_started && !run->box.has_started)
                box_on_started(&run->box);
        if (!run->box.is_broken || r->has_exited || r->is_over)
                return;
        run->is_broken = true;
        end_all(run);
}

static void turn(struct run *run)
{
        enum { FD_SPAWNER, FD_SIGNALS, FD_GIT, FD_BOX, FD_RELAY, FDS = FD_RELAY + RELAY_FDS };
        struct spawner *spawner = run->runner->spawner;
        struct pollfd fds[FDS] = {
                [FD_SPAWNER] = { .fd = spawn_fd(spawner), .events = POLLIN },
                [FD_SIGNALS] = { .fd = run->signals, .events = POLLIN },
                [FD_GIT] = { .fd = run->git->watch, .events = POLLIN },
                [FD_BOX] = { .fd = box_fd(&run->box), .events = POLLIN },
        };
        if (spawn_wants_write(spawner))
                fds[FD_SPAWNER].events |= POLLOUT;
        int timeout_ms = relay_prepare(&run->relay, &fds[FD_RELAY]);
        if (poll(fds, FDS, timeout_ms) < 0)
                return; /* only EINTR, and then nothing was filled in */
        if (fds[FD_SIGNALS].revents)
                take_signals(run);
        relay_carry(&run->relay, &fds[FD_RELAY]);
        if (fds[FD_GIT].revents && git_access_is_broken(run->git)) {
                run->is_planted = true;
                end_all(run);
        }
        if (fds[FD_BOX].revents)
                box_look(&run->box);
        if (fds[FD_SPAWNER].revents)
                spawn_on_ready(spawner);
        check_box(run);
        if (run->runner->has_exited)
                end_all(run);
}

/* Whoever reads our output or writes our input shall see the command close its end. */
static void let_go(const struct relay *relay)
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
        if (run->box.image_fd >= 0 && prepare_is_step(r->step)) {
                prepare_explain(run->box.image_fd, r->step, r->os_errno, r->op, &err);
                return sandbox_complain(&err);
        }
        err.step = r->step;
        err.os_errno = r->os_errno;
        (void)err_set(&err, 0, -r->os_errno, "%s cannot be started: %s", program, errno_text(r->os_errno));
        return sandbox_complain(&err);
}

/* The file that was not to be is gone, or its name is told. */
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

static int exit_code(struct run *run, const char *program)
{
        const struct runner *r = run->runner;
        /* First: who is ended before his start was told of counts as failed, but has run. */
        if (run->is_planted || git_access_is_broken(run->git))
                return report_planted(run);
        if (run->is_broken)
                return report("somebody moved or removed what the sandbox protects, so the command was ended",
                              "start it again, and leave the protected paths where they are meanwhile");
        if (r->has_failed)
                return report_failure(run, program);
        if (!r->has_exited)
                return report("a helper process was killed; what had begun is ended", "start it again");
        return WIFEXITED(r->status) ? WEXITSTATUS(r->status) : EXIT_SIGNAL + WTERMSIG(r->status);
}

/* ---- the command ---- */

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
        const struct spawn_request request = {
                .argv = (const char *const *)what->argv,
                .env = (const char *const *)environ,
                .candidates = runner_candidates(what->arena, what->argv[0], path ? path : DEFAULT_PATH),
                .cwd = what->place->cwd.p,
                .stdin_fd = run->relay.stdio[0],
                .stdout_fd = run->relay.stdio[1],
                .stderr_fd = run->relay.stdio[2],
                .is_tty = run->relay.is_tty,
                .wants_cgroup = true,
                .has_image = run->box.image_fd >= 0,
                .image_fd = run->box.image_fd,
        };
        return runner_start(run->runner, &request, err);
}

static int run_it(struct run *run, const struct sandbox_run *what)
{
        struct err err = ERR_INIT;
        if (box_keep(&run->box, what->arena, what->profile, what->place, what->backend, &err) < 0 ||
            start(run, what, &err) < 0)
                return sandbox_complain(&err);
        while (!run->runner->has_started && !run->runner->is_over)
                turn(run);
        let_go(&run->relay);
        while (!run->runner->is_over)
                turn(run);
        relay_drain(&run->relay);
        relay_close(&run->relay);
        return exit_code(run, what->argv[0]);
}

int sandbox_run(struct runner *runner, const struct sandbox_run *what)
{
        static struct run run; /* with the buffers of the relay */
        run = (struct run){ .runner = runner, .git = what->git, .signals = -1 };
        relay_init(&run.relay);
        int code = run_it(&run, what);
        relay_close(&run.relay);
        box_release(&run.box);
        fd_close(run.signals);
        return code;
}
