/* plan_kind: defines the table of plan_kind.h once, for all sources that include the header. */
#include "plan/plan_kind.h"

#define PLAN_KIND_ROW(kind, verb, act, gives, coarse, alone, alone_guarded) \
        [kind] = { (verb), (act), (gives), (coarse), (alone), (alone_guarded) },

const struct plan_kind_row plan_kind_rows[PLAN_KINDS] = { PLAN_KIND_TABLE(PLAN_KIND_ROW) };
