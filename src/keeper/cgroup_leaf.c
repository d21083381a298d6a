/* cgroup_leaf: what a keeper does with the cgroup of its command (cgroup.h). Raw system calls only. */
#include "keeper/cgroup.h"

#include "base/sys.h"

#include <errno.h>

#define EVENTS_BYTES 512

static int text_write(int leaf, const char *name, const char *text, size_t n)
{
        int fd = sys_openat(leaf, name, O_WRONLY);
        if (fd < 0)
                return fd;
        long r = sys_write(fd, text, n);
        sys_close(fd);
        return r < 0 ? (int)r : 0;
}

int cgroup_leaf_enter(int leaf)
{
        return text_write(leaf, "cgroup.procs", "0", 1);
}

int cgroup_leaf_kill(int leaf)
{
        return text_write(leaf, "cgroup.kill", "1", 1);
}

/* Returns the bytes behind "key " when the line begins with that key, else NULL. */
static const char *value_find(const char *line, const char *key)
{
        while (*key)
                if (*line++ != *key++)
                        return NULL;
        return *line == ' ' ? line + 1 : NULL;
}

/* Returns whether a file of lines "key number" gives this key a number other than 0. */
static bool event_happened(int leaf, const char *name, const char *key)
{
        int fd = sys_openat(leaf, name, O_RDONLY);
        if (fd < 0)
                return false;
        char text[EVENTS_BYTES];
        long n = sys_read(fd, text, sizeof(text) - 1);
        sys_close(fd);
        if (n <= 0)
                return false;
        text[n] = 0;

        for (const char *line = text; *line;) {
                const char *value = value_find(line, key);
                if (value)
                        return *value >= '1' && *value <= '9';
                while (*line && *line++ != '\n')
                        continue;
        }
        return false;
}

uint32_t cgroup_leaf_events(int leaf)
{
        uint32_t seen = 0;
        if (event_happened(leaf, "memory.events", "oom_kill"))
                seen |= CGROUP_MEMORY;
        if (event_happened(leaf, "pids.events", "max"))
                seen |= CGROUP_PIDS;
        return seen;
}

struct leaf_name cgroup_leaf_name(uint64_t leaf)
{
        struct leaf_name name = { .text = "" };
        size_t n = 1;
        for (uint64_t left = leaf; left >= 10; left /= 10)
                n++;
        for (; n > 0; leaf /= 10)
                name.text[--n] = (char)('0' + leaf % 10);
        return name;
}

/* The commands of a dead spawner have to end, also those whose keepers were killed. A cgroup that is not empty yet stays for the next
 * server, which recognizes its name. */
void cgroup_leaf_abandon(const struct cgroup *c, uint64_t leaf)
{
        (void)cgroup_leaf_kill(c->home);
        (void)sys_rmdirat(c->home, cgroup_leaf_name(leaf).text);
        if (c->ready)
                (void)sys_rmdirat(c->home, cgroup_leaf_name(c->ready).text);
        (void)sys_rmdirat(c->base, c->name);
}
