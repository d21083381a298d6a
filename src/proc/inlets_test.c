/* inlets_test: the inlets of a command (keeper/inlets.h): that they come before the command runs, in its own network and with each
 * way of making a sandbox; that no process of the sandbox has them; and what a start does that cannot make or send them. */
#include "unit.h"

#include "base/fatal.h"
#include "keeper/broker_start.h"
#include "proc/inlet_sockets.h"
#include "proc/sandboxed_rig.h"

#include <dirent.h>
#include <grp.h>
#include <netinet/in.h>
#include <sys/resource.h>

#define STRANGER 58342 /* a user that owns nothing */
#define LINK_BYTES 64
#define TRIES 200 /* starts, at most, until one of them is in a prebuilt sandbox */
#define USED 3

/* The network of a managed command: two proxies, names, and a port on all addresses. */
static const struct inlets usual = { .count = 5,
                                     .list = {
                                             { INLET_TCP, 3128, INADDR_LOOPBACK },
                                             { INLET_TCP, 1080, INADDR_LOOPBACK },
                                             { INLET_UDP, 53, INADDR_LOOPBACK },
                                             { INLET_TCP, 53, INADDR_LOOPBACK },
                                             { INLET_TCP, 443, INADDR_ANY },
                                     } };
enum { HTTP, SOCKS, NAMES_UDP, NAMES_TCP, PORT };

struct managed {
        struct rigged b;
        int socket; /* the test's end */
        int fds[INLETS_MAX];
        uint32_t taken;
};

/* ---- the rig ---- */

static void managed_open(struct managed *t)
{
        *t = (struct managed){ .socket = -1 };
        rigged_open_workspace(&t->b);
        t->b.rig.inlets = &usual;
}

static void pair_open(struct managed *t)
{
        int ends[2];
        eq_int(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
        t->socket = ends[0];
        t->b.rig.inlet_socket = ends[1];
}

/* Starts a script as command 1, with inlets. */
static void managed_start(struct managed *t, const char *script)
{
        t->b.rig.seen[1] = (struct rig_seen){ 0 };
        if (t->socket < 0)
                pair_open(t);
        rigged_start(&t->b, 1, script);
        close(t->b.rig.inlet_socket);
}

static void inlets_take(struct managed *t)
{
        int r = -EAGAIN;
        rig_wait(&t->b.rig, t->b.rig.seen[1].has_failed || t->b.rig.seen[1].has_gone ||
                                    (r = inlet_sockets_take(t->socket, t->b.rig.inlets, t->fds)) != -EAGAIN);
        if (t->b.rig.seen[1].has_failed)
                fail_msg("start failed at %s: %s", t->b.rig.seen[1].step,
                         strerror(t->b.rig.seen[1].os_errno));
        if (r == -EAGAIN)
                r = inlet_sockets_take(t->socket, t->b.rig.inlets, t->fds);
        eq_int(r, 0);
        t->taken = t->b.rig.inlets->count;
}

static void inlets_close(struct managed *t)
{
        for (uint32_t i = 0; i < t->taken; i++)
                close(t->fds[i]);
        t->taken = 0;
        close(t->socket);
        t->socket = -1;
}

static void managed_end(struct managed *t)
{
        rig_wait(&t->b.rig, t->b.rig.seen[1].has_gone);
        inlets_close(t);
}

/* Waits until there is something to take from a socket, and takes it with the call `take`. */
static int with_patience(struct rig *rig, int fd, int (*take)(int fd))
{
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        int r;
        while ((r = take(fd)) < 0) {
                ok(errno == EAGAIN && clock_mono_ms() < give_up);
                rig_turn(rig, 1);
        }
        return r;
}

static int take_connection(int fd)
{
        return accept4(fd, NULL, NULL, SOCK_CLOEXEC);
}

static int take_datagram(int fd)
{
        char text[16] = "";
        ssize_t n = recv(fd, text, sizeof(text) - 1, 0);
        if (n >= 0)
                eq_str(text, "who\n");
        return (int)n;
}

/* Skips the test without bash, which can open a connection. */
static void shell_or_skip(void)
{
        rigged_or_skip();
        if (access("/bin/bash", X_OK) == 0)
                return;
        print_message("skipped: no bash\n");
        skip();
}

static size_t fds_now(void)
{
        return rig_count_fds(getpid());
}

/* ---- as another user ---- */

static void run_as(uid_t uid, const char *name, void (*body)(void **state))
{
        const struct CMUnitTest one = { .name = name, .test_func = body };
        int status;
        fflush(stdout);
        pid_t pid = fork();
        ok(pid >= 0);
        if (pid == 0) {
                eq_int(setgroups(0, NULL), 0);
                eq_int(setresgid(uid, uid, uid), 0);
                eq_int(setresuid(uid, uid, uid), 0);
                eq_int(prctl(PR_SET_DUMPABLE, 1), 0); /* so that the server owns its files in /proc */
                int failed = _cmocka_run_group_tests("as a user", &one, 1, NULL, NULL);
                fflush(stdout);
                _exit(failed);
        }
        eq_int(waitpid(pid, &status, 0), pid);
        eq_int(status, 0);
}

/* A test that is run as the user of the tests, and, where that is root, as another user, too. */
#define TEST_AS_BOTH(name)                                    \
        static void name##_body(void **state);                \
        TEST(name)                                            \
        {                                                     \
                if (geteuid() == 0)                           \
                        run_as(STRANGER, #name, name##_body); \
                name##_body(NULL);                            \
        }                                                     \
        static void name##_body(UNUSED void **state)

/* ---- the inlets work ---- */

#define TALK                                                                      \
        "exec bash -c '"                                                          \
        "for at in 127.0.0.1/3128 127.0.0.1/1080 127.0.0.1/53 127.1.2.3/443; do " \
        "exec 3<>/dev/tcp/$at || exit 1; read x <&3; echo \"$at $x\"; done; "     \
        "echo who >/dev/udp/127.0.0.1/53; "                                       \
        "read a b < <(grep -c : /proc/net/dev; ) ; echo devices $a; "             \
        "exec 3<>/dev/tcp/127.0.0.1/80' 2>/dev/null"

static void answer_next(struct managed *t, int inlet, const char *text)
{
        int fd = with_patience(&t->b.rig, t->fds[inlet], take_connection);
        eq_int(write(fd, text, strlen(text)), (ssize_t)strlen(text));
        close(fd);
}

static void talk(struct managed *t)
{
        size_t before = fds_now();
        managed_start(t, TALK);
        inlets_take(t);
        answer_next(t, HTTP, "http\n");
        answer_next(t, SOCKS, "socks\n");
        answer_next(t, NAMES_TCP, "name\n");
        answer_next(t, PORT, "port\n");
        eq_int(with_patience(&t->b.rig, t->fds[NAMES_UDP], take_datagram), 4);
        struct rig_seen *seen = &t->b.rig.seen[1];
        rig_wait(&t->b.rig, seen->has_gone);
        ok(seen->has_exited);
        eq_int(seen->exit.status, 1 << 8); /* nobody listens on port 80 */
        ssize_t n = read(t->b.rig.out[0], t->b.out, sizeof(t->b.out) - 1);
        t->b.out[MAX(n, 0)] = 0;
        eq_str(t->b.out, "127.0.0.1/3128 http\n127.0.0.1/1080 socks\n127.0.0.1/53 name\n"
                         "127.1.2.3/443 port\ndevices 1\n");
        int none[INLETS_MAX];
        eq_int(inlet_sockets_take(t->socket, &usual, none), -EPIPE); /* nobody else has the other end */
        inlets_close(t);
        eq_int(fds_now(), before);
}

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
        rigged_close(&t.b);
        bwrap_release(&bwrap);
}
