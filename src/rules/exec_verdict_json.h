/* exec_verdict_json: what rules say about a command, as JSON. */
#pragma once

#include "rules/exec_rules.h"
#include "wire/jsonw.h"

/* Writes {"matchedRules":[{"prefixRuleMatch":{…}},…],"decision":"…"}, in the order of members that Codex has; without a match there
 * is no decision. `v` is what exec_rules_match said about `command`. */
void exec_verdict_write(struct jsonw *w, const struct exec_command *command, const struct exec_verdict *v);
