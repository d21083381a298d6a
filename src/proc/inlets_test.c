/* inlets_test: the inlets of a command (keeper/inlets.h): that they come before the command runs, in its own network and with each
 * way of making a sandbox; that no process of the sandbox has them; and what a start does that cannot make or send them. */
#include "unit.h"

#include "base/fatal.h"
#include "keeper/broker_start.h"
#include "proc/inlets_rig.h"

#include <dirent.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>

#define LINK_BYTES 64

TEST_AS_BOTH(what_a_command_connects_to_is_accepted_outside)
{
        shell_or_skip();
        struct managed t;
        managed_open(&t);
        for (int n = 0; n < 3; n++)
                talk(&t);
        rigged_close(&t.b);
}

/* ---- no process of the sandbox has them ---- */

static bool has_socket(const char *dir, uint64_t inode)
{
        char wanted[LINK_BYTES], path[400], seen[LINK_BYTES] = "";
        snprintf(wanted, sizeof(wanted), "socket:[%lu]", (unsigned long)inode);
        DIR *d = opendir(dir);
        bool found = false;
        for (struct dirent *e; d && !found && (e = readdir(d));) {
                snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
                ssize_t n = readlink(path, seen, sizeof(seen) - 1);
                seen[MAX(n, 0)] = 0;
                found = strcmp(seen, wanted) == 0;
        }
        if (d)
                closedir(d);
        return found;
}

/* Returns how many processes below `above` were looked at, itself included. None may have one of the sockets. */
static size_t look_below(const struct managed *t, pid_t above)
{
        char dir[64];
        size_t count = 1;
        snprintf(dir, sizeof(dir), "/proc/%d/fd", (int)above);
        for (uint32_t i = 0; i <= t->taken; i++) {
                struct stat st;
                eq_int(fstat(i < t->taken ? t->fds[i] : t->b.rig.inlet_socket, &st), 0);
                if (has_socket(dir, st.st_ino))
                        fail_msg("process %d has inlet %u", (int)above, i);
        }
        DIR *d = opendir("/proc");
        ok(d != NULL);
        for (struct dirent *e; (e = readdir(d));) {
                pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
                if (pid > 0 && rigged_parent_of(pid) == above)
                        count += look_below(t, pid);
        }
        closedir(d);
        return count;
}

static void stays_outside(struct managed *t)
{
        t->b.rig.seen[1] = (struct rig_seen){ 0 };
        pair_open(t);
        rigged_start(&t->b, 1, "sleep 1000 & echo up; wait");
        rigged_wait_text(&t->b, 1, "up\n");
        inlets_take(t);
        ok(look_below(t, t->b.rig.spawner_pid) >= 4);
        close(t->b.rig.inlet_socket);
        spawn_kill(t->b.rig.s, 1);
        managed_end(t);
}

TEST_AS_BOTH(no_process_of_the_sandbox_has_an_inlet)
{
        rigged_or_skip();
        struct managed t;
        managed_open(&t);
        for (int n = 0; n < 3; n++)
                stays_outside(&t);
        rigged_close(&t.b);
}

/* ---- starts that fail ---- */

/* No command runs without its inlets, and nothing of a start that has failed is left. */
static void fails_without_inlets(struct managed *t)
{
        static const struct inlets none_such = { 2, { TWICE, { INLET_TCP, 0, INADDR_LOOPBACK } } },
                                   unknown = { 1, { { INLET_UDP + 1, 53, INADDR_LOOPBACK } } },
                                   twice = { 3, { { INLET_UDP, 53, INADDR_ANY }, TWICE, TWICE } },
                                   elsewhere = { 1, { { INLET_UDP, 53, 0xC0000201 } } };
        size_t before = fds_now(), spawners = rig_count_fds(t->b.rig.spawner_pid);
        t->b.rig.inlets = &none_such;
        eq_int(failed_as(t, "echo must not run"), EINVAL);
        t->b.rig.inlets = &unknown;
        eq_int(failed_as(t, "echo must not run"), EINVAL);
        t->b.rig.inlets = &twice;
        eq_int(failed_as(t, "echo must not run"), EADDRINUSE);
        t->b.rig.inlets = &elsewhere;
        eq_int(failed_as(t, "echo must not run"), EADDRNOTAVAIL);
        t->b.rig.inlets = &usual;
        pair_open(t);
        eq_int(shutdown(t->socket, SHUT_RDWR), 0); /* nobody will take them */
        eq_int(failed_as(t, "echo must not run"), EPIPE);
        eq_int(fds_now(), before);
        eq_int(rig_count_fds(t->b.rig.spawner_pid), spawners);
}

TEST_AS_BOTH(without_inlets_no_command_runs)
{
        rigged_or_skip();
        struct managed t;
        managed_open(&t);
        t.b.rig.session = 0; /* a prebuilt sandbox would have descriptors in the spawner */
        t.b.rig.inlets = NULL;
        eq_int(rigged_run(&t.b, "true"), 0);
        fails_without_inlets(&t);
        talk(&t);
        rigged_close(&t.b);
}

TEST(inlets_that_cannot_be_sent_for_too_long_end_the_start)
{
        rigged_or_skip();
        struct managed t;
        managed_open(&t);
        pair_open(&t);
        char byte = 0;
        while (send(t.b.rig.inlet_socket, &byte, 1, MSG_DONTWAIT) == 1)
                continue;
        eq_int(failed_as(&t, "echo must not run"), EAGAIN);
        rigged_close(&t.b);
}

TEST(inlets_need_a_sandbox_with_a_network_of_its_own)
{
        rigged_or_skip();
        struct managed t;
        managed_open(&t);
        t.b.has_network = true;
        eq_int(failed_as(&t, "echo must not run"), ENOTSUP);
        t.b.has_network = false;
        if (landlock_abi() > 0) {
                t.b.backend = BACKEND_LANDLOCK;
                eq_int(failed_as(&t, "echo must not run"), ENOTSUP);
        }
        t.b.rig.has_image = false;
        pair_open(&t);
        t.b.rig.seen[1] = (struct rig_seen){ 0 };
        rig_start_sh(&t.b.rig, 1, "echo must not run");
        close(t.b.rig.inlet_socket);
        rig_wait(&t.b.rig, t.b.rig.seen[1].has_gone);
        ok(t.b.rig.seen[1].has_failed);
        eq_str(t.b.rig.seen[1].step, "network");
        eq_int(t.b.rig.seen[1].os_errno, ENOTSUP);
        inlets_close(&t);
        rigged_close(&t.b);
}

/* ---- each way of making a sandbox ---- */

TEST_AS_BOTH(inlets_are_made_with_bubblewrap)
{
        struct bwrap bwrap;
        struct err err = ERR_INIT;
        shell_or_skip();
        if (bwrap_find("/usr/local/bin:/usr/bin:/bin", S("/"), &bwrap, &err) < 0 ||
            bwrap_test(&bwrap, &err) < 0 || bwrap.finish_errno != 0) {
                print_message("skipped: %s\n", bwrap.finish_errno ? "views are not finished" : err.text);
                skip();
        }
        struct managed t;
        managed_open(&t);
        t.b.backend = BACKEND_BUBBLEWRAP;
        t.b.bwrap = &bwrap;
        talk(&t);
        stays_outside(&t);
        fails_without_inlets(&t);
        rigged_close(&t.b);
        bwrap_release(&bwrap);
}

/* As root there is no user namespace then. */
TEST_AS_BOTH(a_command_that_loses_nothing_but_the_network_can_have_inlets)
{
        shell_or_skip();
        struct managed t;
        managed_open(&t);
        t.b.count = 0;
        t.b.rig.session = 0; /* a prebuilt sandbox would have descriptors in the spawner */
        talk(&t);
        talk(&t);
        stays_outside(&t);
        fails_without_inlets(&t);
        rigged_close(&t.b);
}

/* Lets every program run. */
static void *broker(void *arg)
{
        struct broker_start *given = arg, b = *given;
        free(given);
        for (;;) {
                struct seccomp_notif n = { 0 };
                struct pollfd p = { .fd = b.listener, .events = POLLIN };
                if (poll(&p, 1, -1) < 0 || !(p.revents & POLLIN))
                        break;
                if (ioctl(b.listener, SECCOMP_IOCTL_NOTIF_RECV, &n) < 0)
                        continue;
                struct seccomp_notif_resp r = { .id = n.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE };
                (void)ioctl(b.listener, SECCOMP_IOCTL_NOTIF_SEND, &r);
        }
        close(b.config);
        close(b.listener);
        close(b.socket);
        return NULL;
}

TEST_AS_BOTH(an_intercepted_command_in_a_cgroup_can_have_inlets)
{
        skip_in_valgrind("knows no listener");
        shell_or_skip();
        struct managed t;
        int ends[2];
        spawn_set_broker(broker);
        managed_open(&t);
        eq_int(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        t.b.rig.socket = ends[0];
        t.b.rig.config = memfd_create("config", MFD_CLOEXEC);
        t.b.rig.is_intercepted = t.b.rig.wants_cgroup = true;
        talk(&t);
        talk(&t);
        close(ends[0]);
        close(ends[1]);
        close(t.b.rig.config);
        rigged_close(&t.b);
}
