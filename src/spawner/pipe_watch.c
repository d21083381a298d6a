/* pipe_watch: the page that the loop writes and the spawner reads, and what /proc says of the loop's sleep (pipe_watch.h). */
#include "spawner/pipe_watch.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define FLAG_EXITING 0x4 /* PF_EXITING: set before the kernel closes the descriptors of the process */
#define FLAGS_FIELD 6    /* index of a field of /proc/PID/stat, where the state has index 0 */

static struct pipe_watch unshared; /* for programs without a spawner */
struct pipe_watch *pipe_watch = &unshared;

int pipe_watch_open(void)
{
        if (pipe_watch != &unshared)
                return 0;
        void *page =
                mmap(NULL, sizeof(*pipe_watch), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (page == MAP_FAILED)
                return -errno;
        pipe_watch = page;
        return 0;
}

int pipe_watch_close(uint32_t number, int fd)
{
        pipe_watch_begin(number);
        (void)fd_close(fd);
        pipe_watch_end();
        return -1;
}

struct pipe_call pipe_watch_look(void)
{
        uint64_t now = atomic_load_explicit(&pipe_watch->now, memory_order_acquire);
        uint32_t count = (uint32_t)(now >> 32);
        return (struct pipe_call){ .count = count, .number = (uint32_t)now, .is_under_way = count & 1 };
}

/* ---- reading /proc ---- */

bool pipe_watch_has_proc(void)
{
        char self[16], link[16];
        ssize_t n = readlink("/proc/self", link, sizeof(link) - 1);
        if (n <= 0)
                return false;
        link[n] = 0;
        (void)snprintf(self, sizeof(self), "%d", (int)getpid());
        return strcmp(self, link) == 0;
}

/* Judges by the name of the kernel function that the thread sleeps in: `pipe_read`, `anon_pipe_write`, `tty_lock` … The kernel
 * tells no name when the text is empty or "0". */
static enum pipe_sleep sleep_at(const char *wchan)
{
        return wchan && (strstr(wchan, "pipe") || strstr(wchan, "tty")) ? PIPE_LOCKED : PIPE_MAYBE;
}

struct pipe_sleeper pipe_watch_judge(const char *stat, const char *wchan)
{
        const struct pipe_sleeper unknown = { .sleep = PIPE_MAYBE };
        const char *at = stat ? strrchr(stat, ')') : NULL; /* the name of the process may contain a `)` */
        if (!at || at[1] != ' ' || at[2] == 0)
                return unknown;
        at += 2;
        char state = *at;
        for (int field = 0; field < FLAGS_FIELD; field++) {
                at = strchr(at, ' ');
                if (!at)
                        return unknown;
                at++;
        }
        unsigned long flags = strtoul(at, NULL, 10);
        bool is_ending = state == 'Z' || state == 'X' || (flags & FLAG_EXITING);
        return (struct pipe_sleeper){ .sleep = state == 'D' ? sleep_at(wchan) : PIPE_NO_SLEEP,
                                      .is_ending = is_ending };
}

static const char *text_read(pid_t pid, const char *name, char *room, size_t size)
{
        char path[64];
        (void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        _close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t n = fd < 0 ? -1 : read(fd, room, size - 1);
        if (n < 0)
                return NULL;
        room[n] = 0;
        return room;
}

struct pipe_sleeper pipe_watch_ask(pid_t pid, bool has_proc)
{
        char stat[512], wchan[128];
        if (!has_proc)
                return (struct pipe_sleeper){ .sleep = PIPE_MAYBE };
        const char *first = text_read(pid, "stat", stat, sizeof(stat));
        struct pipe_sleeper found = pipe_watch_judge(first, NULL);
        if (found.sleep == PIPE_NO_SLEEP)
                return found;
        return pipe_watch_judge(first, text_read(pid, "wchan", wchan, sizeof(wchan)));
}
