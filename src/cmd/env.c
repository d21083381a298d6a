/* env: `farhand env VERB`: shows the environments, and adds one. Each verb has a file of its own. */
#include "cmd/env.h"

#include "cmd/verbs.h"

static const struct command list[] = {
        { "list", "show which environments there are, and what names them", env_list },
        { "add", "add one to the file environments.toml", env_add },
        { .name = NULL },
};

int cmd_env(int argc, char **argv)
{
        static const struct verbs verbs = {
                .name = "farhand env",
                .about = "Environments: machines on which commands run.",
                .list = list,
        };
        return verbs_run(&verbs, argc, argv);
}
