/* exec_rules_add: adds a prefix rule or a network rule to a .rules text, as one line at its end. Pure: the caller reads and writes the file.
 *
 * The bytes of the old text stay as they are.
 */
#pragma once

#include "rules/exec_rules.h"

struct exec_rule_addition {
        const struct slice *words; /* the pattern; at least one word */
        size_t count;
        enum exec_decision decision;
        const char *justification; /* NULL: none */
};

/* Adds `add` to the text and writes the new text, in the arena, to *ret. When the same line is in the text already, *ret is the old
 * text. The old text must be good, and so must the new one. Returns 0 or -errno. */
NODISCARD int exec_rules_add(struct arena *a, const struct exec_rules_text *text, const char *cwd,
                             const struct exec_rule_addition *add, struct slice *ret, struct err *err);

struct exec_network_addition {
        const char *host;     /* a name or an address, no pattern */
        const char *protocol; /* "http", "https", "socks5_tcp", "socks5_udp" */
        uint16_t port;        /* 0: all ports */
        enum exec_decision decision;
        const char *justification; /* NULL: none */
};

/* Does the same with a network rule. */
NODISCARD int exec_rules_add_network(struct arena *a, const struct exec_rules_text *text, const char *cwd,
                                     const struct exec_network_addition *add, struct slice *ret,
                                     struct err *err);
