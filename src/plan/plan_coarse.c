/* plan_coarse: reduces a plan to the view of a process that checks the rules itself (plan_coarsen). */
#include "plan/plan.h"

/* Returns the deepest operation that was kept so far at or above a path, or NULL. Parents come before what is below them. */
static const struct plan_op *kept_above(const struct plan *p, struct slice path)
{
        for (size_t i = p->op_count; i-- > 0;)
                if (plan_kind_row(p->ops[i].kind)->act == PLAN_ACT_BIND &&
                    path_is_within(path, p->ops[i].path))
                        return &p->ops[i];
        return NULL;
}

static bool is_kept(const struct plan *p, const struct plan *so_far, const struct plan_op *op)
{
        const struct plan_op *above = kept_above(so_far, op->path);
        switch (plan_kind_row(op->kind)->coarse) {
        case PLAN_COARSE_WRITABLE:
                return above ? !plan_kind_is_writable(above->kind) : p->root != PLAN_ROOT_WRITE;
        case PLAN_COARSE_READABLE:
                return p->root == PLAN_ROOT_EMPTY && !above;
        case PLAN_COARSE_NEVER:
                break;
        }
        return false;
}

void plan_coarsen(struct arena *a, const struct plan *p, struct plan *ret)
{
        /* The network is that of the machine, but the process has no system calls that could use it. */
        *ret = (struct plan){ .has_view = true, .has_network = true, .root = p->root };
        ret->ops = arena_alloc(a, MAX(p->op_count, 1u) * sizeof(*ret->ops));
        for (size_t i = 0; i < p->op_count; i++)
                if (is_kept(p, ret, &p->ops[i]))
                        ret->ops[ret->op_count++] = p->ops[i];
}
