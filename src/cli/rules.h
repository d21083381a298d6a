/* rules: the verbs of `farhand rules`, and the files that they read. Each verb gets the argc and argv of its verb (argv[0] is the name
 * of the verb) and returns the exit code. */
#pragma once

#include "base/args.h"
#include "rules/exec_rules.h"
#include "rules/exec_rules_add.h"

int rules_check(int argc, char **argv);
int rules_add(int argc, char **argv);

/* Reads rules from files: those of --rules, in order; without them all files *.rules in the directories `rules` of Codex and of
 * Farhand, in this order, each directory sorted by name. A directory that does not exist has no files. Returns the set of rules, or
 * NULL with *err. The caller frees the set. */
NODISCARD struct exec_rules *rules_files_load(const struct arg_list *files, struct err *err);

/* Reads the texts of these files into the arena; with `has_defaults` also those that rules_files_load reads when there are none. Returns 0
 * or -errno with *err. */
NODISCARD int rules_files_read(struct arena *a, const struct arg_list *files, bool has_defaults,
                               struct exec_rules_text **ret, size_t *ret_count, struct err *err);

/* Reads one file into the arena. Returns 0, or -errno with *err; a missing file is an error like any other (-ENOENT). */
NODISCARD int rules_file_read(struct arena *a, const char *path, struct slice *ret, struct err *err);

/* Adds a rule to a file, which is replaced in one step, and made if need be. Returns 1; 0: the rule is there already; or -errno. */
NODISCARD int rules_file_add(struct arena *a, const char *path, const struct exec_rule_addition *addition,
                             struct err *err);

/* Does the same with a network rule. */
NODISCARD int rules_file_add_network(struct arena *a, const char *path,
                                     const struct exec_network_addition *addition, struct err *err);

/* Returns the protocol of a rule for what a server asks about as this one. */
NODISCARD const char *rules_network_protocol(const char *asked);
/* Returns the line that rules_file_add_network adds, in the arena; NULL: it can add none. */
NODISCARD const char *rules_network_line(struct arena *a, const struct exec_network_addition *addition);

/* Returns the file to which rules are added, in the arena; NULL: the variables do not say where it is. */
NODISCARD const char *rules_file_default(struct arena *a);

/* Returns the working directory, in the arena, or NULL when it is not known. */
NODISCARD const char *rules_cwd(struct arena *a);
