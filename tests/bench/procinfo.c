/* procinfo: finds the processes of a server in /proc, and their CPU time and memory. */
#include "procinfo.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FILE_MAX (4 * 1024 * 1024)

/* --- family ------------------------------------------------------------------------------------------------------- */

struct parentage {
        pid_t pid, parent;
};

static int read_proc(pid_t pid, const char *name, struct buf *ret)
{
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
        return fd_read_file(path, FILE_MAX, ret);
}

/* Finds the parent of a process. Returns 0, or -errno: -ESRCH when the process has gone meanwhile. */
static int parent_of(pid_t pid, pid_t *ret)
{
        _buf_ struct buf text = BUF_INIT(FILE_MAX);
        int parent;
        const char *rest = read_proc(pid, "stat", &text) < 0 ? NULL : strrchr(text.p, ')');
        if (!rest || sscanf(rest + 1, " %*c %d", &parent) != 1)
                return -ESRCH;
        *ret = (pid_t)parent;
        return 0;
}

static size_t parentages(struct parentage *all, size_t max)
{
        DIR *dir = opendir("/proc");
        size_t n = 0;
        for (struct dirent *e; dir && n < max && (e = readdir(dir));) {
                uint64_t pid;
                if (slice_to_u64(slice_from_str(e->d_name), INT32_MAX, &pid) < 0)
                        continue;
                all[n].pid = (pid_t)pid;
                if (parent_of(all[n].pid, &all[n].parent) == 0)
                        n++;
        }
        if (dir)
                closedir(dir);
        return n;
}

static bool runs_same(pid_t a, pid_t b)
{
        char path_a[64], path_b[64];
        struct stat st_a, st_b;
        snprintf(path_a, sizeof(path_a), "/proc/%d/exe", (int)a);
        snprintf(path_b, sizeof(path_b), "/proc/%d/exe", (int)b);
        return stat(path_a, &st_a) == 0 && stat(path_b, &st_b) == 0 && st_a.st_dev == st_b.st_dev &&
               st_a.st_ino == st_b.st_ino;
}

static bool has(const struct family *f, pid_t pid)
{
        for (size_t i = 0; i < f->n; i++)
                if (f->pids[i] == pid)
                        return true;
        return false;
}

int family_find(pid_t server, struct family *ret, struct err *err)
{
        const size_t max = 32768;
        _free_ struct parentage *all = mem_alloc(max * sizeof(*all));
        size_t count = parentages(all, max), before;
        *ret = (struct family){ .n = 1, .pids = { server } };
        /* A server's children are its own executable all the way down; the command is a leaf. */
        do {
                before = ret->n;
                for (size_t i = 0; i < count && ret->n < FAMILY_MAX; i++)
                        if (has(ret, all[i].parent) && !has(ret, all[i].pid) && runs_same(all[i].pid, server))
                                ret->pids[ret->n++] = all[i].pid;
        } while (ret->n > before);
        if (ret->n == FAMILY_MAX)
                return err_set(err, 0, -E2BIG, "more than %d processes", FAMILY_MAX);
        return 0;
}

/* --- CPU ---------------------------------------------------------------------------------------------------------- */

static double clock_s(clockid_t clock)
{
        struct timespec ts;
        return clock_gettime(clock, &ts) < 0 ? 0 : (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

double family_cpu_s(const struct family *f)
{
        double sum = 0;
        for (size_t i = 0; i < f->n; i++) {
                clockid_t clock;
                /* utime + stime of all its threads, as in /proc/PID/stat, but not in ticks of 10 ms. */
                if (clock_getcpuclockid(f->pids[i], &clock) == 0)
                        sum += clock_s(clock);
        }
        return sum;
}

double own_cpu_s(void)
{
        return clock_s(CLOCK_PROCESS_CPUTIME_ID);
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

/* Reads the number of a line "Name:  123 kB" of a file. */
static int read_kib(pid_t pid, const char *file, const char *name, uint64_t *ret)
{
        _buf_ struct buf text = BUF_INIT(FILE_MAX);
        int r = read_proc(pid, file, &text);
        if (r < 0)
                return r;
        const char *line = strstr(text.p, name);
        if (!line)
                return -ENODATA;
        *ret = strtoull(line + strlen(name), NULL, 10);
        return 0;
}

static bool looks_same(pid_t a, pid_t b)
{
        _buf_ struct buf map_a = BUF_INIT(FILE_MAX), map_b = BUF_INIT(FILE_MAX);
        uint64_t rss_a, rss_b;
        return read_proc(a, "maps", &map_a) == 0 && read_proc(b, "maps", &map_b) == 0 &&
               slice_eq(buf_slice(&map_a), buf_slice(&map_b)) &&
               read_kib(a, "status", "VmRSS:", &rss_a) == 0 && read_kib(b, "status", "VmRSS:", &rss_b) == 0 &&
               rss_a == rss_b;
}

static bool shares_memory(pid_t a, pid_t b)
{
        long r = syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
        return r < 0 ? looks_same(a, b) : r == 0;
}

int family_pss_bytes(const struct family *f, double *ret, struct err *err)
{
        double sum = 0;
        for (size_t i = 0; i < f->n; i++) {
                bool is_counted = false;
                /* Keepers share the memory of the server, or of its first child, which is the spawner. */
                for (size_t k = 0; k < MIN(i, 2) && !is_counted; k++)
                        is_counted = shares_memory(f->pids[i], f->pids[k]);
                if (is_counted)
                        continue;
                uint64_t kib;
                int r = read_kib(f->pids[i], "smaps_rollup", "\nPss:", &kib);
                if (r == -ESRCH || r == -ENOENT)
                        continue; /* the process has gone meanwhile */
                if (r < 0)
                        return err_set(err, 0, r, "/proc/%d/smaps_rollup: %s", (int)f->pids[i],
                                       errno_text(r));
                sum += (double)kib * 1024;
        }
        *ret = sum;
        return 0;
}

int family_peak_reset(const struct family *f, struct err *err)
{
        for (size_t i = 0; i < f->n; i++) {
                char path[64];
                snprintf(path, sizeof(path), "/proc/%d/clear_refs", (int)f->pids[i]);
                _close_ int fd = open(path, O_WRONLY | O_CLOEXEC);
                int r = fd < 0 ? -errno : fd_write_all(fd, S("5"));
                if (r < 0)
                        return err_set(err, 0, r, "%s: %s", path, errno_text(r));
        }
        return 0;
}

int family_peak_bytes(const struct family *f, double *ret, struct err *err)
{
        double sum = 0;
        for (size_t i = 0; i < f->n; i++) {
                uint64_t kib;
                int r = read_kib(f->pids[i], "status", "VmHWM:", &kib);
                if (r < 0)
                        return err_set(err, 0, r, "/proc/%d/status: %s", (int)f->pids[i], errno_text(r));
                sum += (double)kib * 1024;
        }
        *ret = sum;
        return 0;
}
