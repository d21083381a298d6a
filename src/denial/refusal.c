/* refusal: finds the operation of a plan that explains a denial.
 *
 * The words of an error show what the kernel returned. Writing to a read-only mount fails with EROFS, before any permission
 * is checked, and a mask gives EACCES. So "permission denied" for a path that the plan lets a command read does not come
 * from the sandbox, unless Landlock alone enforces the plan.
 */
#include "denial/refusal.h"

ACCESS_COMPARED(3);

/* Gets the access that an operation gives at its path and below. Returns false when another operation at the same path
 * decides. */
static bool op_access(const struct plan_op *op, enum access *ret)
{
        switch (plan_kind_row(op->kind)->gives) {
        case PLAN_GIVES_READ:
        case PLAN_GIVES_EMPTY:
                *ret = ACCESS_READ;
                return true;
        case PLAN_GIVES_WRITE:
                *ret = ACCESS_WRITE;
                return true;
        case PLAN_GIVES_NOTHING:
        case PLAN_GIVES_PASS:
                *ret = ACCESS_DENY;
                return true;
        case PLAN_GIVES_WAY:
        case PLAN_GIVES_NO_WORD:
                break;
        }
        return false;
}

static enum access root_access(const struct plan *p)
{
        static const enum access of[] = { [PLAN_ROOT_EMPTY] = ACCESS_DENY,
                                          [PLAN_ROOT_READ] = ACCESS_READ,
                                          [PLAN_ROOT_WRITE] = ACCESS_WRITE };
        return of[p->root];
}

/* Returns the deepest operation that decides about the path; NULL: the root of the plan decides. */
static const struct plan_op *op_at(const struct plan *p, struct slice path, enum access *ret)
{
        const struct plan_op *best = NULL;
        enum access access;
        *ret = root_access(p);
        for (size_t i = 0; i < p->op_count; i++) {
                const struct plan_op *op = &p->ops[i];
                bool is_deeper = !best || op->path.n >= best->path.n;
                if (is_deeper && path_is_within(path, op->path) && op_access(op, &access)) {
                        best = op;
                        *ret = access;
                }
        }
        return best;
}

static bool writes_nothing(const struct plan *p)
{
        enum access access;
        for (size_t i = 0; i < p->op_count; i++)
                if (op_access(&p->ops[i], &access) && access == ACCESS_WRITE)
                        return false;
        return root_access(p) != ACCESS_WRITE;
}

static bool is_own(struct slice path)
{
        return path_is_within(path, S("/dev")) || path_is_within(path, S("/proc"));
}

static enum refusal_reason reason_of(const struct plan *p, const struct plan_op *op, struct slice path)
{
        if (!op && is_own(path))
                return REFUSAL_OWN;
        if (!op && p->root == PLAN_ROOT_EMPTY)
                return REFUSAL_NO_ENTRY;
        if (!op)
                return writes_nothing(p) ? REFUSAL_READ_ONLY : REFUSAL_OUTSIDE;
        if (op->named_why)
                return REFUSAL_OTHER; /* the path of the operation is not the one that the profile names */
        switch (plan_reason(op)) {
        case PLAN_REASON_ENTRY:
                return REFUSAL_ENTRY;
        case PLAN_REASON_PROTECTED:
                return REFUSAL_PROTECTED;
        case PLAN_REASON_PATTERN:
                return REFUSAL_PATTERN;
        case PLAN_REASON_PLATFORM:
        case PLAN_REASON_PIN:
        case PLAN_REASON_WAY:
        case PLAN_REASON_OWN:
                break;
        }
        return REFUSAL_OTHER;
}

/* Returns the operation that the plan refuses, "read" or "write"; NULL when the plan allows the operation of the denial, or when
 * the output of the command does not say which operation failed. */
static const char *operation_of(const struct denial *d, enum access access, bool is_landlock, bool has_op)
{
        if (strcmp(d->operation, "write") == 0)
                return access == ACCESS_WRITE ? NULL : "write";
        /* In a view, a path that no operation covers does not exist: a command that reads it fails with ENOENT, which is not
         * reported as a denial. */
        if (access == ACCESS_DENY && (has_op || is_landlock))
                return d->says_write ? "write" : "read";
        return access == ACCESS_READ && is_landlock && d->says_write ? "write" : NULL;
}

bool refusal_find(const struct plan *p, bool is_landlock, const struct denial *d, struct refusal *ret)
{
        if (strcmp(d->operation, "connect") == 0) {
                *ret = (struct refusal){ .reason = REFUSAL_NETWORK, .operation = "connect" };
                return !p->has_network;
        }
        if (!p->has_view)
                return false;
        if (!d->path.p) {
                *ret = (struct refusal){ .reason = REFUSAL_READ_ONLY, .operation = "write" };
                return strcmp(d->operation, "write") == 0 && writes_nothing(p);
        }
        enum access access;
        const struct plan_op *op = op_at(p, d->path, &access);
        if (!op && is_own(d->path) && access == ACCESS_WRITE)
                access = ACCESS_READ;
        /* With Landlock alone a plan that reads everything has an operation for each name in the root directory. Such an
         * operation comes from no entry of the profile. */
        if (op && plan_kind_is_read_only(op->kind) && !op->is_guarded && p->root == PLAN_ROOT_READ)
                op = NULL;
        const char *operation = operation_of(d, access, is_landlock, op != NULL);
        if (!operation)
                return false;
        *ret = (struct refusal){ .reason = reason_of(p, op, d->path), .operation = operation, .op = op };
        return true;
}
