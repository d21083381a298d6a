/* mount_table: the mounts of this machine.
 *
 * A plan needs two facts that paths do not show: which directories are file systems of the kernel, whose files are settings,
 * and by which other paths a file can be reached because its file system is mounted twice.
 */
#pragma once

#include "base/err.h"
#include "base/slice.h"

#include <stdatomic.h>

/* The longest table of the kernel that is read. With a longer table no plan can be made. */
#define MOUNT_TABLE_BYTES_MAX (16 * 1024 * 1024)

enum mount_kind {
        MOUNT_FILES,
        MOUNT_KERNEL,    /* settings, devices and objects of the kernel: sysfs and similar */
        MOUNT_PROCESSES, /* proc */
};

struct mount_entry {
        uint64_t id;
        uint64_t dev;       /* device of the file system, as in the table */
        struct slice root;  /* the directory of the file system that is mounted, as a path from its root */
        struct slice point; /* mount point */
        enum mount_kind kind;
        bool has_twin; /* the same file system is also mounted elsewhere */
};

/* Immutable and reference counted; any thread may use it. */
struct mount_table {
        atomic_size_t refs;
        struct mount_entry *list; /* sorted by id */
        size_t count;
        bool has_other_proc; /* a proc is mounted elsewhere than at /proc */
        char *text;
};

struct mount_table *mount_table_unref(struct mount_table *t); /* NULL is fine; returns NULL */

static inline void mount_table_unrefp(struct mount_table **t)
{
        *t = mount_table_unref(*t);
}
#define _mount_table_ CLEANUP(mount_table_unrefp)

/* Returns the entry with this number, or NULL. */
NODISCARD const struct mount_entry *mount_table_find(const struct mount_table *t, uint64_t id);

/* Parses a text in the format of /proc/self/mountinfo; the caller keeps the text. Returns 0, or -EBADMSG when a line is
 * malformed. */
NODISCARD int mount_table_parse(struct slice text, struct mount_table **ret);

/* The current table, which is read again only when the kernel reports a change. */
struct mount_tables;
NODISCARD struct mount_tables *mount_tables_new(void);
struct mount_tables *mount_tables_free(struct mount_tables *m); /* NULL is fine; returns NULL */
/* Gets the current table, for any thread. The caller releases *ret. Returns 0, or -errno with err (step "mounts"). */
NODISCARD int mount_tables_get(struct mount_tables *m, struct mount_table **ret, struct err *err);
