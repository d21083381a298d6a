/* cgroup_leaf: what a keeper does with its leaf; see cgroup.h. Raw system calls only. */
#include "proc/cgroup.h"

#include "base/sys.h"

#include <errno.h>

#define EVENTS_BYTES 512
#define LEAF_NAME_BYTES 21

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

/* The bytes behind "key " when the line begins so, else NULL. */
static const char *value_find(const char *line, const char *key)
{
        while (*key)
                if (*line++ != *key++)
                        return NULL;
        return *line == ' ' ? line + 1 : NULL;
}

/* Whether a file of lines "key number" has a number that is not 0 for this key. */
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

static const char *leaf_name(char room[LEAF_NAME_BYTES], uint64_t leaf)
{
        size_t n = LEAF_NAME_BYTES;
        room[--n] = 0;
        do {
                room[--n] = (char)('0' + leaf % 10);
                leaf /= 10;
        } while (leaf > 0);
        return room + n;
}

/* What is not empty yet stays for the next server, which knows it by its name. */
void cgroup_leaf_abandon(const struct cgroup *c, uint64_t leaf)
{
        char room[LEAF_NAME_BYTES];
        (void)sys_rmdirat(c->home, leaf_name(room, leaf));
        if (c->ready)
                (void)sys_rmdirat(c->home, leaf_name(room, c->ready));
        (void)sys_rmdirat(c->base, c->name);
}
