/* bench: what the parts of the benchmark share: who is measured, what a row is, when its goal is met.
 *
 * A row is measured in rounds; in each round every contender gets one turn, in changing order, so that whatever else
 * the machine does hits all of them alike. A turn adds samples; the median of a turn's samples is the round's figure,
 * ratios are formed within a round, and the median over the rounds is what counts. Absolute figures are for orientation.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "contender.h"
#include "samples.h"

#define METRICS_MAX 4
#define GOALS_MAX 2

/* How the client acknowledges: with TCP_QUICKACK or not. Without that option, a server that leaves Nagle's algorithm on waits for the
 * ACK of the client. */
enum ack { ACK_QUICK, ACK_DELAYED, ACKS };

enum unit { UNIT_US, UNIT_PER_S, UNIT_MB_PER_S, UNIT_CPU_S_PER_GB, UNIT_BYTES };

enum goal_kind {
        GOAL_NONE,
        GOAL_VALUE,     /* a limit of our figure itself */
        GOAL_MACHINE,   /* a limit of our figure / the machine's limit */
        GOAL_REFERENCE, /* a limit of our figure / the better one of the reference (of quick and delayed ACK) */
};

struct goal {
        enum goal_kind kind;
        double limit;
        const char *text; /* for the table */
};

struct metric {
        const char *name; /* for the JSON report */
        const char *title;
        enum unit unit;
        bool more_is_better; /* then goals say "at least" */
        struct goal goals[GOALS_MAX];
};

/* One contender's turn in one round of one row. */
struct turn {
        struct contender *server; /* NULL for the machine; runs, unless the row starts its own */
        enum ack ack;
        bool is_quick;   /* --quick: smaller amounts */
        bool is_first;   /* the first round, in which results are also checked for correctness */
        const char *dir; /* the directory that row::prepare has filled */
        size_t bytes;    /* row::bytes */
        uint64_t started_ns, budget_ns;
        struct samples *into; /* one per metric */
};

struct row {
        const char *name;
        bool has_acks;      /* measured twice, with quick and with delayed ACK */
        bool is_solitary;   /* starts its own servers */
        bool is_long;       /* --quick leaves it out, unless it is asked for by name */
        unsigned rounds;    /* at most this many rounds, although more were asked for; 0: no such limit */
        unsigned budget_ms; /* of one turn */
        size_t bytes;       /* size of the file that the row reads or writes */
        /* Fills a fresh directory, which is removed after the row; or NULL. */
        int (*prepare)(const char *dir, size_t bytes, struct err *err);
        /* Measure one turn of a server, and one of the machine; either may be NULL. Return 0, or -errno with err filled. */
        int (*server)(struct turn *t, struct err *err);
        int (*machine)(struct turn *t, struct err *err);
        struct metric metrics[METRICS_MAX]; /* ends with name == NULL */
};

#define TURN_SAMPLES_MIN 3

/* Returns true while the turn has fewer than TURN_SAMPLES_MIN samples or its time is not over. */
static inline bool turn_goes_on(const struct turn *t, size_t samples)
{
        return samples < TURN_SAMPLES_MIN || now_ns() - t->started_ns < t->budget_ns;
}

/* The rows of each rows_*.c; each array ends with name == NULL. */
extern const struct row rows_process[], rows_sandbox[], rows_boxed[], rows_wire[], rows_output[],
        rows_files[], rows_trees[], rows_system[];
