/* plan_coarse: the view of a process that asks the rules itself. See plan_coarsen in plan.h. */
#include "sandbox/plan.h"

/* What was kept so far and lies at or above a path; the deepest of them, or NULL. Parents come before what is below them. */
static const struct plan_op *kept_above(const struct plan *p, struct slice path)
{
        for (size_t i = p->op_count; i-- > 0;)
                if ((p->ops[i].kind == PLAN_READ || p->ops[i].kind == PLAN_WRITE) &&
                    path_is_within(path, p->ops[i].path))
                        return &p->ops[i];
        return NULL;
}

static bool is_kept(const struct plan *p, const struct plan *so_far, const struct plan_op *op)
{
        const struct plan_op *above = kept_above(so_far, op->path);
        switch (op->kind) {
        case PLAN_WRITE:
                return above ? above->kind == PLAN_READ : p->root != PLAN_ROOT_WRITE;
        case PLAN_READ:
        case PLAN_DIRECTORY:
        case PLAN_FILE:
        case PLAN_LINK:
                return p->root == PLAN_ROOT_EMPTY && !above;
        default:
                return false;
        }
}

void plan_coarsen(struct arena *a, const struct plan *p, struct plan *ret)
{
        /* Its network is the machine's by name only: it has no calls that would reach it. */
        *ret = (struct plan){ .has_view = true, .has_network = true, .root = p->root };
        ret->ops = arena_alloc(a, MAX(p->op_count, 1u) * sizeof(*ret->ops));
        for (size_t i = 0; i < p->op_count; i++)
                if (is_kept(p, ret, &p->ops[i]))
                        ret->ops[ret->op_count++] = p->ops[i];
}
