/* host_denial: says in words why a connection of a command was refused. */
#include "approve/host_denial.h"

#include "base/slice.h"

const char *host_denial_text(const char *reason)
{
        static const char *const words[] = { "not_allowed", "denied", "not_allowed_local", "sni_mismatch",
                                             "dns_failure" };
        static const char *const texts[] = { "it is not allowed", "it is denied",
                                             "it is on a private network, or its name leads there or nowhere",
                                             "the name in its TLS is another", "its name leads nowhere" };
        size_t i = slice_find(slice_from_str(reason), words, ARRAY_LEN(words));

        return i < ARRAY_LEN(words) ? texts[i] : reason;
}
