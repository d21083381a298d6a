/* denied: guesses from the output of a command whether the sandbox made it fail. Pure.
 *
 * Three texts are searched for a few phrases, in lower case: stdout (or the terminal), stderr, and both in the order of
 * arrival. The caller feeds the pieces of output, oldest first, in one pass; the texts are never put together.
 */
#pragma once

#include "base/slice.h"

#define DENIED_TEXT_MAX (1024 * 1024) /* only the newest part of the retained output is searched */
#define DENIED_SETTLE_MS 20           /* how long the exit of a failed command waits for more output */

struct denied_phrase {
        const char *text;
        const char *operation; /* "write" or "connect", or "unknown" if the phrase does not tell */
        bool is_offline;       /* the phrase counts only where the network is empty */
        bool is_for_lines; /* the phrase only tells what was refused: denied_by_output ignores it, to agree with other servers */
        bool is_behind_host; /* the name of a host stands before the phrase */
};

#define DENIED_STATES_MAX 312
#define DENIED_CLASSES_MAX 32

/* A search. It takes about 20 KiB, and nothing has to be released. */
struct denied_scan {
        uint8_t found;    /* the number of a phrase that was found, from 1 on; 0: none */
        uint16_t at[2];   /* the states of two searches: in stdout and in stderr */
        uint16_t at_both; /* the state of a third search, in both together */
        uint16_t states;
        uint8_t classes;
        uint8_t class_of[256];
        uint16_t next[DENIED_STATES_MAX][DENIED_CLASSES_MAX];
};

/* Begins a search. `is_offline`: an unreachable network counts as a refusal. */
void denied_scan_init(struct denied_scan *s, bool is_offline);
/* Begins a search for denied_line.h, which includes the phrases that only tell what was refused. */
void denied_scan_init_lines(struct denied_scan *s, bool is_offline);
void denied_scan_feed(struct denied_scan *s, bool is_stderr, struct slice bytes);

/* Forgets what was found, to search another text. */
void denied_scan_reset(struct denied_scan *s);

/* Was this command, which ran in a sandbox and has exited, probably refused something? */
NODISCARD bool denied_by_output(const struct denied_scan *s, int exit_code);

/* Returns the phrase that was found last, or NULL. */
NODISCARD const struct denied_phrase *denied_scan_phrase(const struct denied_scan *s);
