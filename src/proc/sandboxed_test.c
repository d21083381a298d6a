/* sandboxed_test: what commands in sandboxes see, what they may do, and starts that fail. Their ends: sandboxed_end_test.c. */
#include "unit.h"

#include "proc/sandboxed_rig.h"

#include "base/limits.h"
#include "proc/pty.h"
#include "sandbox/enter.h"

#include <sys/resource.h>

/* ---- what commands see and may do ---- */

TEST(a_command_writes_its_workspace_and_nothing_else)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b,
                          "pwd; echo in > new && cat new; (echo out > ../out) 2>/dev/null || echo no; ls -a"),
               0);
        eq_str(b.out,
               arena_printf(&b.arena, "%s/W\nin\nno\n.\n..\n.agents\n.aws\n.codex\n.git\nnew\n", b.dir));
        ok(rigged_has(&b, "W/new") && !rigged_has(&b, "out") && !rigged_has(&b, "W/.git"));
        rigged_close(&b);
}

TEST(a_command_has_no_rights_and_sees_only_itself)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b, "grep -E '^(NoNewPrivs|Seccomp|CapEff|CapPrm|CapBnd|CapInh|CapAmb|NSpid):' "
                              "/proc/self/status | tr '\\t' ' '; "
                              "echo $$; echo /proc/[0-9]*; tail -n +3 /proc/net/dev | cut -d: -f1"),
               0);
        static const char *const wanted[] = { "CapInh: 0000000000000000\n",
                                              "CapPrm: 0000000000000000\n",
                                              "CapEff: 0000000000000000\n",
                                              "CapBnd: 0000000000000000\n",
                                              "CapAmb: 0000000000000000\n",
                                              "NoNewPrivs: 1\n",
                                              "Seccomp: 2\n",
                                              "\n2\n/proc/1 /proc/2\n    lo\n" };
        for (size_t n = 0; n < ARRAY_LEN(wanted); n++)
                if (!strstr(b.out, wanted[n]))
                        fail_msg("%s is not in %s", wanted[n], b.out);
        rigged_close(&b);
}

TEST(a_command_gets_three_descriptors_and_default_signals)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b, "exec python3 -c '\n"
                              "import os\n"
                              "print([n for n in range(64) if os.path.exists(\"/proc/self/fd/%d\" % n)])\n"
                              "' 2>/dev/null || exec ls /proc/self/fd"),
               0);
        ok(strncmp(b.out, "[0, 1, 2]\n", 10) == 0 || strncmp(b.out, "0\n1\n2\n3\n", 8) == 0);
        eq_int(rigged_run(&b, "grep -E '^Sig(Blk|Ign):' /proc/self/status"), 0);
        eq_str(b.out, "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n");
        rigged_close(&b);
}

TEST(masks_carve_outs_and_openings_are_what_the_rules_say)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_mkdir(&b, "W/no");
        rigged_mkdir(&b, "W/no/open");
        rigged_mkdir(&b, "W/ro");
        rigged_write(&b, "W/no/secret", "secret\n");
        rigged_write(&b, "W/no/open/f", "open\n");
        rigged_write(&b, "W/ro/f", "ro\n");
        rigged_write(&b, "W/file", "secret\n");
        rigged_allow(&b, "W/no", ACCESS_DENY);
        rigged_allow(&b, "W/no/open", ACCESS_READ);
        rigged_allow(&b, "W/ro", ACCESS_READ);
        rigged_allow(&b, "W/file", ACCESS_DENY);
        rigged_allow(&b, "W/missing", ACCESS_DENY);
        eq_int(rigged_run(&b,
                          "exec 2>&1; cat no/open/f ro/f; for f in no/secret file; do cat $f; done; ls no; "
                          "echo x > ro/f; echo x > no/open/f; mkdir missing; mkdir .git/x; rm -f file; mv ro "
                          "or; "
                          "mv no on; mkdir no/open/x"),
               1 << 8);
        static const char *const wanted[] = {
                "open\nro\n",
                "cat: no/secret: No such file",
                "cat: file: Permission denied",
                "ls: cannot open directory 'no': Permission denied",
                "cannot create ro/f: Read-only file system",
                "cannot create no/open/f: Read-only file system",
                "cannot create directory 'missing': File exists",
                "cannot create directory '.git/x': Read-only file system",
                "rm: cannot remove 'file': Device or resource busy",
                "mv: cannot move 'ro' to 'or': Device or resource busy",
                "mv: cannot move 'no' to 'on': Device or resource busy",
                "cannot create directory 'no/open/x': Read-only file system",
        };
        for (size_t n = 0; n < ARRAY_LEN(wanted); n++) {
                /* Some tools print typographic quotes: these are replaced by plain ones. */
                char *text = arena_dup(&b.arena, slice_from_str(b.out));
                for (char *p = text; *p; p++)
                        if ((unsigned char)*p == 0xe2 && (unsigned char)p[1] == 0x80) {
                                *p = '\'';
                                memmove(p + 1, p + 3, strlen(p + 3) + 1);
                        }
                if (!strstr(text, wanted[n]))
                        fail_msg("%s is not in\n%s", wanted[n], text);
        }
        ok(rigged_has(&b, "W/no/secret") && rigged_has(&b, "W/ro/f") && rigged_has(&b, "W/file"));
        rigged_close(&b);
}

TEST(an_empty_root_holds_what_is_named_and_the_platform)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open(&b);
        rigged_allow(&b, "W", ACCESS_WRITE);
        rigged_mkdir(&b, "other");
        rigged_mkdir(&b, "link-target");
        rigged_write(&b, "link-target/f", "through\n");
        eq_int(symlink("link-target", rigged_path(&b, "link")), 0);
        rigged_allow(&b, "link", ACCESS_READ);
        eq_int(rigged_run(&b, "exec 2>&1; ls ..; cat ../link/f; (echo x > /x) 2>/dev/null || echo no; echo x "
                              "> f && cat f"),
               0);
        eq_str(b.out, "W\nlink\nlink-target\nthrough\nno\nx\n");
        rigged_close(&b);
}

TEST(a_file_as_a_root_can_be_written_and_not_moved)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open(&b);
        rigged_add_rule(&b, S("/"), ACCESS_READ);
        rigged_write(&b, "W/f", "");
        rigged_write(&b, "W/g", "");
        rigged_allow(&b, "W/f", ACCESS_WRITE);
        eq_int(rigged_run(&b, "echo x > f && cat f; mv f h 2>/dev/null || echo stays; (echo y > g) "
                              "2>/dev/null || echo no"),
               0);
        eq_str(b.out, "x\nstays\nno\n");
        rigged_close(&b);
}

TEST(only_the_network_can_be_taken_away)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open(&b); /* without rules a command sees the files of the machine */
        eq_int(rigged_run(&b, "tail -n +3 /proc/self/net/dev | cut -d: -f1; echo x > ../f; "
                              "grep -E '^(NoNewPrivs|Seccomp):' /proc/self/status; exit 5"),
               5 << 8);
        eq_str(b.out, "    lo\nNoNewPrivs:\t1\nSeccomp:\t2\n");
        ok(rigged_has(&b, "f"));
        rigged_close(&b);
}

TEST(with_the_network_the_command_shares_the_machines)
{
        rigged_or_skip();
        struct rigged b;
        char host[64], inside[64];
        rigged_open_workspace(&b);
        b.has_network = true;
        eq_int(rigged_run(&b, "readlink /proc/self/ns/net"), 0);
        snprintf(inside, sizeof(inside), "%.60s", b.out);
        ssize_t n = readlink("/proc/self/ns/net", host, sizeof(host) - 2);
        ok(n > 0);
        host[n] = '\n';
        host[n + 1] = 0;
        eq_str(inside, host);
        b.has_network = false;
        eq_int(rigged_run(&b, "readlink /proc/self/ns/net"), 0);
        ok(strcmp(b.out, host) != 0);
        rigged_close(&b);
}

/* ---- limits of commands ---- */

TEST(limits_hold_in_a_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        b.rig.limits = (struct spawn_limits){ .open_files = 33, .file_bytes = 4096, .cpu_seconds = 100 };
        eq_int(rigged_run(&b,
                          "ulimit -n; ulimit -t; head -c 8192 /dev/zero > big; ls -l big | cut -d' ' -f5"),
               0);
        ok(strncmp(b.out, "33\n100\n", 7) == 0);
        ok(strstr(b.out, "\n4096\n") != NULL);
        struct stat st;
        eq_int(stat(rigged_path(&b, "W/big"), &st), 0);
        eq_int(st.st_size, 4096);
        rigged_close(&b);
}

/* The first spawner of this process has noted the limit of commands without a sandbox. The second start uses a
 * prebuilt sandbox. */
TEST(a_command_in_a_sandbox_may_open_half_as_many_files)
{
        rigged_or_skip();
        struct rigged b;
        char want[64];
        struct rlimit plain;
        eq_int(getrlimit(RLIMIT_NOFILE, &plain), 0);
        if (plain.rlim_max < LIMIT_OPEN_FILES_SPLIT)
                skip();
        snprintf(want, sizeof(want), "%llu\n", (unsigned long long)plain.rlim_max / 2);
        rigged_open_workspace(&b);
        for (int i = 0; i < 2; i++) {
                eq_int(rigged_run(&b, "ulimit -Hn; ulimit -n $(($(ulimit -Hn) + 1)) 2>&-; exit 0"), 0);
                eq_str(b.out, want);
        }
        b.rig.limits = (struct spawn_limits){ .open_files = plain.rlim_max / 2 };
        eq_int(rigged_run(&b, "ulimit -Hn"), 0);
        eq_str(b.out, want);
        b.rig.limits = (struct spawn_limits){ .open_files = plain.rlim_max / 2 + 1 };
        rigged_start(&b, 2, "true");
        rig_wait(&b.rig, b.rig.seen[2].has_gone);
        eq_str(b.rig.seen[2].step, "limits");
        eq_int(b.rig.seen[2].os_errno, EPERM);
        rigged_close(&b);
}

TEST(time_of_the_processor_ends_a_command_in_a_sandbox)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        b.rig.limits = (struct spawn_limits){ .cpu_seconds = 1 };
        int status = rigged_run(&b, "while :; do :; done");
        ok(WIFSIGNALED(status));
        eq_int(WTERMSIG(status), SIGXCPU);
        ok(b.rig.seen[1].exit.user_us + b.rig.seen[1].exit.system_us >= 500000);
        rigged_close(&b);
}

/* ---- terminals ---- */

struct terminal {
        int master;
        char text[16384];
        size_t n;
};

static void terminal_start(struct rigged *b, struct terminal *t, const char *script)
{
        static const char *const env[] = { "PATH=/usr/bin:/bin", "LC_ALL=C", NULL };
        const char *const argv[] = { "sh", "-c", script, NULL };
        const char *const candidates[] = { "/bin/sh", NULL };
        int slave;
        *t = (struct terminal){ 0 };
        eq_int(pty_open(24, 80, &t->master, &slave), 0);
        rigged_image(b);
        const struct command_spec command = {
                .argv = argv,
                .env = env,
                .candidates = candidates,
                .cwd = rigged_path(b, "W"),
                .is_tty = true,
                .has_image = true,
                .image_fd = b->rig.image_fd,
        };
        const int stdio[] = { slave, slave, slave };
        eq_int(spawn_start(b->rig.s, 1, &command, stdio), 0);
        close(b->rig.image_fd);
        close(slave);
}

/* Reads until the output contains `text`. */
static void terminal_wait(struct rigged *b, struct terminal *t, const char *text)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        while (!strstr(t->text, text)) {
                if (clock_mono_ms() > give_up)
                        fail_msg("waited too long for %s in %s", text, t->text);
                rig_turn(&b->rig, 0);
                struct pollfd p = { .fd = t->master, .events = POLLIN };
                (void)poll(&p, 1, 50);
                ok(t->n < sizeof(t->text) - 1);
                ssize_t r = read(t->master, t->text + t->n, sizeof(t->text) - 1 - t->n);
                t->n += r > 0 ? (size_t)r : 0;
                t->text[t->n] = 0;
        }
}

static void terminal_type(struct terminal *t, const char *keys)
{
        eq_int(write(t->master, keys, strlen(keys)), (ssize_t)strlen(keys));
}

TEST(a_terminal_is_the_commands_own)
{
        rigged_or_skip();
        struct rigged b;
        struct terminal t;
        rigged_open_workspace(&b);
        terminal_start(&b, &t, "tty; stty size; echo by name > /dev/tty; read line; echo \"got $line\"");
        terminal_wait(&b, &t, "by name");
        ok(strstr(t.text, "24 80") != NULL);
        terminal_type(&t, "words\n");
        terminal_wait(&b, &t, "got words");
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        eq_int(b.rig.seen[1].exit.status, 0);
        close(t.master);
        rigged_close(&b);
}

TEST(keys_reach_the_foreground_of_a_terminal)
{
        rigged_or_skip();
        struct rigged b;
        struct terminal t;
        rigged_open_workspace(&b);
        terminal_start(&b, &t, "trap 'echo int; exit 5' INT; sh -c 'echo ready; exec cat'");
        terminal_wait(&b, &t, "ready");
        terminal_type(&t, "\003");
        terminal_wait(&b, &t, "int");
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        eq_int(b.rig.seen[1].exit.status, 5 << 8);
        close(t.master);
        rigged_close(&b);
}

TEST(jobs_stop_and_go_on_at_a_terminal)
{
        rigged_or_skip();
        struct rigged b;
        struct terminal t;
        rigged_open_workspace(&b);
        terminal_start(&b, &t, "set -m; sh -c 'echo up; exec cat'; echo stopped $?; fg %1; echo ended $?");
        terminal_wait(&b, &t, "up");
        terminal_type(&t, "one\n");
        terminal_wait(&b, &t, "one\r\none\r\n"); /* the echo, and the output of cat in the foreground */
        terminal_type(&t, "\032");
        terminal_wait(&b, &t, "stopped 148");
        terminal_wait(&b, &t, "exec cat"); /* fg prints the command that it brings back */
        terminal_type(&t, "two\n");
        terminal_wait(&b, &t, "two\r\ntwo\r\n");
        terminal_type(&t, "\004");
        terminal_wait(&b, &t, "ended 0");
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        close(t.master);
        rigged_close(&b);
}

TEST(a_terminal_that_hangs_up_ends_the_command)
{
        rigged_or_skip();
        struct rigged b;
        struct terminal t;
        rigged_open_workspace(&b);
        terminal_start(&b, &t, "echo ready; cat");
        terminal_wait(&b, &t, "ready");
        close(t.master);
        rig_wait(&b.rig, b.rig.seen[1].has_gone);
        ok(WIFSIGNALED(b.rig.seen[1].exit.status));
        eq_int(WTERMSIG(b.rig.seen[1].exit.status), SIGHUP);
        rigged_close(&b);
}

/* ---- starts that fail ---- */

static void fails(struct rigged *b, const char *program, const char *cwd, const char *step, int os_errno)
{
        struct rig_seen *seen = &b->rig.seen[1];
        const char *const argv[] = { program, NULL };
        *seen = (struct rig_seen){ 0 };
        rigged_image(b);
        eq_int(rig_start_argv(&b->rig, 1, argv, argv, cwd), 0);
        close(b->rig.image_fd);
        rig_wait(&b->rig, seen->has_gone);
        ok(seen->has_failed && !seen->has_started && !seen->has_exited);
        eq_str(seen->step, step);
        eq_int(seen->os_errno, os_errno);
        ok(!rigged_has(b, "W/.git"));
}

TEST(a_start_that_fails_says_at_what)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_mkdir(&b, "W/no");
        rigged_write(&b, "W/no/program", "#!/bin/sh\n");
        rigged_write(&b, "W/file", "no program");
        eq_int(chmod(rigged_path(&b, "W/no/program"), 0755), 0);
        rigged_allow(&b, "W/no", ACCESS_DENY);
        const char *W = rigged_path(&b, "W");
        fails(&b, "/bin/true", rigged_path(&b, "W/none"), "cwd", ENOENT);
        fails(&b, "/bin/true", rigged_path(&b, "W/file"), "cwd", ENOTDIR);
        fails(&b, "/bin/none", W, "exec", ENOENT);
        fails(&b, rigged_path(&b, "W/file"), W, "exec", EACCES);
        fails(&b, rigged_path(&b, "W/no/program"), W, "exec", EACCES);
        eq_int(rigged_run(&b, "echo works"), 0);
        rigged_close(&b);
}

/* Starts a command with an image that was made before `change`. */
static void fails_after(struct rigged *b, void (*change)(struct rigged *), const char *step, int os_errno,
                        const char *path)
{
        struct rig_seen *seen = &b->rig.seen[1];
        *seen = (struct rig_seen){ 0 };
        rigged_image(b);
        struct image *image = image_map(b->rig.image_fd);
        ok(image != NULL);
        change(b);
        rigged_start_prepared(b, 1, "echo must not run");
        rig_wait(&b->rig, seen->has_gone);
        ok(seen->has_failed);
        eq_str(seen->step, step);
        eq_int(seen->os_errno, os_errno);
        const struct image_op *ops = image_at(image, image->ops);
        const struct image_placeholder *placeholders = image_at(image, image->placeholders);
        bool is_placeholder = strcmp(step, "stub") == 0;
        ok(seen->op < (is_placeholder ? image->placeholder_count : image->op_count));
        const char *at = is_placeholder ? (const char *)image_at(image, placeholders[seen->op].path) + 1
                                        : (const char *)image_at(image, ops[seen->op].path);
        eq_str(at, rigged_path(b, path) + 1);
        image_unmap(image);
        rig_turn(&b->rig, 0);
        ok(read(b->rig.out[0], b->out, 1) < 0); /* nothing ran */
}

static void replace_root(struct rigged *b)
{
        eq_int(rename(rigged_path(b, "W"), rigged_path(b, "old")), 0);
        rigged_mkdir(b, "W");
        rigged_mkdir(b, "W/no");
        rigged_mkdir(b, "W/.git");
}

static void replace_mask(struct rigged *b)
{
        eq_int(rename(rigged_path(b, "W/no"), rigged_path(b, "W/on")), 0);
        rigged_mkdir(b, "W/no");
}

static void remove_mask(struct rigged *b)
{
        eq_int(rmdir(rigged_path(b, "W/no")), 0);
}

static void make_protected(struct rigged *b)
{
        rigged_mkdir(b, "W/.codex");
}

static void link_root(struct rigged *b)
{
        eq_int(rename(rigged_path(b, "W"), rigged_path(b, "older")), 0);
        eq_int(symlink("older", rigged_path(b, "W")), 0);
}

TEST(what_changed_since_the_plan_refuses_the_start)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        b.rig.session = 0; /* the init of a prebuilt sandbox may report its own failure before the keeper's */
        rigged_mkdir(&b, "W/no");
        rigged_mkdir(&b, "W/.git");
        rigged_allow(&b, "W/no", ACCESS_DENY);
        fails_after(&b, make_protected, "stub", EEXIST, "W/.codex");
        fails_after(&b, replace_mask, "mount", ESTALE, "W/no");
        fails_after(&b, remove_mask, "mount", ENOENT, "W/no");
        rigged_mkdir(&b, "W/no");
        fails_after(&b, replace_root, "stub", ESTALE, "W/.agents");
        fails_after(&b, link_root, "stub", ELOOP, "W/.agents");
        ok(!rigged_has(&b, "old/.agents") && !rigged_has(&b, "older/.agents"));
        rigged_close(&b);
}

/* The guard sets is_broken and kills the processes of the sandbox. Here there are none yet: the keeper has to look. */
TEST(a_mask_that_is_broken_while_the_sandbox_is_built_ends_the_start)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_mkdir(&b, "W/no");
        rigged_allow(&b, "W/no", ACCESS_DENY);
        for (int start = 0; start < 3; start++) {
                struct rig_seen *seen = &b.rig.seen[1];
                *seen = (struct rig_seen){ 0 };
                rigged_image(&b);
                struct image *image = image_map(b.rig.image_fd);
                ok(image != NULL);
                image->is_broken =
                        start !=
                        1; /* the first sandbox is built for its command, the third was built ahead */
                rigged_start_prepared(&b, 1, start == 1 ? "exit 0" : "exec sleep 300");
                rig_wait(&b.rig, seen->has_gone);
                /* The start is refused; or the command is killed, when execve was over before the keeper was told. */
                ok(!seen->has_failed || start != 1);
                if (!seen->has_failed)
                        eq_int(seen->exit.status, start == 1 ? 0 : SIGKILL);
                image_unmap(image);
        }
        rigged_close(&b);
}

TEST(a_git_file_with_read_only_hooks_below_it_starts)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_write(&b, "W/.git", "gitdir: /none\n");
        rigged_allow(&b, "W/.git", ACCESS_WRITE);
        rigged_allow(&b, "W/.git/hooks", ACCESS_READ);
        eq_int(rigged_run(&b, "echo x"), 0);
        rigged_close(&b);
}

TEST(a_failure_of_the_child_names_no_operation)
{
        rigged_or_skip();
        struct rigged b;
        rigged_open_workspace(&b);
        fails(&b, "/bin/none", rigged_path(&b, "W"), "exec", ENOENT);
        eq_u64(b.rig.seen[1].op, ENTER_NO_OP);
        rigged_close(&b);
}
