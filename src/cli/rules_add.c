/* rules_add: `farhand rules add`: adds a prefix rule to a .rules file; others have network rules added. The rest of the file keeps its bytes; the file is replaced in
 * one step, and only by a file that can be read. */
#include "cli/rules.h"

#include "base/fd.h"
#include "base/printable.h"
#include "base/small_file.h"
#include "rules/exec_rules_add.h"

#include <errno.h>
#include <stdio.h>

/* A rule of either kind. */
struct addition {
        const struct exec_rule_addition *prefix;
        const struct exec_network_addition *network;
};

static int add_to_text(struct arena *a, const struct exec_rules_text *old, const struct addition *add,
                       struct slice *ret, struct err *err)
{
        const char *cwd = rules_cwd(a);

        return add->prefix ? exec_rules_add(a, old, cwd, add->prefix, ret, err)
                           : exec_rules_add_network(a, old, cwd, add->network, ret, err);
}

static int add_to_file(struct arena *a, const char *path, const struct addition *addition, struct err *err)
{
        struct exec_rules_text old = { path, S("") };
        struct slice text;

        /* The addition is tried on an empty text first, so that an addition that can never succeed leaves no directory behind. */
        int r = add_to_text(a, &old, addition, &text, err);
        if (r < 0)
                return r;
        _close_ int lock = small_file_lock(path, err);
        if (lock < 0)
                return lock;
        r = rules_file_read(a, path, &old.text, err);
        if (r < 0 && r != -ENOENT)
                return r;
        r = add_to_text(a, &old, addition, &text, err);
        if (r < 0)
                return r;
        bool is_there = text.p == old.text.p;
        r = is_there ? 0 : small_file_replace(path, text, err);
        return r < 0 ? r : !is_there;
}

int rules_file_add(struct arena *a, const char *path, const struct exec_rule_addition *addition,
                   struct err *err)
{
        return add_to_file(a, path, &(struct addition){ .prefix = addition }, err);
}

int rules_file_add_network(struct arena *a, const char *path, const struct exec_network_addition *addition,
                           struct err *err)
{
        return add_to_file(a, path, &(struct addition){ .network = addition }, err);
}

/* Reads the command line. Returns -1 when *ret is filled, or the exit code. */
static int parse(int argc, char **argv, struct exec_rule_addition *ret, const char **ret_file, int *ret_rest)
{
        const char *decision = "allow";
        const struct arg table[] = {
                { "rules", ARG_STRING, "FILE", "the file; default: rules/default.rules in FARHAND_HOME",
                  .target = ret_file, .letter = 'r', .offers = OFFER_FILE },
                { "decision", ARG_STRING, "DECISION", "allow (the default), prompt or forbidden",
                  .target = &decision },
                { "justification", ARG_STRING, "TEXT", "why; shown with the decision",
                  .target = &ret->justification },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand rules add [OPTIONS] [--] WORD...",
                .about = "Add a rule for the commands that begin with these words.",
                .table = table,
                .operands = OFFER_COMMAND,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, ret_rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (!exec_decision_parse(slice_from_str(decision), &ret->decision)) {
                (void)args_refuse("decision", decision, "allow, prompt, forbidden");
                return 2;
        }
        if (*ret_rest == argc) {
                fprintf(stderr, "error: a word is needed\n\nUsage: %s\n", spec.usage);
                return 2;
        }
        return -1;
}

int rules_add(int argc, char **argv)
{
        _arena_ struct arena a = ARENA_INIT;
        struct exec_rule_addition addition = { 0 };
        struct err err = ERR_INIT;
        const char *file = NULL;
        int rest = 0;

        int code = parse(argc, argv, &addition, &file, &rest);
        if (code >= 0)
                return code;
        struct slice *words = arena_alloc(&a, (size_t)(argc - rest) * sizeof(*words));
        for (int i = rest; i < argc; i++)
                words[addition.count++] = slice_from_str(argv[i]);
        addition.words = words;
        if (!file)
                file = rules_file_default(&a);
        int r = file ? rules_file_add(&a, file, &addition, &err)
                     : err_set(&err, 0, -ENOENT, "neither FARHAND_HOME nor HOME says where the file is");
        if (r < 0) {
                fprintf(stderr, "error: %s\n", err.text);
                return 1;
        }
        printf("%s %s\n", r == 0 ? "the rule is already in" : "added a rule to", printable_str(&a, file));
        return fflush(stdout) == 0 ? 0 : 1;
}
