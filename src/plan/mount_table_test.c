/* mount_table_test: the lines of a mount table are parsed, and malformed ones are refused. */
#include "unit.h"

#include "plan/mount_table.h"

#include <errno.h>
#include <sys/sysmacros.h>

#define LINE_ROOT "28 1 254:0 / / rw,relatime - ext4 /dev/vda rw\n"
#define LINE_BIND "90 28 254:0 /srv/a\\040b /mnt/x\\134y rw shared:7 master:3 - ext4 /dev/vda rw\n"
#define LINE_PROC "30 28 0:21 / /proc rw,nosuid shared:5 - proc proc rw\n"
#define LINE_CGROUP "35 28 0:29 / /chroot/sys/fs/cgroup rw - cgroup2 none rw\n"

static struct mount_table *parse(const char *text)
{
        struct mount_table *t = NULL;
        eq_int(mount_table_parse(slice_from_str(text), &t), 0);
        return t;
}

TEST(a_mount_table_is_read_by_number)
{
        _mount_table_ struct mount_table *t = parse(LINE_BIND LINE_PROC LINE_ROOT LINE_CGROUP);
        eq_u64(t->count, 4);
        const struct mount_entry *e = mount_table_find(t, 90);
        ok(e != NULL);
        eq_slice(e->root, S("/srv/a b"));
        eq_slice(e->point, S("/mnt/x\\y"));
        eq_u64(e->dev, makedev(254, 0));
        eq_int(e->kind, MOUNT_FILES);
        eq_int(mount_table_find(t, 30)->kind, MOUNT_PROCESSES);
        eq_int(mount_table_find(t, 35)->kind, MOUNT_KERNEL);
        ok(mount_table_find(t, 29) == NULL);
}

TEST(what_is_mounted_twice_has_a_twin)
{
        _mount_table_ struct mount_table *t = parse(LINE_ROOT LINE_PROC LINE_BIND);
        ok(mount_table_find(t, 28)->has_twin && mount_table_find(t, 90)->has_twin);
        ok(!mount_table_find(t, 30)->has_twin);
}

TEST(a_table_that_cannot_be_read_is_an_error)
{
        static const char *const bad[] = {
                "28 1 254:0 / / rw,relatime ext4 /dev/vda rw\n", /* no dash */
                "28 1 254:0 / /\n",
                "x 1 254:0 / / rw - ext4 /dev/vda rw\n",
                "28 1 254 / / rw - ext4 /dev/vda rw\n",
                "28 1 254:0 / relative rw - ext4 /dev/vda rw\n",
                "28 1 254:0  / rw - ext4 /dev/vda rw\n",
                "99999999999999999999 1 254:0 / / rw - ext4 /dev/vda rw\n",
                LINE_ROOT "\n" LINE_PROC,
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct mount_table *t = NULL;
                eq_int(mount_table_parse(slice_from_str(bad[i]), &t), -EBADMSG);
                ok(t == NULL);
        }
        _mount_table_ struct mount_table *none = parse("");
        eq_u64(none->count, 0);
        ok(mount_table_find(none, 1) == NULL);
}

TEST(the_table_of_this_machine_has_its_root)
{
        struct err err = ERR_INIT;
        struct mount_tables *tables = mount_tables_new();
        _mount_table_ struct mount_table *first = NULL, *second = NULL;
        eq_int(mount_tables_get(tables, &first, &err), 0);
        eq_int(mount_tables_get(tables, &second, &err), 0);
        bool has_root = false;
        for (size_t i = 0; i < first->count; i++)
                has_root |= slice_eq(first->list[i].point, S("/"));
        ok(has_root);
        (void)mount_tables_free(tables);
}
