/* rulebook: the rules of the user: as texts for servers, which decide by them, and as verdicts about whole commands.
 *
 * A rule that allows all the words of a command, with the path of its program, answers every question about that command. The answer
 * "always" of a user adds such a rule.
 */
#pragma once

#include "base/arena.h"
#include "base/args.h"
#include "base/err.h"
#include "rules/exec_rules_add.h"
#include "unified/unified.h"

struct rulebook;

/* Reads the rules of the user (those of Codex and of Farhand) and those of the files. Returns NULL with *err. */
NODISCARD struct rulebook *rulebook_open(const struct arg_list *files, struct err *err);
void rulebook_free(struct rulebook *b); /* NULL is fine */
/* Returns the texts of the rules. The struct lives as long as the rulebook; rulebook_add changes what is in it. */
NODISCARD const struct unified_rules *rulebook_texts(const struct rulebook *b);

NODISCARD const struct exec_rules *rulebook_rules(const struct rulebook *b);

/* Returns whether a rule allows exactly these words, which end with NULL; false when another rule of the same length asks, or any rule
 * forbids. */
NODISCARD bool rulebook_allows(const struct rulebook *b, const char *const *words);
/* Returns the rule that rulebook_add would add, in the arena; NULL: it cannot add one for these words. */
NODISCARD const char *rulebook_line(const struct rulebook *b, struct arena *a, const char *const *words);
/* Returns the file to which rules are added; NULL: there is none. */
NODISCARD const char *rulebook_file(const struct rulebook *b);
/* The same for network rules. */
NODISCARD const char *rulebook_host_line(const struct rulebook *b, struct arena *a,
                                         const struct exec_network_addition *addition);
NODISCARD int rulebook_add_host(struct rulebook *b, const struct exec_network_addition *addition,
                                struct err *err);
/* Adds a rule that allows these words to the file of the user. Returns 0 or -errno with *err. */
NODISCARD int rulebook_add(struct rulebook *b, const char *const *words, struct err *err);
