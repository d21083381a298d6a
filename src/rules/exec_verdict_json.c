/* exec_verdict_json: writes what rules say about a command. */
#include "rules/exec_verdict_json.h"

static void write_match(struct jsonw *w, const struct exec_command *command, const struct exec_verdict *v,
                        const struct exec_rule *rule)
{
        jsonw_object(w);
        jsonw_key(w, "prefixRuleMatch");
        jsonw_object(w);
        jsonw_key(w, "matchedPrefix");
        jsonw_array(w);
        jsonw_string(w, rule->program);
        for (size_t i = 1; i <= rule->rest_count; i++)
                jsonw_string(w, command->words[i]);
        jsonw_array_end(w);
        jsonw_member_str(w, "decision", exec_decision_name(rule->decision));
        if (v->resolved.p)
                jsonw_member_string(w, "resolvedProgram", v->resolved);
        if (rule->justification.p)
                jsonw_member_string(w, "justification", rule->justification);
        jsonw_object_end(w);
        jsonw_object_end(w);
}

void exec_verdict_write(struct jsonw *w, const struct exec_command *command, const struct exec_verdict *v)
{
        jsonw_object(w);
        jsonw_key(w, "matchedRules");
        jsonw_array(w);
        for (size_t i = 0; i < v->count; i++)
                write_match(w, command, v, v->matches[i]);
        jsonw_array_end(w);
        if (v->count > 0)
                jsonw_member_str(w, "decision", exec_decision_name(v->decision));
        jsonw_object_end(w);
}
