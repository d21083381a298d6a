/* results: collects the samples of all rounds of one row, and computes medians, ratios and verdicts from them. */
#pragma once

#include "bench.h"

/* The samples of one contender with one kind of ACK. */
struct figure {
        struct samples all;    /* every sample */
        struct samples rounds; /* the median of each turn, in the order of the rounds */
};

struct metric_results {
        struct figure figures[WHOS][ACKS];
        /* Ratios of our figure to that of the reference and to the machine's limit, one for each round; results_finish fills
         * them. */
        struct samples by_reference[ACKS], by_machine[ACKS];
};

struct results {
        const struct row *row;
        bool is_measured;
        char failure[512]; /* why the row was not measured */
        struct metric_results metrics[METRICS_MAX];
};

enum verdict { VERDICT_NONE, VERDICT_MET, VERDICT_MISSED }; /* none: nothing to compare with */

/* The samples of all turns of one round; empty for contenders that were not measured. */
struct round {
        struct samples turns[WHOS][ACKS][METRICS_MAX];
};
void results_add_round(struct results *r, struct round *round);
void results_finish(struct results *r); /* after the last round */
void results_release(struct results *r);
void round_release(struct round *round);

/* Returns the value that is compared with a goal: our median, or the median of the ratios; NAN when nothing was measured. */
double goal_value(const struct metric_results *m, const struct goal *g, enum ack ack);
enum verdict goal_verdict(const struct metric_results *m, const struct metric *metric, const struct goal *g,
                          enum ack ack);
