/* Sandboxes made ahead: who gets them, that nobody gets one twice, that starts do without, and which networks are used again. */
#include "unit.h"

#include "proc/box_rig.h"
#include "proc/keeper.h"
#include "proc/nets.h"

#include <dirent.h>
#include <sys/mount.h>

#define LINK_BYTES 64
#define TRIES 200 /* starts until one has found a spare */
#define USED 3

/* Where keepers are forked there are no spares. */
static void spares_need(void)
{
        boxed_need();
        const char *asked = getenv("FARHAND_FORK_KEEPER");
        bool has_none = asked && strcmp(asked, "1") == 0;
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
        has_none = true;
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
        has_none = true;
#endif
        if (has_none) {
                print_message("skipped: keepers are forked\n");
                skip();
        }
}

/* ---- looking ---- */

static void comm_of(pid_t pid, char ret[16])
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, ret, 15);
        ret[MAX(n, 0)] = 0;
}

/* A child of this name that is alive, or 0. */
static pid_t child_find(pid_t parent, const char *name)
{
        DIR *dir = opendir("/proc");
        ok(dir != NULL);
        pid_t found = 0;
        for (struct dirent *d; !found && (d = readdir(dir));) {
                char text[16], link[LINK_BYTES], path[64];
                pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
                if (pid <= 0 || boxed_parent_of(pid) != parent)
                        continue;
                comm_of(pid, text);
                snprintf(path, sizeof(path), "/proc/%d/ns/mnt", (int)pid); /* of a zombie there is none */
                if (strcmp(text, name) == 0 && readlink(path, link, sizeof(link)) > 0)
                        found = pid;
        }
        closedir(dir);
        return found;
}

static pid_t spare_find(const struct boxed *b)
{
        return child_find(b->rig.spawner_pid, "fh-spare\n");
}

static pid_t spare_wait(struct boxed *b)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        pid_t pid;
        while ((pid = spare_find(b)) == 0 && clock_mono_ms() < give_up)
                rig_turn(&b->rig, 1);
        ok(pid > 0);
        return pid;
}

/* A zombie is. */
static bool is_gone(pid_t pid)
{
        char path[64], text[64];
        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
        text[MAX(n, 0)] = 0;
        return n <= 0 || strstr(text, ") Z ");
}

static void gone_wait(struct boxed *b, pid_t pid)
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        while (!is_gone(pid) && clock_mono_ms() < give_up)
                rig_turn(&b->rig, 1);
        ok(is_gone(pid));
}

static void space_of(pid_t pid, const char *kind, char ret[LINK_BYTES])
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/ns/%s", (int)pid, kind);
        ssize_t n = pid > 0 ? readlink(path, ret, LINK_BYTES - 1) : 0;
        ret[MAX(n, 0)] = 0;
}

/* The namespace that a command is in; `script` does something there first. */
static void space_of_command(struct boxed *b, const char *kind, const char *script, char ret[LINK_BYTES])
{
        eq_int(boxed_run(b, arena_printf(&b->arena, "%s readlink /proc/self/ns/%s", script, kind)), 0);
        snprintf(ret, LINK_BYTES, "%.*s", (int)strcspn(b->out, "\n"), b->out);
}

/* ---- sandboxes ---- */

TEST(a_spare_is_the_next_commands_and_nobody_elses)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        size_t used = 0;
        for (size_t n = 0; used < USED && n < TRIES; n++) {
                char spare[LINK_BYTES], seen[LINK_BYTES];
                pid_t keeper = spare_find(&b);
                space_of(keeper > 0 ? child_find(keeper, "fh-init\n") : 0, "mnt", spare);
                space_of_command(&b, "mnt", "test ! -e /dev/shm/x && echo > /dev/shm/x &&", seen);
                used += strcmp(seen, spare) == 0;
        }
        eq_int(used, USED);
        boxed_close(&b);
}

TEST(what_a_spare_gives_is_a_network_of_nothing_but_lo_and_no_privilege)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        for (int n = 0; n < 5; n++) { /* the first makes its own */
                eq_int(boxed_run(&b, "sed -n '3,$s/:.*//p' /proc/net/dev; grep CapPrm /proc/self/status; "
                                     "grep CapBnd /proc/self/status; "
                                     "grep -c -m1 127.0.0.1 /proc/net/fib_trie; ls /proc | grep -c '^[0-9]'"),
                       0);
                ok(strstr(b.out, "lo\nCapPrm:\t0000000000000000\nCapBnd:\t0000000000000000\n1\n") != NULL);
                (void)spare_wait(&b);
        }
        boxed_close(&b);
}

TEST(a_spare_of_another_kind_is_not_used)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        char outside[LINK_BYTES], inside[LINK_BYTES];
        space_of(getpid(), "net", outside);
        for (int n = 0; n < 4; n++) {
                b.has_network = n % 2;
                space_of_command(&b, "net", "", inside);
                eq_int(strcmp(inside, outside) == 0, b.has_network);
                (void)spare_wait(&b);
        }
        boxed_close(&b);
}

TEST(who_finds_the_spare_killed_makes_its_own)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        for (int n = 0; n < 20; n++) {
                eq_int(boxed_run(&b, "echo up"), 0);
                eq_str(b.out, "up\n");
                pid_t spare = spare_wait(&b), init = child_find(spare, "fh-init\n");
                pid_t victim = n % 2 && init > 0 ? init : spare;
                eq_int(kill(victim, SIGKILL), 0);
                gone_wait(&b, victim);
        }
        boxed_close(&b);
}

TEST(what_is_mounted_later_is_seen_and_a_spare_of_before_is_not_used)
{
        spares_need();
        if (geteuid() != 0) {
                print_message("skipped: not root\n");
                skip();
        }
        /* Mounts of this test are nobody else's. */
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
                        _exit(1);
                struct boxed b;
                boxed_open_workspace(&b);
                boxed_mkdir(&b, "W/m");
                for (int n = 0; n < 6; n++) {
                        eq_int(boxed_run(&b, "test ! -e m/new"), 0);
                        pid_t spare = spare_wait(&b);
                        eq_int(mount("t", boxed_path(&b, "W/m"), "tmpfs", 0, NULL), 0);
                        boxed_write(&b, "W/m/new", "");
                        eq_int(boxed_run(&b, "test -e m/new"), 0);
                        gone_wait(&b, spare);
                        spare = spare_wait(&b);
                        eq_int(umount(boxed_path(&b, "W/m")), 0);
                        gone_wait(&b, spare); /* without any command: it would keep the file system busy */
                }
                boxed_close(&b);
                _exit(0);
        }
        int status;
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

TEST(a_spare_goes_with_the_spawner)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        eq_int(boxed_run(&b, "true"), 0);
        pid_t spare = spare_wait(&b), init = child_find(spare, "fh-init\n"),
              net = child_find(b.rig.spawner_pid, "fh-net\n");
        ok(net > 0);
        eq_int(kill(b.rig.spawner_pid, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.is_lost);
        gone_wait(&b, spare);
        gone_wait(&b, net);
        if (init > 0)
                gone_wait(&b, init);
        boxed_close(&b);
}

/* ---- networks ---- */

TEST(a_network_in_which_nothing_has_happened_is_used_again)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        char seen[TRIES][LINK_BYTES];
        size_t again = 0;
        for (size_t n = 0; again < USED && n < TRIES; n++) {
                space_of_command(&b, "net", "", seen[n]);
                (void)spare_wait(&b);
                for (size_t k = 0; k < n; k++)
                        again += strcmp(seen[k], seen[n]) == 0;
        }
        ok(again >= USED);
        boxed_close(&b);
}

/* A datagram to itself, a connection that is refused, one that nobody can be reached by. */
TEST(a_network_in_which_something_has_happened_is_not_used_again)
{
        spares_need();
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
        struct boxed b;
        boxed_open_workspace(&b);
        for (size_t n = 0; n < ARRAY_LEN(scripts); n++) {
                char used[LINK_BYTES], later[LINK_BYTES];
                space_of_command(&b, "net", scripts[n], used);
                for (int k = 0; k < 6; k++) {
                        (void)spare_wait(&b);
                        space_of_command(&b, "net", "", later);
                        ok(strcmp(used, later) != 0);
                }
        }
        boxed_close(&b);
}

static struct net *net_wait(struct nets *t, uint64_t whose)
{
        const struct timespec patience = { .tv_sec = RIG_PATIENCE_MS / 1000 };
        struct net *n;
        sigset_t look;
        sigemptyset(&look);
        sigaddset(&look, SPAWNER_LOOK);
        while (!(n = nets_take(t, whose)))
                eq_int(sigtimedwait(&look, NULL, &patience), SPAWNER_LOOK);
        return n;
}

TEST(a_network_that_a_command_was_in_is_for_its_session_only)
{
        spares_need();
        sigset_t look, before;
        sigemptyset(&look);
        sigaddset(&look, SPAWNER_LOOK);
        eq_int(sigprocmask(SIG_BLOCK, &look, &before), 0);
        struct nets t;
        nets_init(&t);

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
        ok(!nets_are_free(&t));
        for (int n = 0; n < 2; n++)
                ok(nets_forget(&t, waitpid(-1, NULL, 0)));
        ok(list_is_empty(&t.all));
        while (sigtimedwait(&look, NULL, &(struct timespec){ 0 }) > 0)
                continue;
        eq_int(sigprocmask(SIG_SETMASK, &before, NULL), 0);
}
