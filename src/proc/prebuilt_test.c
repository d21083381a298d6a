/* prebuilt_test: which commands get a prebuilt sandbox, that none is used twice, that starts work without one, and which networks
 * are used again. */
#include "unit.h"

#include "keeper/keeper_shared.h"
#include "proc/sandboxed_rig.h"
#include "spawner/nets.h"

#include <dirent.h>
#include <sys/mount.h>

#define LINK_BYTES 64
#define TRIES 200 /* starts, at most, until one of them gets a prebuilt sandbox */
#define USED 3

/* Skips the test where keepers are forked, because there are no prebuilt sandboxes then. */
static void skip_without_prebuilts(void)
{
        rigged_or_skip();
        const char *asked = getenv("FARHAND_FORK_KEEPER");
        bool has_none = asked && strcmp(asked, "1") == 0;
        if (has_none || IS_ASAN) {
                print_message("skipped: keepers are forked\n");
                skip();
        }
}

/* ---- finding processes ---- */

static void comm_of(pid_t pid, char ret[16])
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, ret, 15);
        ret[MAX(n, 0)] = 0;
}

/* Returns the pid of a living child of `parent` with this name, or 0. */
static pid_t child_find(pid_t parent, const char *name)
{
        DIR *dir = opendir("/proc");
        ok(dir != NULL);
        pid_t found = 0;
        for (struct dirent *d; !found && (d = readdir(dir));) {
                char text[16], link[LINK_BYTES], path[64];
                pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
                if (pid <= 0 || rigged_parent_of(pid) != parent)
                        continue;
                comm_of(pid, text);
                snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid); /* a zombie has no such link */
                if (strcmp(text, name) == 0 && readlink(path, link, sizeof(link)) > 0)
                        found = pid;
        }
        closedir(dir);
        return found;
}

static pid_t prebuilt_find(const struct rigged *b)
{
        return child_find(b->rig.spawner_pid, "fh-prebuilt\n");
}

static pid_t prebuilt_wait(struct rigged *b)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        pid_t pid;
        while ((pid = prebuilt_find(b)) == 0 && clock_mono_ms() < give_up)
                rig_turn(&b->rig, 1);
        ok(pid > 0);
        return pid;
}

/* Returns whether there is no such process. A zombie counts as gone. */
static bool is_gone(pid_t pid)
{
        char path[64], text[64];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        text[MAX(n, 0)] = 0;
        return n <= 0 || strstr(text, ") Z ");
}

static void gone_wait(struct rigged *b, pid_t pid)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        while (!is_gone(pid) && clock_mono_ms() < give_up)
                rig_turn(&b->rig, 1);
        if (!is_gone(pid)) {
                _buf_ struct buf status = BUF_INIT(64 * 1024);
                char path[64];
                snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
                (void)!fd_read_file(path, 64 * 1024, &status);
                print_message("%.*s\n", (int)status.n, status.p); /* the process that has that pid now */
        }
        ok(is_gone(pid));
}

static void namespace_of(pid_t pid, const char *kind, char ret[LINK_BYTES])
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
        ssize_t n = pid > 0 ? readlink(path, ret, LINK_BYTES - 1) : 0;
        ret[MAX(n, 0)] = 0;
}

/* Runs `script` in a command, and returns the namespace that the command was in. */
static void namespace_of_command(struct rigged *b, const char *kind, const char *script, char ret[LINK_BYTES])
{
        eq_int(rigged_run(b, arena_printf(&b->arena, "%s readlink /proc/self/ns/%s", script, kind)), 0);
        snprintf(ret, LINK_BYTES, "%.*s", (int)strcspn(b->out, "\n"), b->out);
}

/* ---- prebuilt sandboxes ---- */

TEST(a_prebuilt_is_the_next_commands_and_nobody_elses)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        size_t used = 0;
        for (size_t n = 0; used < USED && n < TRIES; n++) {
                char prebuilt[LINK_BYTES], seen[LINK_BYTES];
                pid_t keeper = prebuilt_find(&b);
                namespace_of(keeper > 0 ? child_find(keeper, "fh-init\n") : 0, "mnt", prebuilt);
                namespace_of_command(&b, "mnt", "test ! -e /dev/shm/x && echo > /dev/shm/x &&", seen);
                used += strcmp(seen, prebuilt) == 0;
        }
        eq_int(used, USED);
        rigged_close(&b);
}

TEST(what_a_prebuilt_gives_is_a_network_of_nothing_but_lo_and_no_privilege)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        for (int n = 0; n < 5; n++) { /* the first command makes its own sandbox */
                eq_int(rigged_run(&b,
                                  "sed -n '3,$s/:.*//p' /proc/net/dev; grep CapPrm /proc/self/status; "
                                  "grep CapBnd /proc/self/status; "
                                  "grep -c -m1 127.0.0.1 /proc/net/fib_trie; ls /proc | grep -c '^[0-9]'"),
                       0);
                ok(strstr(b.out, "lo\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000\n1\n") != NULL);
                (void)prebuilt_wait(&b);
        }
        rigged_close(&b);
}

TEST(a_prebuilt_of_another_kind_is_not_used)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        char outside[LINK_BYTES], inside[LINK_BYTES];
        namespace_of(getpid(), "net", outside);
        for (int n = 0; n < 4; n++) {
                b.has_network = n % 2;
                namespace_of_command(&b, "net", "", inside);
                eq_int(strcmp(inside, outside) == 0, b.has_network);
                (void)prebuilt_wait(&b);
        }
        rigged_close(&b);
}

TEST(a_command_that_runs_on_does_not_keep_a_prebuilt_from_being_made)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        for (uint32_t n = 1; n <= 2; n++) { /* the first command also makes a network */
                rigged_start(&b, n, "echo up; sleep 60");
                rigged_wait_text(&b, n, "up\n");
                (void)prebuilt_wait(&b);
                ok(!b.rig.seen[n].has_exited);
                spawn_kill(b.rig.s, n);
                rig_wait(&b.rig, b.rig.seen[n].has_gone);
        }
        rigged_close(&b);
}

TEST(who_finds_the_prebuilt_killed_makes_its_own)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        for (int n = 0; n < 20; n++) {
                eq_int(rigged_run(&b, "echo up"), 0);
                eq_str(b.out, "up\n");
                pid_t prebuilt = prebuilt_wait(&b), init = child_find(prebuilt, "fh-init\n");
                pid_t victim = n % 2 && init > 0 ? init : prebuilt;
                eq_int(kill(victim, SIGKILL), 0);
                gone_wait(&b, victim);
        }
        rigged_close(&b);
}

/* Either the init or the keeper may be the first to report the change. The command must not run. */
TEST(a_prebuilt_refuses_what_changed_since_the_plan)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        rigged_mkdir(&b, "W/no");
        rigged_allow(&b, "W/no", ACCESS_DENY);
        struct rig_seen *seen = &b.rig.seen[1];
        for (int n = 0; n < 6; n++) {
                bool is_root = n % 2;
                eq_int(rigged_run(&b, "true"), 0);
                (void)prebuilt_wait(&b);
                *seen = (struct rig_seen){ 0 };
                rigged_image(&b);
                const char *replaced = is_root ? "W" : "W/no";
                char old[32];
                snprintf(old, sizeof(old), "old%d", n);
                eq_int(rename(rigged_path(&b, replaced), rigged_path(&b, old)), 0);
                rigged_mkdir(&b, replaced);
                if (is_root)
                        rigged_mkdir(&b, "W/no");
                rigged_start_prepared(&b, 1, "echo must not run");
                rig_wait(&b.rig, seen->has_gone);
                ok(seen->has_failed);
                ok(strcmp(seen->step, "mount") == 0 || strcmp(seen->step, "stub") == 0);
                eq_int(seen->os_errno, ESTALE);
                rig_turn(&b.rig, 0);
                ok(read(b.rig.out[0], b.out, 1) < 0);
                ok(!rigged_has(&b, "W/.agents"));
        }
        rigged_close(&b);
}

TEST(what_is_mounted_later_is_seen_and_a_prebuilt_of_before_is_not_used)
{
        skip_without_prebuilts();
        if (geteuid() != 0) {
                print_message("skipped: not root\n");
                skip();
        }
        /* Puts the test into a mount namespace of its own. */
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                        _exit(1);
                struct rigged b;
                rigged_open_workspace(&b);
                rigged_mkdir(&b, "W/m");
                for (int n = 0; n < 6; n++) {
                        eq_int(rigged_run(&b, "test ! -e m/new"), 0);
                        pid_t prebuilt = prebuilt_wait(&b);
                        eq_int(mount("t", rigged_path(&b, "W/m"), "tmpfs", 0, NULL), 0);
                        rigged_write(&b, "W/m/new", "");
                        eq_int(rigged_run(&b, "test -e m/new"), 0);
                        gone_wait(&b, prebuilt);
                        prebuilt = prebuilt_wait(&b);
                        eq_int(umount(rigged_path(&b, "W/m")), 0);
                        gone_wait(
                                &b,
                                prebuilt); /* the sandbox ends unused, because it would keep the file system busy */
                }
                rigged_close(&b);
                _exit(0);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

TEST(a_prebuilt_goes_with_the_spawner)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        eq_int(rigged_run(&b, "true"), 0);
        pid_t prebuilt = prebuilt_wait(&b), init = child_find(prebuilt, "fh-init\n"),
              net = child_find(b.rig.spawner_pid, "fh-net\n");
        ok(net > 0);
        eq_int(kill(b.rig.spawner_pid, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.is_lost);
        gone_wait(&b, prebuilt);
        gone_wait(&b, net);
        if (init > 0)
                gone_wait(&b, init);
        rigged_close(&b);
}

/* ---- networks that are used again ---- */

TEST(a_network_in_which_nothing_has_happened_is_used_again)
{
        skip_without_prebuilts();
        struct rigged b;
        rigged_open_workspace(&b);
        char seen[TRIES][LINK_BYTES];
        size_t again = 0;
        for (size_t n = 0; again < USED && n < TRIES; n++) {
                namespace_of_command(&b, "net", "", seen[n]);
                (void)prebuilt_wait(&b);
                for (size_t k = 0; k < n; k++)
                        again += strcmp(seen[k], seen[n]) == 0;
        }
        ok(again >= USED);
        rigged_close(&b);
}

/* Sends a datagram to itself, and tries a connection that is refused and one to an address that cannot be reached. */
TEST(a_network_in_which_something_has_happened_is_not_used_again)
{
        skip_without_prebuilts();
        static const char *const scripts[] = {
                "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                "s.sendto(b\"x\", (\"127.0.0.1\", 9))';",
                "python3 -c 'import socket; s = socket.socket(); s.connect_ex((\"127.0.0.1\", 9))';",
                "python3 -c 'import socket; s = socket.socket(socket.AF_INET6); s.connect_ex((\"::1\", 9))';",
                "python3 -c 'import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); "
                "s.connect_ex((\"192.0.2.1\", 9))';",
        };
        if (access("/usr/bin/python3", X_OK) < 0) {
                print_message("skipped: no python3\n");
                skip();
        }
        struct rigged b;
        rigged_open_workspace(&b);
        for (size_t n = 0; n < ARRAY_LEN(scripts); n++) {
                char used[LINK_BYTES], later[LINK_BYTES];
                namespace_of_command(&b, "net", scripts[n], used);
                for (int k = 0; k < 6; k++) {
                        (void)prebuilt_wait(&b);
                        namespace_of_command(&b, "net", "", later);
                        ok(strcmp(used, later) != 0);
                }
        }
        rigged_close(&b);
}

static struct net *net_wait(struct nets *t, uint64_t session)
{
        const struct timespec patience = { .tv_sec = RIG_PATIENCE_MS / 1000 };
        struct net *n;
        sigset_t look;
        sigemptyset(&look);
        sigaddset(&look, SPAWNER_LOOK);
        while (!(n = nets_take(t, session)))
                eq_int(sigtimedwait(&look, NULL, &patience), SPAWNER_LOOK);
        return n;
}

TEST(a_network_that_a_command_was_in_is_for_its_session_only)
{
        skip_without_prebuilts();
        sigset_t look, before;
        sigemptyset(&look);
        sigaddset(&look, SPAWNER_LOOK);
        eq_int(sigprocmask(SIG_BLOCK, &look, &before), 0);
        struct nets t = { .fence_fd = -1 };
        list_init(&t.all);

        struct net *unused = net_wait(&t, 1);
        nets_give_back(&t, unused, true);
        ok(net_wait(&t, 2) == unused);
        net_use(unused, 2);
        ok(net_is_for(unused, 2) && !net_is_for(unused, 1));
        nets_give_back(&t, unused, true);
        struct net *other = net_wait(&t, 1);
        ok(other != unused);
        ok(net_wait(&t, 2) == unused);

        nets_give_back(&t, unused, false);
        nets_give_back(&t, other, false);
        eq_int(nets_free_count(&t), 0);
        for (int n = 0; n < 2; n++)
                ok(nets_forget(&t, waitpid(-1, NULL, 0)));
        ok(list_is_empty(&t.all));
        while (sigtimedwait(&look, NULL, &(struct timespec){ 0 }) > 0)
                continue;
        eq_int(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}
