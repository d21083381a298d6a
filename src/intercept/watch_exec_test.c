/* Tests of a watched execve, and of the comparison behind it. */
#include "intercept/watch_exec.h"

#include "base/clock.h"
#include "base/sys.h"
#include "unit.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_same(struct slice path, struct slice argv, size_t argc, const struct watch_found *found)
{
        struct watch_exec w = { .path = { .p = (char *)(uintptr_t)path.p, .n = path.n },
                                .argv_text = { .p = (char *)(uintptr_t)argv.p, .n = argv.n },
                                .argc = argc };
        return watch_is_same(&w, found);
}

#define FOUND(is_file, path_text, argv) \
        (&(struct watch_found){ .path = S(path_text), .argv_text = S(argv), .is_same_file = (is_file) })

TEST(a_program_must_be_the_decided_one_with_the_decided_arguments)
{
        struct slice path = S("/bin/x\0"), argv = S("x\0a\0");
        ok(is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0a\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/y", "x\0a\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0b\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0a\0b\0")));
        ok(!is_same(path, argv, 2, FOUND(true, "/bin/x", "x\0")));
        ok(!is_same(path, argv, 2, FOUND(false, "/bin/x", "x\0a\0")));
        ok(is_same(path, S(""), 0, FOUND(true, "/bin/x", "\0")));
        ok(!is_same(path, S(""), 0, FOUND(true, "/bin/x", "a\0")));
}

TEST(a_script_gets_its_path_once_and_the_decided_arguments_behind_it)
{
        struct slice path = S("/s\0"), argv = S("name\0a\0b\0");
        ok(is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0a\0b\0")));
        ok(is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0-e\0/s\0a\0b\0")));
        ok(is_same(path, S("n\0"), 1, FOUND(false, "/s", "/bin/sh\0/s\0")));
        ok(is_same(path, S(""), 0, FOUND(false, "/s", "/bin/sh\0/s\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0a\0c\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/s\0/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/bin/sh\0/t\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/t", "/bin/sh\0/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "/s\0a\0b\0")));
        ok(!is_same(path, argv, 3, FOUND(false, "/s", "")));
}

/* ---- a thread that executes between two looks ---- */

#define WATCH_MS 20000 /* nothing here takes so long, however busy the machine is */

static int go[2], told[2]; /* pipes: the thread may execute; its number */
static pid_t watched;      /* the process of the thread */
static int listener;       /* of the watcher's filter */

static void *execute_when_told(UNUSED void *unused)
{
        char *argv[] = { (char[]){ "true" }, NULL };
        pid_t self = (pid_t)sys_call0(SYS_gettid);
        char byte;
        if (write(told[1], &self, sizeof(self)) != sizeof(self) || read(go[0], &byte, 1) != 1)
                _exit(80);
        execve("/bin/true", argv, environ);
        _exit(81);
}

static NORETURN void be_watched(void)
{
        pthread_t thread;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (pthread_create(&thread, NULL, execute_when_told, NULL))
                _exit(82);
        for (;;)
                pause();
}

/* Lets the thread execute, and waits until it has: until its process stops for its tracer. */
static void let_execute(void)
{
        uint64_t end = clock_mono_ms() + WATCH_MS;
        char path[64], text[512], state = '?', *name_end;
        (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)watched);
        if (write(go[1], "", 1) != 1)
                _exit(83);
        while (state != 't' && clock_mono_ms() < end) {
                FILE *f = fopen(path, "re");
                size_t n = f ? fread(text, 1, sizeof(text) - 1, f) : 0;
                text[n] = '\0';
                name_end = strrchr(text, ')');
                state = name_end ? name_end[2] : '?';
                if (f)
                        (void)fclose(f);
                (void)poll(NULL, 0, 1);
        }
        if (state != 't')
                _exit(84);
}

/* Lets the thread execute whenever the watcher is about to look at its process. */
static void *come_between(UNUSED void *unused)
{
        for (;;) {
                struct seccomp_notif n = { 0 };
                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
                        _exit(85);
                let_execute();
                struct seccomp_notif_resp go_on = { .id = n.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
                if (ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &go_on) < 0)
                        _exit(86);
        }
}

/* Makes each waitid of this thread that asks for `watched` wait for come_between(). */
static int hold_looks(void)
{
        struct sock_filter code[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_waitid, 0, 3),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)watched, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = { .len = ARRAY_LEN(code), .filter = code };
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        return (int)sys_call3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER,
                              &program);
}

/* Watches the thread, and returns what came of it. */
static int watch(void)
{
        struct watch_exec w = { .is_gone = true }; /* nothing is compared */
        pthread_t between;
        if (pipe(go) < 0 || pipe(told) < 0 || (watched = fork()) < 0)
                return 70;
        if (watched == 0)
                be_watched();
        w.process = watched;
        if (read(told[0], &w.thread, sizeof(w.thread)) != sizeof(w.thread) ||
            ptrace(PTRACE_SEIZE, w.thread, 0, PTRACE_O_TRACEEXEC | PTRACE_O_EXITKILL) < 0)
                return 71;
        listener = hold_looks();
        if (listener < 0 || pthread_create(&between, NULL, come_between, NULL))
                return 72;
        enum watch_result result = watch_exec_step(&w); /* the thread has not executed when this begins */
        let_execute();
        for (uint64_t end = clock_mono_ms() + WATCH_MS; result == WATCH_WAITS && clock_mono_ms() < end;)
                result = watch_exec_step(&w);
        int status;
        if (result == WATCH_SAME && (waitpid(watched, &status, 0) != watched || status != 0))
                return 73;
        return (int)result;
}

TEST(a_thread_that_executes_between_the_looks_at_it_and_at_its_process_is_not_missed)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        int status;
        pid_t watcher = fork();
        if (watcher == 0)
                _exit(watch());
        eq_int(waitpid(watcher, &status, 0), watcher);
        ok(WIFEXITED(status));
        eq_int(WEXITSTATUS(status), WATCH_SAME);
}
