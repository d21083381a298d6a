/* talk: a conversation over stdin and stdout above a table of unified/: gives the lines of stdin to a subcommand, and writes the
 * lines of that to stdout.
 *
 * Nothing blocks. When the reader of stdout is slow, neither stdin nor the servers are read until it has caught up. When stdin
 * ends, open questions are answered with no, calls that are under way end by themselves, and then all processes are ended. A
 * signal ends all of that at once, and so does a stdout that nobody reads.
 */
#pragma once

#include "unified/unified.h"

struct talk;

/* What the user of a talk does with lines. All callbacks get `arg`. */
struct talk_user {
        /* A line has come, without its end and not of blanks alone. BUF_PADDING readable bytes stand behind it. */
        void (*on_line)(void *arg, struct slice line);
        void (*on_long_line)(void *arg); /* a line was longer than LIMIT_UNIFIED_LINE_BYTES, and is dropped */
        /* Called in each turn, and when due_ms() is over. Both may be NULL. */
        void (*on_turn)(void *arg, uint64_t now_ms);
        uint64_t (*due_ms)(void *arg); /* on the clock of clock_mono_ms; UINT64_MAX: never */
        void *arg;
        bool ends_at_once; /* the end of stdin ends calls and processes at once, as a signal does */
};

struct talk *talk_new(const struct talk_user *user);
void talk_free(struct talk *t); /* after the table; NULL is fine */
/* Passes a line with its end on to stdout, and empties the buffer. */
void talk_put(struct talk *t, struct buf *line);
/* Returns whether stdin has ended, or everything is being ended: no new work will come. */
NODISCARD bool talk_has_ended(const struct talk *t);
/* Reads lines and writes lines until stdin has ended and all processes and calls are over, or stdout is closed. Returns the exit code. */
int talk_run(struct talk *t, struct unified *table, struct approvals *approvals);
