/* Tests of the broker with callers whose memory changes while it decides, and with callers that it cannot read or end. */
#include "intercept/broker_rig.h"

#include <sched.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/stat.h>

#define ROUNDS 300 /* INTERCEPT_RACE_ROUNDS asks for another number */
#define RACE_MS 120000

/* The path and the arguments that threads write over while execve reads them. A child of vfork executes, so that the writers live on. */
static char race_path[64] = "/usr/bin/touch";
static char race_word[8] = "ok";
static char race_ok[] = "ok", race_evil[] = "evil";
static char *race_argv[] = { (char[]){ "touch" }, race_word, NULL };
static char race_dir[64];

static void *race_write(UNUSED void *unused)
{
        for (unsigned i = 0;; i++) {
                memcpy(race_path, i & 1 ? "/bin/true\0\0\0\0\0" : "/usr/bin/touch", 15);
                memcpy(race_word, i & 2 ? "evil" : "ok\0\0", 5);
                __atomic_store_n(&race_argv[1],
                                 i & 4   ? race_word
                                 : i & 8 ? race_ok
                                         : race_evil,
                                 __ATOMIC_SEQ_CST);
                if (i % 61 == 0)
                        sched_yield();
        }
        return NULL;
}

static void race_body(void)
{
        const char *wanted = getenv("INTERCEPT_RACE_ROUNDS");
        long rounds = wanted ? strtol(wanted, NULL, 10) : ROUNDS;
        uint64_t end = clock_mono_ms() + RACE_MS * (uint64_t)(wanted ? 10 : 1);
        pthread_t writers[2];
        char done[64];
        if (chdir(race_dir) < 0)
                _exit(90);
        for (int i = 0; i < 2; i++)
                if (pthread_create(&writers[i], NULL, race_write, NULL))
                        _exit(91);
        long i = 0;
        for (; i < rounds && clock_mono_ms() < end; i++) {
                pid_t pid = vfork();
                if (pid == 0) {
                        execve(race_path, race_argv, environ);
                        _exit(1);
                }
                if (pid < 0 || waitpid(pid, NULL, 0) != pid)
                        _exit(92);
        }
        int n = snprintf(done, sizeof(done), "%ld rounds\n", i);
        if (write(1, done, (size_t)n) != n)
                _exit(93);
}

static void race(const char *rules, bool asks)
{
        struct intercept_message m;
        char path[128];
        struct rig *g = rig_new(rules);
        g->body = race_body;
        g->err = open("/dev/null", O_WRONLY | O_CLOEXEC); /* takes the messages about denials */
        (void)snprintf(race_dir, sizeof(race_dir), "/tmp/farhand-race-XXXXXX");
        ok(mkdtemp(race_dir) != NULL);
        rig_start_argv(g, NULL);
        while (asks && rig_try_next(g, &m)) {
                if (m.kind != INTERCEPT_MSG_ASK)
                        continue;
                bool is_good = slice_eq(m.question.argv, S("touch\0ok\0"));
                rig_answer(g, m.question.id, is_good ? INTERCEPT_ESCALATE : INTERCEPT_DENY, NULL, false);
        }
        rig_end(g);
        print_message("%s: %llu run, %llu escalated, %llu denied; %s", race_dir,
                      (unsigned long long)g->keeper->run, (unsigned long long)g->keeper->escalated,
                      (unsigned long long)g->keeper->denied, g->text);
        ok(strstr(g->text, " rounds\n") != NULL);
        close(g->err);

        (void)snprintf(path, sizeof(path), "%s/evil", race_dir);
        int has_evil = access(path, F_OK);
        (void)unlink(path);
        (void)snprintf(path, sizeof(path), "%s/ok", race_dir);
        (void)unlink(path);
        eq_int(has_evil, -1);
        eq_int(rmdir(race_dir), 0);
        rig_free(g);
}

#define EVIL_IS(decision) "prefix_rule(pattern=[\"touch\", \"evil\"], decision=\"" decision "\")\n"
#define OK_IS(decision) "prefix_rule(pattern=[\"touch\", \"ok\"], decision=\"" decision "\")\n"

TEST(what_changes_while_a_start_is_decided_does_not_run_instead_inside)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        race(EVIL_IS("forbidden"), false);
}

TEST(what_changes_while_a_start_is_decided_does_not_run_instead_outside)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        race(EVIL_IS("forbidden") OK_IS("allow"), false);
}

TEST(what_changes_while_a_question_is_open_does_not_run_instead)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        race(EVIL_IS("prompt") OK_IS("prompt"), true);
}

/* ---- callers that cannot be read or ended ---- */

static void say(const char *what, int number)
{
        char text[64];
        int n = snprintf(text, sizeof(text), "%s %d\n", what, number);
        if (write(1, text, (size_t)n) != n)
                _exit(94);
}

static void traced_body(void)
{
        char *rmdir_argv[] = { (char[]){ "rmdir" }, NULL };
        char *grep_argv[] = { (char[]){ "grep" }, NULL };
        pid_t pid = fork();
        if (pid == 0) {
                if (ptrace(PTRACE_TRACEME, 0, 0, 0) < 0)
                        _exit(95);
                execve("/bin/rmdir", rmdir_argv, environ);
                say("denied", errno);
                execve("/bin/grep", grep_argv, environ);
                say("escalated", errno);
                _exit(0);
        }
        (void)waitpid(pid, NULL, 0);
}

TEST(a_caller_that_is_traced_already_gets_eacces)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(DENY_RMDIR ALLOW_GREP);
        g->body = traced_body;
        rig_start_argv(g, NULL);
        rig_end(g);
        eq_str(g->text, "Execution denied: Execution forbidden by policy\ndenied 13\nescalated 13\n");
        eq_int(g->keeper->escalated, 0);
        rig_free(g);
}

static void not_dumpable_body(void)
{
        char *argv[] = { (char[]){ "echo" }, (char[]){ "hi" }, NULL };
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                _exit(95);
        execve("/bin/echo", argv, environ);
        say("denied", errno);
}

/* A broker with privileges can read every process. */
TEST(a_caller_that_an_unprivileged_broker_cannot_read_gets_eacces)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        pid_t pid = fork();
        if (pid == 0) {
                if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
                        _exit(2);
                if (prctl(PR_SET_DUMPABLE, 1) < 0)
                        _exit(3);
                struct rig *g = rig_new("");
                g->body = not_dumpable_body;
                rig_start_argv(g, NULL);
                rig_end(g);
                _exit(strcmp(g->text, "denied 13\n") == 0 && g->keeper->denied == 1 ? 0 : 4);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

static void bad_pointers_body(void)
{
        char *argv[] = { (char[]){ "echo" }, NULL };
        char *bad[] = { (char[]){ "echo" }, (char *)16, NULL };
        say("path", (int)sys_call3(SYS_execve, 16, argv, environ));
        say("argument", (int)sys_call3(SYS_execve, "/bin/echo", bad, environ));
        say("arguments", (int)sys_call3(SYS_execve, "/bin/echo", 16, environ));
        say("empty", (int)sys_call3(SYS_execve, "", argv, environ));
        say("none", (int)sys_call3(SYS_execve, "/bin/echo", NULL, NULL));
}

TEST(pointers_that_lead_nowhere_fail_as_ever)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(DENY_RMDIR);
        g->body = bad_pointers_body;
        rig_start_argv(g, NULL);
        rig_end(g);
        eq_str(g->text, "path -14\nargument -14\narguments -14\nempty -2\n\n");
        rig_free(g);
}
