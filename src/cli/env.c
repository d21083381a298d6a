/* env: `farhand env VERB`: shows the environments, adds one, and tries one. Each verb has a file of its own. */
#include "cli/env.h"

#include "cli/cli.h"
#include "cli/verbs.h"

static const struct command list[] = {
        { "list", "show which environments there are, and what names them", env_list },
        { "add", "add one to the file environments.toml", env_add },
        { "check", "connect to one, and say what it offers", env_check },
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
