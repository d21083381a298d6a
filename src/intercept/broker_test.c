/* Tests of the broker with stock shells and programs: what runs where, and what a caller notices of it. */
#include "intercept/broker_rig.h"

#include <stdio.h>

struct scenario {
        const char *name, *rules, *script, *output;
};

#define DENIED "Execution denied: Execution forbidden by policy\n"
#define GREP_AND_RMDIR ALLOW_GREP DENY_RMDIR
#define ALLOW(name) "prefix_rule(pattern=[\"" name "\"], decision=\"allow\")\n"

static const struct scenario scenarios[] = {
        { "run", "", "/bin/echo hi; /bin/true; echo $?", "hi\n0\n" },
        { "inside", "", WHERE, INSIDE },
        { "escalate", ALLOW_GREP, WHERE "; echo $?", OUTSIDE "0\n" },
        { "deny", DENY_RMDIR, "rmdir /nonexistent; echo $?", DENIED "1\n" },
        { "pipeline", ALLOW_GREP, "echo a | cat | " WHERE " | cat | wc -l", "1\n" },
        { "background job", ALLOW_GREP, WHERE " & wait $!; echo $?", OUTSIDE "0\n" },
        { "exec builtin", ALLOW_GREP, "exec " WHERE, OUTSIDE },
        { "exec builtin denied", DENY_RMDIR, "exec rmdir x", DENIED },
        { "cwd", ALLOW("pwd"), "cd /usr; env pwd; (cd bin/..; /bin/pwd)", "/usr\n/usr\n" },
        { "stdin", ALLOW("cat"), "echo hello | cat; cat <<E\nhere\nE", "hello\nhere\n" },
        { "process substitution", ALLOW("cat"), "cat <(echo x)", "x\n" },
        { "descriptor 3", ALLOW("tee"),
          "d=$(mktemp -d); cd $d; exec 3>f; echo q | tee /dev/fd/3 >/dev/null; cat f; rm -r $d", "q\n" },
        { "high descriptor", ALLOW("cat"), "exec 77<<<deep; cat <&77; cat /dev/fd/77 77<<<again",
          "deep\nagain\n" },
        { "swapped descriptors", ALLOW("sh"),
          "exec 5<<<five 6<<<six 7<&5 5<&6 6<&7; sh -c 'read a <&5; read b <&6; echo $a $b'", "six five\n" },
        { "environment", ALLOW("printenv"), "FOO=bar printenv FOO; env -i A=1 printenv", "bar\nA=1\n" },
        { "argv[0]", ALLOW("sh"), "exec -a zero sh -c 'echo $0'", "zero\n" },
        { "exit code", ALLOW("sh"), "sh -c 'exit 7'; echo $?", "7\n" },
        { "death by SIGKILL", ALLOW("sh"), "exec 2>/dev/null; sh -c 'kill -9 $$'; echo $?", "137\n" },
        { "death by SIGTERM", ALLOW("sh"), "exec 2>/dev/null; (sh -c 'kill $$'); echo $?", "143\n" },
        { "death by SIGSEGV", ALLOW("sh"), "exec 2>/dev/null; (sh -c 'kill -SEGV $$'); echo $?", "139\n" },
        { "ignored signal", ALLOW("sh"), "trap '' TERM; sh -c 'kill $$; echo lives'", "lives\n" },
        { "script", GREP_AND_RMDIR,
          "f=$(mktemp); printf '#!/bin/sh\\n" WHERE "\\nrmdir zz\\necho $?\\n' >$f; chmod +x $f; $f; rm $f",
          OUTSIDE DENIED "1\n" },
        { "script without an interpreter", ALLOW_GREP,
          "f=$(mktemp); printf '" WHERE "\\n:\\n' >$f; chmod +x $f; $f; rm $f", OUTSIDE },
        { "escalated script", ALLOW("e.sh"),
          "d=$(mktemp -d); cd $d; printf '#!/bin/sh\\necho $0 $1\\n" WHERE
          "\\n' >e.sh; chmod +x e.sh; ./e.sh 1; cd /; rm -r $d",
          "./e.sh 1\n" OUTSIDE },
        { "escalated script without an interpreter", ALLOW("e.sh"),
          "d=$(mktemp -d); cd $d; printf 'echo $1\\n" WHERE
          "\\n:\\n' >e.sh; chmod +x e.sh; ./e.sh 1; cd /; rm -r $d",
          "1\n" OUTSIDE },
        { "env -i", ALLOW_GREP, "env -i grep NoNewPrivs /proc/self/status", OUTSIDE },
        { "nice", ALLOW_GREP, "nice -n 3 " WHERE, OUTSIDE },
        { "nice value", ALLOW("awk"),
          "a=$(nice); b=$(nice -n 3 awk '{print $19}' /proc/self/stat); echo $((b - a))", "3\n" },
        { "xargs", ALLOW_GREP, "echo NoNewPrivs /proc/self/status | xargs grep", OUTSIDE },
        { "find -exec", ALLOW_GREP, "find / -maxdepth 0 -exec " WHERE " \\;", OUTSIDE },
        { "awk", ALLOW_GREP, "awk 'BEGIN{system(\"" WHERE "; :\")}'", OUTSIDE },
        { "shell in a shell", ALLOW_GREP, "sh -c '" WHERE "; :'", OUTSIDE },
        { "python subprocess", ALLOW_GREP,
          "python3 -c 'import subprocess; subprocess.run(\"" WHERE "\".split())'", OUTSIDE },
        { "python posix_spawn", ALLOW_GREP,
          "python3 -c 'import os; n=\"/bin/grep\"; p=os.posix_spawn(n,\"" WHERE
          "\".split(),os.environ); print(os.waitpid(p,0)[1], n)'",
          OUTSIDE "0 /bin/grep\n" },
        { "denied posix_spawn", DENY_RMDIR,
          "python3 -c 'import os; n=\"/bin/rmdir\"; p=os.posix_spawn(n,[n,\"x\"],os.environ); "
          "print(os.waitpid(p,0)[1], n)'",
          DENIED "256 /bin/rmdir\n" },
        { "posix_spawn and run", "",
          "python3 -c 'import os; n=\"/bin/echo\"; p=os.posix_spawn(n,[n,\"x\"],os.environ); "
          "os.waitpid(p,0)'",
          "x\n" },
        { "posix_spawn beside threads", "",
          "python3 -c 'import os,threading; e=threading.Event(); t=threading.Thread(target=e.wait); "
          "t.start(); n=\"/bin/echo\"\n"
          "for i in range(3):\n p=os.posix_spawn(n,[n,\"x\"],os.environ); "
          "print(os.waitpid(p,0)[1],flush=True)\ne.set()'",
          "x\n0\nx\n0\nx\n0\n" },
        { "thread that executes", "",
          "python3 -c 'import os,threading; threading.Thread(target=lambda: "
          "os.execv(\"/bin/echo\",[\"echo\",\"y\"])).start(); import time; "
          "time.sleep(60)'",
          "y\n" },
        { "thread that executes a script", "",
          "f=$(mktemp); printf '#!/bin/sh -e\\necho \"$@\"\\n' >$f; chmod +x $f; python3 -c 'import "
          "os,sys,threading; "
          "threading.Thread(target=lambda: os.execv(sys.argv[1],[\"echo\",\"y\",\"z\"])).start(); import "
          "time; time.sleep(60)' $f; rm $f",
          "y z\n" },
        { "thread that fails to execute", "",
          "python3 -c 'import os,threading\ndef f():\n try: os.execv(\"/nonexistent\",[\"x\"])\n except "
          "OSError as e: print(e.errno)\n"
          "t=threading.Thread(target=f); t.start(); t.join()'",
          "2\n" },
        { "thread that escalates", ALLOW_GREP,
          "python3 -c 'import os,threading; threading.Thread(target=lambda: os.execv(\"/bin/grep\",\"" WHERE
          "\".split())).start(); import time; time.sleep(60)'",
          OUTSIDE },
        { "fexecve", ALLOW_GREP,
          "python3 -c 'import os; os.execve(os.open(\"/bin/grep\",os.O_RDONLY),\"" WHERE
          "\".split(),os.environ)'",
          OUTSIDE },
        { "denied fexecve", DENY_RMDIR,
          "python3 -c 'import os; os.execve(os.open(\"/bin/rmdir\",os.O_RDONLY),[\"x\"],os.environ)'",
          DENIED },
        { "large argument", ALLOW("wc"),
          "/bin/echo $(printf %0100000d 1) | wc -c; wc -L <<<$(printf %0100000d 1)", "100001\n100000\n" },
        { "large argument of a program outside", ALLOW("echo"), "/bin/echo $(printf %0100000d 1) | wc -c",
          "100001\n" },
        { "large environment", ALLOW_GREP,
          "x=$(printf %0100000d 1); for i in {1..20}; do export X$i=$x; done; " WHERE
          "; env printenv X20 | wc -c",
          OUTSIDE "100001\n" },
        { "not UTF-8", ALLOW("printf"), "/usr/bin/printf %s $'\\xff' | od -An -tx1", " ff\n" },
        { "missing", ALLOW("nosuch"),
          "nosuch 2>/dev/null; echo $?; ./nox 2>/dev/null; echo $?; /etc/passwd 2>/dev/null; echo $?; / "
          "2>/dev/null; echo $?",
          "127\n127\n126\n126\n" },
        { "missing, though it may run outside", ALLOW("nox") ALLOW("passwd"),
          "/nonexistent/nox 2>/dev/null; echo $?; /etc/passwd 2>/dev/null; echo $?", "127\n126\n" },
        { "many at once", ALLOW_GREP, "for i in 1 2 3 4 5 6 7 8; do " WHERE " & /bin/true & done; wait",
          OUTSIDE OUTSIDE OUTSIDE OUTSIDE OUTSIDE OUTSIDE OUTSIDE OUTSIDE },
        { "closed stdin", ALLOW("readlink"),
          "readlink /proc/self/fd/0 <&-; echo $?; readlink /proc/self/fd/0 </dev/zero", "1\n/dev/zero\n" },
        { "closed stderr", GREP_AND_RMDIR, "rmdir x 2>&-; echo $?; " WHERE " 2>&-", "1\n" OUTSIDE },
        { "umask", ALLOW("touch"), "d=$(mktemp -d); cd $d; umask 077; touch f; stat -c %a f; cd /; rm -r $d",
          "600\n" },
        { "limits", ALLOW("sh"), "ulimit -n 99 -c 0 -t 1000; sh -c 'ulimit -n; ulimit -t'", "99\n1000\n" },
        { "deleted cwd", ALLOW("stat") ALLOW("grep"),
          "d=$(mktemp -d); cd $d; rmdir $d; /usr/bin/stat -c %h .; " WHERE, "0\n" OUTSIDE },
        { "no terminal, own session", ALLOW("sh"),
          "sh -c 'read a b c d e f rest </proc/$$/stat; [ $a = $e ] && [ $a = $f ] && echo leads'",
          "leads\n" },
        { "too many descriptors", ALLOW_GREP,
          "python3 -c 'import os\nfor i in range(300): "
          "os.set_inheritable(os.open(\"/dev/null\",0),True)\nos.execv(\"/bin/grep\",[\"grep\"])'",
          "Execution denied: too many open descriptors\n" },
};

TEST(programs_run_where_the_rules_say_and_behave_as_ever)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        size_t failed = 0;
        for (size_t i = 0; i < ARRAY_LEN(scenarios); i++) {
                const struct scenario *s = &scenarios[i];
                struct rig *g = rig_new(s->rules);
                rig_start(g, s->script);
                rig_end(g);
                if (strcmp(g->text, s->output) != 0) {
                        print_message("%s:\n--- wanted\n%s--- got\n%.2000s---\n", s->name, s->output,
                                      g->text);
                        failed++;
                }
                rig_free(g);
        }
        eq_int(failed, 0);
}

TEST(decisions_are_counted)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(GREP_AND_RMDIR);
        rig_start(g, WHERE "; rmdir x; /bin/true; rmdir y; /bin/true; /bin/true");
        rig_end(g);
        eq_int(g->keeper->run, 3);
        eq_int(g->keeper->escalated, 1);
        eq_int(g->keeper->denied, 2);
        rig_free(g);
}

/* Each decision is carried out when its report is in the socket, which has no room for the second one. */
TEST(reports_are_sent_before_a_decision_takes_effect)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        static const char *const ends[] = { "/bin/echo", "grep", "rmdir" };
        for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
                char script[256];
                struct rig *g = rig_new(GREP_AND_RMDIR);
                g->options.reports = true;
                (void)snprintf(script, sizeof(script),
                               "a=$(printf %%0131000d 1); %s $a $a $a $a $a $a $a >/dev/null 2>&1; echo end",
                               ends[i]);
                rig_start(g, script);
                struct pollfd out = { .fd = g->out, .events = POLLIN };
                eq_int(poll(&out, 1, 300), 0);
                struct intercept_message m = rig_next(g);
                eq_int(m.kind, INTERCEPT_MSG_TOLD);
                eq_int(m.question.argc, 8);
                eq_int(m.question.omitted_bytes, 0);
                rig_end(g);
                eq_str(g->text, "end\n");
                eq_int(g->keeper->run + g->keeper->escalated + g->keeper->denied, 1);
                rig_free(g);
        }
}

/* ---- questions ---- */

TEST(a_question_says_what_is_asked_and_each_answer_is_obeyed)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        static const struct {
                enum intercept_action action;
                const char *reason, *output;
        } answers[] = {
                { INTERCEPT_RUN, NULL, INSIDE "0\n" },
                { INTERCEPT_ESCALATE, NULL, OUTSIDE "0\n" },
                { INTERCEPT_DENY, "not today", "Execution denied: not today\n1\n" },
                { INTERCEPT_DENY, NULL, "Execution denied\n1\n" },
        };
        for (size_t i = 0; i < ARRAY_LEN(answers); i++) {
                struct rig *g = rig_new(ASK_GREP);
                rig_start(g, "cd /usr; " WHERE "; echo $?");
                struct intercept_question q = rig_asked(g);
                ok(q.id != 0);
                eq_int(q.action, INTERCEPT_ASK);
                eq_int(q.accepted, INTERCEPT_ESCALATE);
                eq_slice(q.cwd, S("/usr"));
                eq_slice(q.argv, S("grep\0NoNewPrivs\0/proc/self/status\0"));
                eq_int(q.argc, 3);
                eq_slice(q.rule_text, S("test.rules"));
                eq_int(q.rule_line, 1);
                ok(q.pid > 0);
                rig_answer(g, q.id, answers[i].action, answers[i].reason, false);
                rig_end(g);
                eq_str(g->text, answers[i].output);
                rig_free(g);
        }
}

TEST(an_answer_is_remembered_for_the_same_arguments_and_cwd_only)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(ASK_GREP);
        rig_start(g, "for i in 1 2 3; do " WHERE "; done; cd /; " WHERE "; grep root:x:0:0 /etc/passwd");
        rig_answer(g, rig_asked(g).id, INTERCEPT_ESCALATE, NULL, true);
        struct intercept_question q = rig_asked(g);
        eq_slice(q.cwd, S("/"));
        rig_answer(g, q.id, INTERCEPT_RUN, NULL, false);
        q = rig_asked(g);
        eq_int(q.argc, 3);
        rig_answer(g, q.id, INTERCEPT_DENY, NULL, false);
        rig_end(g);
        eq_str(g->text, OUTSIDE OUTSIDE OUTSIDE INSIDE "Execution denied\n");
        rig_free(g);
}

TEST(a_question_whose_caller_dies_is_withdrawn)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(ASK_GREP);
        rig_start(g, WHERE " & wait $!; echo $?");
        struct intercept_question q = rig_asked(g);
        uint32_t id = q.id;
        eq_int(kill(q.pid, SIGKILL), 0);
        struct intercept_message m = rig_next(g);
        eq_int(m.kind, INTERCEPT_MSG_WITHDRAWN);
        eq_int(m.withdrawn, id);
        /* An answer that crosses the withdrawal means nothing. */
        (void)!rig_try_answer(g, id, INTERCEPT_ESCALATE, NULL, false);
        rig_end(g);
        eq_int(g->keeper->escalated, 0);
        ok(strstr(g->text, "137\n") != NULL);
        rig_free(g);
}

TEST(at_most_256_questions_are_open)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(ASK_GREP);
        rig_start(g, "for i in {1..257}; do grep $i /proc/self/status & done; wait");
        uint32_t ids[LIMIT_INTERCEPT_QUESTIONS];
        for (size_t i = 0; i < LIMIT_INTERCEPT_QUESTIONS; i++)
                ids[i] = rig_asked(g).id;
        rig_read_line(g);
        eq_str(g->text, "Execution denied: too many open questions\n");
        for (size_t i = 0; i < LIMIT_INTERCEPT_QUESTIONS; i++)
                rig_answer(g, ids[i], INTERCEPT_DENY, NULL, false);
        rig_end(g);
        eq_int(g->keeper->denied, 257);
        rig_free(g);
}

TEST(without_a_server_open_and_later_questions_are_denied)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        static const char *const sent[] = { NULL, "\377\377\377\377garbage", "\0\0\0\1\1", "\1\0\0\0\4" };
        for (size_t i = 0; i < ARRAY_LEN(sent); i++) {
                struct rig *g = rig_new(ASK_GREP);
                rig_start(g, WHERE "; " WHERE "; /bin/echo runs");
                (void)rig_asked(g);
                if (sent[i])
                        eq_int(write(g->server, sent[i], i == 1 ? 11 : 5), i == 1 ? 11 : 5);
                else
                        g->server = fd_close(g->server);
                if (i == 2) /* half of a frame */
                        g->server = fd_close(g->server);
                rig_end(g);
                eq_str(g->text, "Execution denied: nobody can be asked\nExecution denied: nobody can be "
                                "asked\nruns\n");
                rig_free(g);
        }
}

TEST(what_is_decided_is_reported_when_the_client_wants_to_know)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(GREP_AND_RMDIR);
        g->options.reports = true;
        rig_start(g, "/bin/true a b; " WHERE "; rmdir x");
        static const enum intercept_action actions[] = { INTERCEPT_RUN, INTERCEPT_ESCALATE, INTERCEPT_DENY };
        for (size_t i = 0; i < 3; i++) {
                struct intercept_message m = rig_next(g);
                eq_int(m.kind, INTERCEPT_MSG_TOLD);
                eq_int(m.question.action, actions[i]);
                eq_int(m.question.id, 0);
        }
        rig_end(g);
        rig_free(g);
}

TEST(only_the_shell_itself_is_asked_about_with_scope_shell)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        struct rig *g = rig_new(DENY_RMDIR);
        g->options.scope = INTERCEPT_SHELL;
        rig_start(g, "rmdir /nonexistent; env rmdir /nonexistent 2>/dev/null; echo $?; bash -c 'rmdir x; :'");
        rig_end(g);
        eq_str(g->text, DENIED "1\n" DENIED);
        rig_free(g);
}

/* ---- ends of callers ---- */

/* A program of the test: runs `sh -c ARG` outside, waits for its first line, sends a signal to the caller, and prints the status of the
 * caller and everything that the pipe gave until its end. */
#define KILLER                                                                               \
        "import os,signal,sys\n"                                                             \
        "sig=getattr(signal,sys.argv[2])\n"                                                  \
        "r,w=os.pipe()\n"                                                                    \
        "p=os.fork()\n"                                                                      \
        "if p==0:\n"                                                                         \
        "  signal.signal(signal.SIGINT,getattr(signal,sys.argv[3]) if len(sys.argv)>3 else " \
        "signal.SIG_DFL)\n"                                                                  \
        "  os.dup2(w,1)\n"                                                                   \
        "  os.execv('/bin/sh',['sh','-c',sys.argv[1]])\n"                                    \
        "os.close(w)\n"                                                                      \
        "f=os.fdopen(r)\n"                                                                   \
        "f.readline()\n"                                                                     \
        "os.kill(p,sig)\n"                                                                   \
        "s=os.waitpid(p,0)[1]\n"                                                             \
        "print(s,f.read().strip())\n"

TEST(a_program_outside_ends_when_its_caller_is_killed)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        static const struct {
                const char *script, *signal, *handler, *output;
        } kills[] = {
                { "trap 'echo got TERM; exit' TERM; echo go; while :; do sleep 0.05; done", "SIGTERM", NULL,
                  "15 got TERM\n" },
                { "trap 'echo got INT; exit' INT; echo go; while :; do sleep 0.05; done", "SIGINT", NULL,
                  "2 got INT\n" },
                { "trap '' TERM; echo go; sleep 1000 & sleep 1000", "SIGKILL", NULL, "9 \n" },
                { "trap '' TERM; echo go; sleep 1000 & sleep 1000", "SIGTERM", NULL, "15 \n" },
                /* Caught by the caller: it would reach the caller only when execve has ended. */
                { "trap 'echo got INT; exit 5' INT; echo go; while :; do sleep 0.05; done", "SIGINT",
                  "default_int_handler", "1280 got INT\n" },
                { "trap 'echo got QUIT; exit 6' QUIT; echo go; while :; do sleep 0.05; done", "SIGQUIT", NULL,
                  "1536 got QUIT\n" },
        };
        for (size_t i = 0; i < ARRAY_LEN(kills); i++) {
                const char *const argv[] = {
                        "/usr/bin/python3", "-c", KILLER, kills[i].script, kills[i].signal,
                        kills[i].handler,   NULL
                };
                struct rig *g = rig_new(ALLOW("sh"));
                g->err =
                        open("/dev/null", O_WRONLY | O_CLOEXEC); /* for what the shell says of its children */
                rig_start_argv(g, argv);
                rig_end(g);
                close(g->err);
                eq_str(g->text, kills[i].output);
                rig_free(g);
        }
}

TEST(the_keeper_is_woken_when_the_last_program_outside_has_ended)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        const struct timespec most = { .tv_sec = RIG_MS / 1000 };
        struct rig *g = rig_new(ALLOW_GREP);
        rig_start(g, WHERE);
        eq_int(sys_sigtimedwait(SYS_SIGNAL_BIT(KEEPER_LOOK), &most), KEEPER_LOOK);
        rig_end(g);
        rig_free(g);
}

TEST(a_full_standard_error_does_not_hold_up_the_broker)
{
        skip_in_valgrind("does not know the notifications of seccomp");
        int pipes[2];
        char page[4096] = { 0 };
        eq_int(pipe2(pipes, O_CLOEXEC | O_NONBLOCK), 0);
        while (write(pipes[1], page, sizeof(page)) > 0)
                continue;
        eq_int(fd_set_nonblock(pipes[1], false), 0);
        struct rig *g = rig_new(DENY_RMDIR);
        g->err = pipes[1];
        rig_start(g, "rmdir x; echo $?");
        rig_end(g);
        eq_str(g->text, "1\n");
        ok(!(fcntl(pipes[1], F_GETFL) & O_NONBLOCK));
        close(pipes[0]);
        close(pipes[1]);
        rig_free(g);
}
