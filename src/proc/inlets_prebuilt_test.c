/* inlets_prebuilt_test: inlets (keeper/inlets.h) in prebuilt sandboxes and in networks that are used again, and while the kernel passes
 * no descriptors on. */
#include "unit.h"

#include "proc/inlets_rig.h"

#include <dirent.h>
#include <sys/resource.h>

#define LINK_BYTES 64
#define TRIES 200 /* starts, at most, until one of them is in a prebuilt sandbox */
#define USED 3
#define FLOODER \
        56000 /* the first of a thousand users, because tests that run at the same time must have different ones */
#define IN_FLIGHT 100

/* ---- prebuilt sandboxes, and networks that are used again ---- */

/* Skips the test where keepers are forked, because there are no prebuilt sandboxes then. */
static void prebuilt_or_skip(void)
{
        shell_or_skip();
        const char *asked = getenv("FARHAND_FORK_KEEPER");
        bool has_none = asked && strcmp(asked, "1") == 0;
        if (!has_none && !IS_ASAN)
                return;
        print_message("skipped: keepers are forked\n");
        skip();
}

/* Returns the pid of a child of `parent` with this name; 0: there is none yet. */
static pid_t child_find(pid_t parent, const char *name)
{
        DIR *d = opendir("/proc");
        ok(d != NULL);
        pid_t found = 0;
        for (struct dirent *e; !found && (e = readdir(d));) {
                pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
                char path[64], comm[17] = "";
                if (pid <= 0 || rigged_parent_of(pid) != parent)
                        continue;
                snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
                _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                ssize_t n = fd < 0 ? 0 : read(fd, comm, sizeof(comm) - 1);
                comm[MAX(n, 0)] = 0;
                if (strcmp(comm, name) == 0)
                        found = pid;
        }
        closedir(d);
        return found;
}

/* Waits for a prebuilt sandbox, and returns the pid of its keeper. */
static pid_t prebuilt_wait(struct rigged *b)
{
        pid_t keeper = 0;
        rig_wait(&b->rig, (keeper = child_find(b->rig.spawner_pid, "fh-prebuilt\n")) > 0 &&
                                  child_find(keeper, "fh-init\n") > 0);
        return keeper;
}

/* Runs a managed command, which tells a namespace it was in. The inlets stay open. */
static void namespace_of_managed(struct managed *t, const char *kind, char ret[LINK_BYTES])
{
        managed_start(t, arena_printf(&t->b.arena, "readlink /proc/self/ns/%s", kind));
        inlets_take(t);
        rig_wait(&t->b.rig, t->b.rig.seen[1].has_gone);
        ssize_t n = read(t->b.rig.out[0], ret, LINK_BYTES - 1);
        ok(n > 0 && ret[n - 1] == '\n');
        ret[n - 1] = 0;
}

TEST_AS_BOTH(a_managed_command_gets_the_prebuilt_sandbox)
{
        prebuilt_or_skip();
        struct managed t;
        managed_open(&t);
        t.b.rig.inlets = NULL;
        eq_int(rigged_run(&t.b, "true"), 0);
        t.b.rig.inlets = &usual;
        size_t used = 0;
        for (size_t n = 0; used < USED && n < TRIES; n++) {
                pid_t prebuilt = prebuilt_wait(&t.b);
                managed_start(&t, "echo up; exec sleep 1000");
                rigged_wait_text(&t.b, 1, "up\n");
                used += rigged_parent_of(rigged_parent_of(t.b.rig.seen[1].pid)) == prebuilt;
                inlets_take(&t);
                spawn_kill(t.b.rig.s, 1);
                managed_end(&t);
                (void)prebuilt_wait(&t.b);
                talk(&t);
        }
        eq_int(used, USED);
        rigged_close(&t.b);
}

TEST(a_prebuilt_sandbox_whose_inlets_fail_runs_no_command)
{
        prebuilt_or_skip();
        struct managed t;
        managed_open(&t);
        static const struct inlets twice = { 2, { TWICE, TWICE } };
        for (int n = 0; n < 5; n++) {
                t.b.rig.inlets = NULL;
                eq_int(rigged_run(&t.b, "true"), 0);
                (void)prebuilt_wait(&t.b);
                t.b.rig.inlets = &twice;
                eq_int(failed_as(&t, "echo must not run"), EADDRINUSE);
        }
        rigged_close(&t.b);
}

/* As long as somebody has a socket of a network, no other command gets that network. Once all are closed, and nothing was sent, the
 * network is as good as new, and the same addresses are free. */
TEST(a_network_whose_inlets_are_open_is_not_used_again)
{
        prebuilt_or_skip();
        struct managed t;
        managed_open(&t);
        char open[LINK_BYTES], later[LINK_BYTES];
        namespace_of_managed(&t, "net", open);
        struct managed first = t;
        t.socket = -1;
        t.taken = 0;
        for (int n = 0; n < 6; n++) {
                (void)prebuilt_wait(&t.b);
                namespace_of_managed(&t, "net", later);
                ok(strcmp(open, later) != 0);
                inlets_close(&t);
        }
        inlets_close(&first);

        char seen[TRIES][LINK_BYTES];
        size_t again = 0;
        for (size_t n = 0; again < USED && n < TRIES; n++) {
                namespace_of_managed(&t, "net", seen[n]);
                inlets_close(&t);
                (void)prebuilt_wait(&t.b);
                for (size_t k = 0; k < n; k++)
                        again += strcmp(seen[k], seen[n]) == 0;
                ok(strcmp(open, seen[n]) != 0);
        }
        ok(again >= USED);
        rigged_close(&t.b);
}

/* ---- a user with too many descriptors in flight ---- */

static void flooded(UNUSED void **state)
{
        struct managed t;
        int ends[2];
        managed_open(&t);
        t.b.rig.inlets = NULL;
        eq_int(rigged_run(&t.b, "true"), 0); /* the spawner has set its limit by now */
        t.b.rig.inlets = &usual;
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        _Alignas(struct cmsghdr) char control[CMSG_SPACE(IN_FLIGHT * sizeof(int))] = { 0 };
        char byte = 0;
        struct iovec part = { &byte, 1 };
        struct msghdr m = {
                .msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)
        };
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(IN_FLIGHT * sizeof(int));
        for (size_t i = 0; i < IN_FLIGHT; i++)
                memcpy(CMSG_DATA(c) + i * sizeof(int), &ends[0], sizeof(int));
        eq_int(sendmsg(ends[0], &m, 0), 1);

        struct rlimit before, low;
        eq_int(prlimit(t.b.rig.spawner_pid, RLIMIT_NOFILE, NULL, &before), 0);
        low = before;
        low.rlim_cur = IN_FLIGHT - 1;
        eq_int(prlimit(t.b.rig.spawner_pid, RLIMIT_NOFILE, &low, NULL), 0);
        eq_int(failed_as(&t, "echo must not run"), ETOOMANYREFS);
        eq_int(read(ends[1], &byte, 1),
               1); /* there is no room for the descriptors, and the kernel closes them */
        managed_start(&t, "echo up");
        inlets_take(&t);
        managed_end(&t);
        close(ends[0]);
        close(ends[1]);
        rigged_close(&t.b);
}

/* The spawner, and with it the keeper, gets a lower limit than the server, so that the order passes, and the inlets do not. The kernel
 * does not limit root. */
TEST(inlets_that_the_kernel_does_not_pass_on_end_the_start)
{
        rigged_or_skip();
        if (geteuid() == 0)
                run_as(FLOODER + (uid_t)getpid() % 1000, "flooded", flooded);
        else
                flooded(NULL);
}
