/* tails: many commands of one session under way at once, and how long the slowest of them take.
 *
 * The row is about commands that others overtake, so that the slowest percent and the slowest command of a turn count, not the
 * median.
 */
#pragma once

#include "bench.h"

#define TAILS_IN_FLIGHT 16
/* The most commands in a turn, so that the slowest is one of equally many for each contender. */
#define TAILS_TURN 1000

/* The four metrics that sum up a turn, in this order, with the goals of two of them. */
#define TAILS_METRICS(what, ...)                                                                     \
        {                                                                                            \
                { "median", what, .unit = UNIT_US },                                                 \
                        { "p99", "- 99th percentile", UNIT_US, .goals = { __VA_ARGS__ } },           \
                        { "slowest", "- the slowest of a turn", UNIT_US, .goals = { __VA_ARGS__ } }, \
                        { "rate", "- per second", UNIT_PER_S, .more_is_better = true },              \
        }

struct tails {
        const char *cwd;  /* URI */
        const char *more; /* members of process/start, with the comma before */
        size_t commands;  /* how many commands are started at most */
        bool is_all;      /* all commands are started, even when the turn's time is over */
};

/* Runs /bin/true, TAILS_IN_FLIGHT at a time, and measures each from its request to its process/closed. An error answer is a
 * failure. */
NODISCARD int tails_run(struct turn *t, const struct tails *w, struct err *err);

/* Measures the machine's own tails: the times of bare loops of posix_spawn and wait. */
NODISCARD int tails_machine(struct turn *t, struct err *err);
