/* network: which hosts the commands of a model may reach: options of the command line, and the network rules of the user. */
#pragma once

#include "base/args.h"
#include "mcp/rulebook.h"

struct mcp_network {
        struct arg_list allow, deny; /* --allow, --deny */
        const char *ask;             /* --ask-hosts: "never", "user"; NULL: never */
        bool is_open;                /* --network: without the options above nothing is managed */
        const struct rulebook *rulebook;
};

#define MCP_NETWORK_ARGS(n)                                                                                 \
        { "allow", ARG_LIST, "HOST[:PORT]",                                                                 \
          "commands in the sandbox may reach this host; *.NAME and **.NAME are patterns",                   \
          .target = &(n)->allow },                                                                          \
                { "deny", ARG_LIST, "HOST[:PORT]", "they may not reach this host, whatever else allows it", \
                  .target = &(n)->deny },                                                                   \
        {                                                                                                   \
                "ask-hosts", ARG_STRING, "WORD", "about other hosts: never (the default), or ask the user", \
                        .target = &(n)->ask                                                                 \
        }

/* Returns false after it has printed what makes no sense. */
NODISCARD bool mcp_network_check(const struct mcp_network *n);
void mcp_network_release(struct mcp_network *n);
/* unified_options::make_network, with a struct mcp_network. */
NODISCARD int mcp_network_make(void *network, const struct farhand *f, struct arena *a,
                               const struct farhand_network **ret, struct err *err);
