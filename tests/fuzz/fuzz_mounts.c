/* fuzz_mounts: any text as a mount table is read or refused. Entries that were read have paths inside of the text and can be found
 * by their numbers, and two entries of one device are found as twins. */
#include "plan/mount_table.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_entry(const struct mount_table *t, const struct mount_entry *e, size_t size)
{
        const struct mount_entry *found = mount_table_find(t, e->id);
        check(found && found->id == e->id);
        check(e->point.n > 0 && e->point.p[0] == '/' && e->root.n > 0);
        check(e->point.p >= t->text && e->point.p + e->point.n <= t->text + size);
        check(e->root.p >= t->text && e->root.p + e->root.n <= t->text + size);
        bool has_twin = false;
        for (size_t i = 0; i < t->count; i++)
                has_twin |= &t->list[i] != e && t->list[i].dev == e->dev;
        check(has_twin == e->has_twin);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _mount_table_ struct mount_table *t = NULL;
        if (mount_table_parse(slice_from(data, size), &t) < 0) {
                check(!t);
                return 0;
        }
        for (size_t i = 0; i < t->count; i++)
                check_entry(t, &t->list[i], size);
        return 0;
}
