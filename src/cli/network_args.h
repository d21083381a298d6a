/* network_args: the options of a command that say which hosts it may reach. */
#pragma once

#include "base/args.h"
#include "cli/command_args.h"
#include "cli/network_policy.h"

struct network_args {
        struct arg_list allow, deny; /* --allow, --deny */
};

#define NETWORK_ARGS(n)                                                                                  \
        { "allow", ARG_LIST, "HOST[:PORT]",                                                              \
          "in a sandbox: it may reach this host, and no other that is not named; *.NAME and **.NAME "    \
          "are patterns",                                                                                \
          .target = &(n)->allow },                                                                       \
        {                                                                                                \
                "deny", ARG_LIST, "HOST[:PORT]", "it may not reach this host, whatever else is allowed", \
                        .target = &(n)->deny                                                             \
        }

/* Returns false after it has printed what makes no sense: the exit code is 2. */
NODISCARD bool network_args_check(const struct network_args *n, const struct command_args *command);
void network_args_release(struct network_args *n);

struct network_wishes {
        const struct network_args *args;
        const struct command_args *command;
        const struct exec_rules *rules; /* whose network rules count; NULL: none */
        bool may_ask;                   /* about other hosts */
};

/* Makes the network of the command, in the arena of the remote; *ret is NULL when nobody has wishes about it. Returns 0, or -errno after
 * it has printed why on stderr. */
NODISCARD int network_args_make(const struct network_wishes *w, struct remote *r, const struct farhand *f,
                                const struct farhand_network **ret);
