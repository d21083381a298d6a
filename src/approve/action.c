/* action: the names of policies and wishes. */
#include "approve/action.h"

#include "base/slice.h"

static const char *const policies[APPROVAL_POLICIES] = {
        [APPROVAL_NEVER] = "never",
        [APPROVAL_ON_REQUEST] = "on-request",
        [APPROVAL_ON_FAILURE] = "on-failure",
        [APPROVAL_UNTRUSTED] = "untrusted",
};
static const char *const wishes[APPROVAL_WISHES] = {
        [APPROVAL_USE_DEFAULT] = "use_default",
        [APPROVAL_WITH_ADDITIONAL] = "with_additional_permissions",
        [APPROVAL_REQUIRE_ESCALATED] = "require_escalated",
};

const char *approval_policy_name(enum approval_policy policy)
{
        return policies[policy];
}

bool approval_policy_find(const char *name, enum approval_policy *ret)
{
        size_t i = slice_find(slice_from_str(name), policies, APPROVAL_POLICIES);

        if (i < APPROVAL_POLICIES)
                *ret = (enum approval_policy)i;
        return i < APPROVAL_POLICIES;
}

const char *approval_wish_name(enum approval_wish wish)
{
        return wishes[wish];
}

bool approval_wish_find(const char *name, enum approval_wish *ret)
{
        size_t i = slice_find(slice_from_str(name), wishes, APPROVAL_WISHES);

        if (i < APPROVAL_WISHES)
                *ret = (enum approval_wish)i;
        return i < APPROVAL_WISHES;
}
