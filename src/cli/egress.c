/* egress: `farhand egress VERB`: what commands reach on the network. */
#include "cli/egress.h"

#include "cli/cli.h"
#include "cli/verbs.h"

static const struct command list[] = {
        { "observe", "run a command, and print the hosts that it needs", egress_observe },
        { .name = NULL },
};

int cmd_egress(int argc, char **argv)
{
        static const struct verbs verbs = {
                .name = "farhand egress",
                .about = "What commands reach on the network.",
                .list = list,
        };
        return verbs_run(&verbs, argc, argv);
}
