/* masks: checks whether the masks of a command are still mounted, by the list of mounts of its namespace. */
#include "sandbox/masks.h"

#include "base/sys_proc.h"
#include "sandbox/layers.h"
#include "sandbox/sys_mount.h"

#include <errno.h>
#include <limits.h>

#define TEXT_BYTES 2048 /* how much of the table of mounts is read at a time */
#define POINT_FIELD 4   /* the field of a line that holds the mount point; the first is 0 */

/* A mask with may_be_missing may be removed and is not watched. */
static bool is_mask(const struct image_op *op)
{
        return op->is_guarded && !op->may_be_missing;
}

/* ---- the kernel's list (Linux 6.11) ---- */

static const struct image_op *next_mask(struct image_cursor *c)
{
        const struct image_op *op;
        do
                op = image_next_mount(c);
        while (op && !is_mask(op));
        return op;
}

/* Are all masks in the kernel's list? Returns 1 or 0, or -errno when the kernel cannot list mounts. Masks and list are both in
 * the order of the mounts' numbers. */
static int check_listed(const struct image *i)
{
        struct image_cursor cursor = { .image = i };
        const struct image_op *mask = next_mask(&cursor);
        uint64_t ids[SYS_LISTMOUNT_MAX], last = 0;
        long n = SYS_LISTMOUNT_MAX;
        while (mask && n == SYS_LISTMOUNT_MAX) {
                n = sys_listmount(i->mount_space, SYS_LISTMOUNT_ROOT, last, ids);
                if (n < 0)
                        return (int)n;
                for (long k = 0; mask && k < n; k++) {
                        last = ids[k];
                        if (last == mask->mount)
                                mask = next_mask(&cursor);
                }
        }
        return !mask;
}

/* ---- the text of the mount table, which every kernel has and which takes longer ---- */

struct table_text {
        int fd;
        long at, end;
        char bytes[TEXT_BYTES];
};

/* Returns the next byte, or -1 at the end or after an error. */
static int text_next(struct table_text *t)
{
        if (t->at == t->end) {
                long n;
                do
                        n = sys_read(t->fd, t->bytes, sizeof(t->bytes));
                while (n == -EINTR);
                if (n <= 0)
                        return -1;
                t->at = 0;
                t->end = n;
        }
        return (unsigned char)t->bytes[t->at++];
}

/* Returns the next decoded byte. The table writes a blank, tab, newline or backslash as \ and three octal digits. */
static int text_next_escaped(struct table_text *t)
{
        int c = text_next(t);
        if (c != '\\')
                return c;
        int value = 0;
        for (int i = 0; i < 3; i++) {
                c = text_next(t);
                if (c < '0' || c > '7')
                        return -1;
                value = value * 8 + (c - '0');
        }
        return value | 256; /* differs from the blank that ends a field */
}

/* Gets the mount point of the next line, without its leading slash; a very long one is cut. Returns false at the end. */
static bool text_next_point(struct table_text *t, char ret[static PATH_MAX])
{
        int c = 0;
        for (int field = 0; field < POINT_FIELD; field += c == ' ') {
                c = text_next(t);
                if (c < 0)
                        return false;
        }
        size_t n = 0;
        (void)text_next(t); /* the slash */
        while ((c = text_next_escaped(t)) >= 0 && c != ' ' && c != '\n')
                if (n < PATH_MAX - 1)
                        ret[n++] = (char)c;
        ret[n] = 0;
        while (c >= 0 && c != '\n')
                c = text_next(t);
        return true;
}

static bool is_same_text(const char *a, const char *b)
{
        while (*a && *a == *b) {
                a++;
                b++;
        }
        return *a == *b;
}

/* Is this the mount point of a mask? Lines are roughly in the order of the operations, so the search begins at *next. */
static bool find_mask(const struct image *i, const char *point, uint32_t *next)
{
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++) {
                uint32_t at = (*next + n) % i->op_count;
                if (is_mask(&ops[at]) && is_same_text(image_at(i, ops[at].path), point)) {
                        *next = at + 1;
                        return true;
                }
        }
        return false;
}

/* Are all masks in the table? Counts lines instead of masks, because an older mount may have the same mount point. */
static bool are_in_text(struct masks *m, const struct image *i)
{
        struct table_text t = { .fd = m->table };
        char point[PATH_MAX];
        const struct image_op *ops = image_at(i, i->ops);
        uint32_t next = 0, lines = 0, needed = 0;
        if (sys_call3(SYS_lseek, m->table, 0, SEEK_SET) < 0)
                return false;
        while (text_next_point(&t, point))
                lines += find_mask(i, point, &next);
        for (uint32_t n = 0; n < i->op_count; n++)
                needed += is_mask(&ops[n]);
        needed = MAX(needed, m->lines);
        m->lines = MAX(m->lines, lines);
        return lines >= needed;
}

/* ---- watching the mount table ---- */

bool masks_exist(const struct image *i)
{
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++)
                if (is_mask(&ops[n]))
                        return true;
        return false;
}

void masks_watch(struct masks *m, const struct image *i, pid_t pid)
{
        int fd = masks_exist(i) && pid > 0 ? sys_proc_open(pid, "mountinfo") : -1;
        *m = MASKS_NONE;
        m->table = MAX(fd, -1);
}

void masks_close(struct masks *m)
{
        if (m->table >= 0)
                sys_close(m->table);
        m->table = -1;
}

bool masks_are_there(struct masks *m, const struct image *i)
{
        if (m->table < 0)
                return true;
        int r = i->mount_space && !layer_is_off(LAYER_LIST) ? check_listed(i) : -ENOSYS;
        return r >= 0 ? r > 0 : are_in_text(m, i);
}
