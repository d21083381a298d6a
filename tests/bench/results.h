/* results: what the rounds of one row gave, and what follows from it. */
#pragma once

#include "bench.h"

/* One contender with one ack. */
struct figure {
        struct samples all;    /* every sample */
        struct samples rounds; /* the median of each turn, in the order of the rounds */
};

struct metric_results {
        struct figure figures[WHOS][ACKS];
        /* Formed within each round, ours by theirs; by results_finish. */
        struct samples by_reference[ACKS], by_machine[ACKS];
};

struct results {
        const struct row *row;
        bool is_measured;
        char failure[512]; /* why not */
        struct metric_results metrics[METRICS_MAX];
};

enum verdict { VERDICT_NONE, VERDICT_MET, VERDICT_MISSED }; /* none: nothing to compare with */

/* Takes one round: the samples of each turn, of those who were measured. */
struct round {
        struct samples turns[WHOS][ACKS][METRICS_MAX];
};
void results_add_round(struct results *r, struct round *round);
void results_finish(struct results *r); /* after the last round */
void results_release(struct results *r);
void round_release(struct round *round);

/* What a goal is about: our median, or the median of the ratios; NAN when there is none. */
double goal_value(const struct metric_results *m, const struct goal *g, enum ack ack);
enum verdict goal_verdict(const struct metric_results *m, const struct metric *metric, const struct goal *g,
                          enum ack ack);
