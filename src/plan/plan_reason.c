/* plan_reason: which part of a profile an operation comes from. */
#include "plan/plan.h"

enum plan_reason plan_reason(const struct plan_op *op)
{
        static const struct {
                const char *why;
                enum plan_reason reason;
        } rows[] = {
                { PLAN_WHY_DENIED, PLAN_REASON_ENTRY },      { PLAN_WHY_READABLE, PLAN_REASON_ENTRY },
                { PLAN_WHY_WRITABLE, PLAN_REASON_ENTRY },    { PLAN_WHY_PROTECTED, PLAN_REASON_PROTECTED },
                { PLAN_WHY_POINTED, PLAN_REASON_PROTECTED }, { PLAN_WHY_COMMON, PLAN_REASON_PROTECTED },
                { PLAN_WHY_MATCH, PLAN_REASON_PATTERN },     { PLAN_WHY_PLATFORM, PLAN_REASON_PLATFORM },
                { PLAN_WHY_PINNED, PLAN_REASON_PIN },        { PLAN_WHY_WAY, PLAN_REASON_WAY },
        };
        const char *why = op->named_why ? op->named_why : op->why;
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                if (strcmp(why, rows[i].why) == 0)
                        return rows[i].reason;
        return PLAN_REASON_OWN;
}
