/* rules: `farhand rules VERB`: says what rules decide about a command, and adds a rule. Each verb has a file of its own. */
#include "cli/rules.h"

#include "cli/cli.h"
#include "cli/verbs.h"

static const struct command list[] = {
        { "check", "say what rules decide about a command", rules_check },
        { "add", "add a rule to a file", rules_add },
        { .name = NULL },
};

int cmd_rules(int argc, char **argv)
{
        static const struct verbs verbs = {
                .name = "farhand rules",
                .about = "Rules: which commands are allowed, asked about or forbidden.",
                .list = list,
        };
        return verbs_run(&verbs, argc, argv);
}
