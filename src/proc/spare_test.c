/* Namespaces made ahead: who gets them, that nobody gets them twice, and that starts do without. */
#include "unit.h"

#include "proc/box_rig.h"

#include <dirent.h>

#define LINK_BYTES 64
#define TRIES 200 /* starts until one has found a spare that was ready */
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

/* The spawner's, or 0. */
static pid_t spare_find(const struct boxed *b)
{
        DIR *dir = opendir("/proc");
        ok(dir != NULL);
        pid_t found = 0;
        for (struct dirent *d; !found && (d = readdir(dir));) {
                char path[64], text[16] = "";
                pid_t pid = (pid_t)strtol(d->d_name, NULL, 10);
                if (pid <= 0 || boxed_parent_of(pid) != b->rig.spawner_pid)
                        continue;
                snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
                _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
                if (fd >= 0 && read(fd, text, sizeof(text) - 1) > 0 && strcmp(text, "fh-spare\n") == 0)
                        found = pid;
        }
        closedir(dir);
        return found;
}

static void net_of(pid_t pid, char ret[LINK_BYTES])
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
        ssize_t n = pid > 0 ? readlink(path, ret, LINK_BYTES - 1) : 0;
        ret[MAX(n, 0)] = 0;
}

TEST(a_spare_is_the_next_commands_and_nobody_elses)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        char seen[TRIES][LINK_BYTES];
        size_t used = 0, n = 0;
        for (; used < USED && n < TRIES; n++) {
                char spare[LINK_BYTES];
                net_of(spare_find(&b), spare);
                eq_int(boxed_run(&b, "readlink /proc/self/ns/net"), 0);
                snprintf(seen[n], LINK_BYTES, "%.*s", (int)strcspn(b.out, "\n"), b.out);
                used += strcmp(seen[n], spare) == 0;
                for (size_t k = 0; k < n; k++)
                        ok(strcmp(seen[k], seen[n]) != 0);
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

                                     "grep -c -m1 127.0.0.1 /proc/net/fib_trie"),
                       0);
                ok(strstr(b.out, "lo\nCapPrm:\t0000000000000000\n1\n") != NULL);
        }
        boxed_close(&b);
}

TEST(who_finds_the_spare_killed_makes_its_own)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        for (int n = 0; n < 20; n++) {
                pid_t spare = spare_find(&b);
                if (spare > 0)
                        eq_int(kill(spare, SIGKILL), 0);
                eq_int(boxed_run(&b, "echo up"), 0);
                eq_str(b.out, "up\n");
        }
        boxed_close(&b);
}

TEST(a_spare_goes_with_the_spawner)
{
        spares_need();
        struct boxed b;
        boxed_open_workspace(&b);
        pid_t spare = 0;
        for (int n = 0; n < TRIES && spare == 0; n++) {
                eq_int(boxed_run(&b, "true"), 0);
                spare = spare_find(&b);
        }
        ok(spare > 0);
        eq_int(kill(b.rig.spawner_pid, SIGKILL), 0);
        rig_wait(&b.rig, b.rig.is_lost);
        uint64_t give_up = clock_mono_ms() + RIG_PATIENCE_MS;
        char net[LINK_BYTES]; /* of a zombie there is none */
        do {
                rig_turn(&b.rig, 5);
                net_of(spare, net);
        } while (net[0] && clock_mono_ms() < give_up);
        eq_str(net, "");
        boxed_close(&b);
}
