/* mount_table: reads the table of mounts. The text is that of proc_pid_mountinfo(5):
 *
 *     36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue
 *     id parent device root point options [optional fields] - type source options
 *
 * Blanks, tabs, line feeds and backslashes in paths are octal escapes.
 */
#include "plan/mount_table.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "plan/mount_escape.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#define TABLE "/proc/self/mountinfo"

/* ---- parsing a line ---- */

static bool take_number(struct slice text, uint64_t *ret)
{
        uint64_t n = 0;
        for (size_t i = 0; i < text.n; i++) {
                if (text.p[i] < '0' || text.p[i] > '9' || n > UINT32_MAX)
                        return false;
                n = n * 10 + (uint64_t)(text.p[i] - '0');
        }
        *ret = n;
        return text.n > 0;
}

static bool take_device(struct slice text, uint64_t *ret)
{
        uint64_t high, low;
        struct slice rest = text, first = slice_split(&rest, ':');
        if (!rest.p || !take_number(first, &high) || !take_number(rest, &low))
                return false;
        *ret = makedev((unsigned)high, (unsigned)low);
        return true;
}

static struct slice unescaped(struct slice text)
{
        char *at = (char *)(uintptr_t)text.p;
        return slice_from(at, mount_unescape(at, text.n));
}

/* Returns MOUNT_KERNEL for file systems whose files are an interface of the kernel: writing one makes the kernel do something. */
static enum mount_kind kind_of(struct slice type)
{
        static const char *const types[] = {
                "sysfs",      "cgroup",      "cgroup2",    "debugfs",    "tracefs",    "securityfs",
                "configfs",   "bpf",         "pstore",     "efivarfs",   "fusectl",    "mqueue",
                "devtmpfs",   "devpts",      "hugetlbfs",  "nfsd",       "resctrl",    "binfmt_misc",
                "selinuxfs",  "smackfs",     "cpuset",     "rpc_pipefs", "functionfs", "xenfs",
                "binder",     "ocfs2_dlmfs", "openpromfs", "oprofilefs", "gadgetfs",   "ibmasmfs",
                "s390_hypfs", "spufs",       "usbfs",
        };
        if (slice_eq(type, S("proc")))
                return MOUNT_PROCESSES;
        for (size_t i = 0; i < ARRAY_LEN(types); i++)
                if (slice_eq(type, slice_from_str(types[i])))
                        return MOUNT_KERNEL;
        return MOUNT_FILES;
}

static bool line_parse(struct slice line, struct mount_entry *ret)
{
        enum { ID, PARENT, DEVICE, ROOT, POINT, FIELDS };
        struct slice fields[FIELDS], field = { NULL, 0 };
        for (size_t i = 0; i < FIELDS; i++) {
                if (!line.p)
                        return false;
                fields[i] = slice_split(&line, ' ');
        }
        /* Skips options and optional fields, up to the dash before the type. */
        while (line.p && !slice_eq(field, S("-")))
                field = slice_split(&line, ' ');
        if (!line.p)
                return false;
        *ret = (struct mount_entry){ .kind = kind_of(slice_split(&line, ' ')),
                                     .root = unescaped(fields[ROOT]),
                                     .point = unescaped(fields[POINT]) };
        return take_number(fields[ID], &ret->id) && take_device(fields[DEVICE], &ret->dev) &&
               ret->root.n > 0 && ret->point.n > 0 && ret->point.p[0] == '/';
}

/* ---- parsing a table ---- */

static int by_id(const void *a, const void *b)
{
        const struct mount_entry *x = a, *y = b;
        return (x->id > y->id) - (x->id < y->id);
}

static int by_device(const void *a, const void *b)
{
        const struct mount_entry *x = a, *y = b;
        return (x->dev > y->dev) - (x->dev < y->dev);
}

static void twins_note(struct mount_table *t)
{
        qsort(t->list, t->count, sizeof(*t->list), by_device);
        for (size_t i = 1; i < t->count; i++)
                if (t->list[i].dev == t->list[i - 1].dev)
                        t->list[i].has_twin = t->list[i - 1].has_twin = true;
        qsort(t->list, t->count, sizeof(*t->list), by_id);
}

int mount_table_parse(struct slice text, struct mount_table **ret)
{
        size_t lines = 0;
        for (size_t i = 0; i < text.n; i++)
                lines += text.p[i] == '\n';
        _mount_table_ struct mount_table *t = mem_new(struct mount_table);
        atomic_init(&t->refs, 1);
        t->text = mem_alloc(text.n + 1);
        memcpy(t->text, text.p, text.n);
        t->list = mem_alloc((lines + 1) * sizeof(*t->list));
        for (struct slice rest = slice_from(t->text, text.n); rest.p && rest.n > 0;) {
                struct slice line = slice_split(&rest, '\n');
                if (t->count > lines || !line_parse(line, &t->list[t->count]))
                        return -EBADMSG;
                const struct mount_entry *e = &t->list[t->count++];
                t->has_other_proc |= e->kind == MOUNT_PROCESSES && !slice_eq(e->point, S("/proc"));
        }
        if (t->count > 0)
                twins_note(t);
        *ret = TAKE(t);
        return 0;
}

struct mount_table *mount_table_unref(struct mount_table *t)
{
        if (t && atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) == 1) {
                free(t->list);
                free(t->text);
                free(t);
        }
        return NULL;
}

const struct mount_entry *mount_table_find(const struct mount_table *t, uint64_t id)
{
        const struct mount_entry key = { .id = id };
        return t->count ? bsearch(&key, t->list, t->count, sizeof(key), by_id) : NULL;
}

/* ---- the current table ---- */

struct mount_tables {
        pthread_mutex_t lock;
        int fd; /* polled for changes of the table; -1: it could not be opened */
        struct mount_table *now;
};

struct mount_tables *mount_tables_new(void)
{
        struct mount_tables *m = mem_new(struct mount_tables);
        must(pthread_mutex_init(&m->lock, NULL) == 0);
        m->fd = open(TABLE, O_RDONLY | O_CLOEXEC);
        return m;
}

struct mount_tables *mount_tables_free(struct mount_tables *m)
{
        if (!m)
                return NULL;
        (void)mount_table_unref(m->now);
        fd_close(m->fd);
        (void)pthread_mutex_destroy(&m->lock);
        free(m);
        return NULL;
}

/* The kernel reports a change once to each descriptor. The caller asks before it reads the table, so that no change is missed. */
static bool has_changed(const struct mount_tables *m)
{
        struct pollfd p = { .fd = m->fd, .events = POLLPRI };
        return m->fd < 0 || poll(&p, 1, 0) != 0;
}

static int table_read(struct mount_table **ret)
{
        _buf_ struct buf text = BUF_INIT(MOUNT_TABLE_BYTES_MAX);
        int r = fd_read_file(TABLE, MOUNT_TABLE_BYTES_MAX, &text);
        return r < 0 ? r : mount_table_parse(buf_slice(&text), ret);
}

int mount_tables_get(struct mount_tables *m, struct mount_table **ret, struct err *err)
{
        int r = 0;
        pthread_mutex_lock(&m->lock);
        if (has_changed(m) || !m->now) {
                m->now = mount_table_unref(m->now);
                r = table_read(&m->now);
        }
        if (r == 0) {
                atomic_fetch_add_explicit(&m->now->refs, 1, memory_order_relaxed);
                *ret = m->now;
        }
        pthread_mutex_unlock(&m->lock);
        if (r == 0)
                return 0;
        err->step = "mounts";
        err->os_errno = -r;
        return err_set(err, 0, r, "%s: %s", TABLE, errno_text(r));
}
