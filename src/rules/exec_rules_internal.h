/* exec_rules_internal: a set of rules while it is made, for the files of exec_rules. */
#pragma once

#include "base/map.h"
#include "rules/exec_rules.h"
#include "rules/starlark.h"

/* The rules of one program. */
struct exec_program {
        struct slice name;
        struct exec_rule *first, *last;
};

/* What host_executable says about a name. */
struct exec_host {
        struct slice name;
        struct slice *paths;
        size_t count;
};

struct exec_rules {
        struct arena arena; /* everything that is not in the maps */
        struct map programs, hosts;
        struct exec_rule **list; /* all rules, in order */
        size_t count, room;
        struct exec_network_rule *network;
        size_t network_count, network_room;
};

/* A list of strings as words of a command. */
struct exec_example {
        struct slice *words;
        size_t count;
};

/* The examples of one call. They are tested when the whole text has been read, because later calls may change the hosts. */
struct exec_examples {
        size_t first_rule, rule_count; /* in exec_rules::list */
        size_t steps;                  /* that it costs to compare one command with these rules */
        struct exec_example *match, *not_match;
        size_t match_count, not_match_count;
        unsigned line, column;
        struct exec_examples *next;
};

/* One text while it is read. */
struct exec_loader {
        struct exec_rules *rules;
        struct arena *arena; /* until the text is loaded */
        const char *text_name;
        struct exec_examples *examples, **examples_end;
        size_t *steps; /* starlark_program::steps */
};

/* How many steps it costs to copy or to compare a word. */
static inline size_t exec_word_steps(struct slice word)
{
        return 1 + word.n / 8;
}

/* exec_rules.c */
/* Counts steps down. Values are shared, so a short text can name a long word again and again: whatever is copied or compared for it
 * is counted first. Returns 0, or -E2BIG when there are not enough steps left. */
NODISCARD int exec_loader_spend(struct exec_loader *loader, size_t steps, struct err *err);
/* Returns whether the rule matches a command whose first word is taken as `program`. */
NODISCARD bool exec_rule_matches(const struct exec_rule *rule, struct slice program,
                                 const struct slice *words, size_t count);
/* Makes a path of the program of a command, and finds its base name. Returns false when rules for the base name must not be asked:
 * there is none, or host_executable does not list the path. */
NODISCARD bool exec_rules_resolve(const struct exec_rules *rules, struct arena *a,
                                  const struct exec_command *command, struct slice *ret_path,
                                  struct slice *ret_base);

/* exec_functions.c */
extern const char *const exec_function_names[];
extern const size_t exec_function_count;
/* Carries out a call of a text; see starlark_program. `arg` is a struct exec_loader. */
NODISCARD int exec_function_call(void *arg, const struct starlark_call *call, struct err *err);

/* exec_network.c */
/* Normalises the host of a network rule, into the arena. Returns 0 or -EINVAL. */
NODISCARD int exec_network_host(struct arena *a, struct slice raw, struct slice *ret, struct err *err);
/* Reads the ports of a network rule: numbers, and texts "FROM-TO". Returns 0 or -errno. */
NODISCARD int exec_network_ports(struct exec_loader *loader, const struct starlark_value *list,
                                 struct exec_network_rule *ret, struct err *err);
/* Returns the name of a protocol, or NULL. */
NODISCARD const char *exec_network_protocol(struct slice raw);

/* exec_examples.c */
/* Reads an example, a string or a list, into the arena of the loader. Returns 0 or -EINVAL. */
NODISCARD int exec_example_parse(struct exec_loader *loader, const struct starlark_value *value,
                                 struct exec_example *ret, struct err *err);
/* Tests the examples of a text. Returns 0 or -EINVAL. */
NODISCARD int exec_examples_check(struct exec_loader *loader, const char *cwd, struct err *err);
