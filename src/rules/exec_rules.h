/* exec_rules: which commands may run: rules as texts (docs/RULES.md), and what they say about a command.
 *
 * A set of rules is made of texts, in order, and does not change afterwards: threads may share it. Prefix rules are indexed by
 * their program, so a command is compared only with the rules of its own program. Words are bytes: nothing is folded or normalised.
 * Pure; no I/O. The names exec_… keep these rules apart from those of permission profiles (policy/rules.h).
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"

/* The larger decision is the stricter one. */
enum exec_decision { EXEC_ALLOW, EXEC_PROMPT, EXEC_FORBIDDEN };
const char *exec_decision_name(enum exec_decision decision); /* "allow", "prompt", "forbidden" */
NODISCARD bool exec_decision_parse(struct slice name, enum exec_decision *ret);

/* One word of a pattern: a command matches when it has one of the alternatives at this place. */
struct exec_pattern_word {
        const struct slice *alternatives;
        size_t count;
};

struct exec_rule {
        struct slice program;                 /* the first word */
        const struct exec_pattern_word *rest; /* the other words of the pattern */
        size_t rest_count;
        enum exec_decision decision;
        struct slice justification;   /* p == NULL: none */
        const char *text_name;        /* where the rule stands */
        unsigned line;                /* of its call, from 1 */
        const struct exec_rule *next; /* the next rule of the same program */
};

struct exec_ports {
        uint16_t from, to; /* the first and the last */
};

struct exec_network_rule {
        struct slice host;    /* normalised */
        const char *protocol; /* "http", "https", "socks5_tcp", "socks5_udp" */
        enum exec_decision decision;
        const struct exec_ports *ports; /* none: all */
        size_t port_count;
        struct slice justification; /* p == NULL: none */
        const char *text_name;
        unsigned line;
};

struct exec_rules;

struct exec_rules_text {
        const char *name; /* for errors: the path of a file, or what a client calls it */
        struct slice text;
};

/* Makes a set of rules of texts, and checks the examples of each text. `cwd` is absolute and serves examples whose program is a
 * relative path; NULL: such a program is not resolved. The texts are copied. Returns NULL with *err, whose text begins with name,
 * line and column. The caller frees the set. */
NODISCARD struct exec_rules *exec_rules_new(const struct exec_rules_text *texts, size_t count,
                                            const char *cwd, struct err *err);
void exec_rules_free(struct exec_rules *rules); /* NULL is fine */
static inline void exec_rules_freep(struct exec_rules **rules)
{
        exec_rules_free(*rules);
}
#define _exec_rules_ CLEANUP(exec_rules_freep)

/* How many prefix rules there are; a list of programs counts as one rule for each. */
NODISCARD size_t exec_rules_count(const struct exec_rules *rules);
/* Returns the network rules in order. */
NODISCARD const struct exec_network_rule *exec_rules_network(const struct exec_rules *rules,
                                                             size_t *ret_count);
/* Returns the rules that count, in the arena: of those with the same host and ports only the last one that allows or forbids; rules
 * that prompt say nothing. What a rule forbids stays forbidden, whatever other rules for the host allow. */
NODISCARD const struct exec_network_rule **exec_rules_network_list(const struct exec_rules *rules,
                                                                   struct arena *a, size_t *ret_count);

struct exec_command {
        const struct slice *words; /* the program and its arguments */
        size_t count;
        /* A program that is a path may also match rules for its base name, as host_executable allows. */
        bool is_resolving;
        /* With is_resolving: such a program matches rules for its base name even when rules for its path match; the strictest rule
         * of all decides. */
        bool is_resolving_always;
        const char *
                cwd; /* absolute; for a program that is a relative path. NULL: such a program is not resolved */
};

struct exec_verdict {
        const struct exec_rule **matches; /* in the order of the texts */
        size_t count;                     /* 0: no rule matches, and `decision` means nothing */
        enum exec_decision decision;      /* the strictest of the matches */
        struct slice program;  /* what took the place of the first word: the base name after resolution */
        struct slice resolved; /* the path that was resolved; p == NULL: none */
};

/* Finds the rules that match a command. The list is in the arena and names rules of the set. */
void exec_rules_match(const struct exec_rules *rules, struct arena *a, const struct exec_command *command,
                      struct exec_verdict *ret);
