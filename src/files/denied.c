/* denied: tells in an answer which rule of the permission profile was the reason of an error. */
#include "files/answer.h"
#include "reach/reach.h"

static const char *word_of(enum reach_rule rule)
{
        switch (rule) {
        case REACH_RULE_NO_ENTRY:
                return "noEntry";
        case REACH_RULE_READ_ONLY:
                return "readOnly";
        case REACH_RULE_OUTSIDE:
                return "outside";
        case REACH_RULE_ENTRY:
                return "entry";
        case REACH_RULE_PROTECTED:
                return "protected";
        case REACH_RULE_PATTERN:
                return "pattern";
        case REACH_RULE_OWN:
        case REACH_RULE_ABOVE: /* these two are never the rule of a refusal */
        case REACH_RULE_BELOW:
                break;
        }
        return "own";
}

void fs_write_refusal(struct jsonw *w, const struct reach_refusal *r)
{
        jsonw_key(w, "denied");
        jsonw_object(w);
        jsonw_member_str(w, "operation", r->operation == REACH_OPERATION_READ ? "read" : "write");
        jsonw_key(w, "path");
        fs_write_uri(w, r->path);
        jsonw_member_str(w, "rule", word_of(r->reason.rule));
        if (r->reason.entry.n > 0)
                jsonw_member_string(w, "entry", r->reason.entry);
        jsonw_object_end(w);
}

void fs_write_denied(struct jsonw *w, int os_errno)
{
        struct reach_refusal r;
        if (reach_blamed(os_errno, &r))
                fs_write_refusal(w, &r);
}
