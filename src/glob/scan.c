/* scan: builds a tree for one query, reads it whole, and keeps only the answer. */
#include "glob/scan.h"

#include "glob/tree_internal.h"

int glob_scan(const struct glob_query *query, struct glob_matches **ret, struct err *err)
{
        CLEANUP(glob_tree_release) struct glob_tree t;

        int r = glob_tree_init(&t, query, NULL, err);
        if (r == 0)
                r = glob_tree_open(&t, query->is_cancelled, err);
        if (r == 0)
                r = glob_tree_read(&t, err);
        if (r < 0)
                return r;
        *ret = glob_tree_matches(&t);
        return 0;
}
