/* results: collects the samples of all rounds of one row, and computes medians, ratios and verdicts from them. */
#include "results.h"

#include <math.h>

static void add_turn(struct figure *f, const struct samples *turn)
{
        if (turn->n == 0)
                return;
        for (size_t i = 0; i < turn->n; i++)
                samples_add(&f->all, turn->v[i]);
        samples_add(&f->rounds, samples_median(turn));
}

void results_add_round(struct results *r, struct round *round)
{
        for (size_t i = 0; i < METRICS_MAX && r->row->metrics[i].name; i++)
                for (size_t ack = 0; ack < ACKS; ack++)
                        for (size_t who = 0; who < WHOS; who++)
                                add_turn(&r->metrics[i].figures[who][ack], &round->turns[who][ack][i]);
        r->is_measured = true;
}

/* Returns the samples of the better of the two kinds of ACK, since a client could choose. It is chosen once for all rounds: the
 * better one of each round would favour a contender that is measured twice. */
static const struct samples *better(const struct metric *metric, const struct figure figures[ACKS])
{
        double quick = samples_median(&figures[ACK_QUICK].rounds);
        double delayed = samples_median(&figures[ACK_DELAYED].rounds);
        bool is_quick = isnan(delayed) || (metric->more_is_better ? quick >= delayed : quick <= delayed);
        return &figures[is_quick ? ACK_QUICK : ACK_DELAYED].rounds;
}

static void add_ratios(struct samples *to, const struct samples *ours, const struct samples *theirs)
{
        for (size_t i = 0; i < ours->n && ours->n == theirs->n; i++)
                if (theirs->v[i] > 0)
                        samples_add(to, ours->v[i] / theirs->v[i]);
}

void results_finish(struct results *r)
{
        for (size_t i = 0; i < METRICS_MAX && r->row->metrics[i].name; i++) {
                struct metric_results *m = &r->metrics[i];
                const struct samples *reference = better(&r->row->metrics[i], m->figures[WHO_REFERENCE]);
                const struct samples *machine = better(&r->row->metrics[i], m->figures[WHO_MACHINE]);
                for (size_t ack = 0; ack < ACKS; ack++) {
                        const struct samples *ours = &m->figures[WHO_OURS][ack].rounds;
                        add_ratios(&m->by_reference[ack], ours, reference);
                        add_ratios(&m->by_machine[ack], ours, machine);
                }
        }
}

void results_release(struct results *r)
{
        for (size_t i = 0; i < METRICS_MAX; i++)
                for (size_t ack = 0; ack < ACKS; ack++) {
                        struct metric_results *m = &r->metrics[i];
                        samples_release(&m->by_reference[ack]);
                        samples_release(&m->by_machine[ack]);
                        for (size_t who = 0; who < WHOS; who++) {
                                samples_release(&m->figures[who][ack].all);
                                samples_release(&m->figures[who][ack].rounds);
                        }
                }
}

void round_release(struct round *round)
{
        for (size_t who = 0; who < WHOS; who++)
                for (size_t ack = 0; ack < ACKS; ack++)
                        for (size_t i = 0; i < METRICS_MAX; i++)
                                samples_release(&round->turns[who][ack][i]);
}

double goal_value(const struct metric_results *m, const struct goal *g, enum ack ack)
{
        switch (g->kind) {
        case GOAL_VALUE:
                return samples_median(&m->figures[WHO_OURS][ack].rounds);
        case GOAL_MACHINE:
                return samples_median(&m->by_machine[ack]);
        case GOAL_REFERENCE:
                return samples_median(&m->by_reference[ack]);
        case GOAL_NONE:
                break;
        }
        return NAN;
}

enum verdict goal_verdict(const struct metric_results *m, const struct metric *metric, const struct goal *g,
                          enum ack ack)
{
        double v = goal_value(m, g, ack);
        if (isnan(v))
                return VERDICT_NONE;
        bool is_met = metric->more_is_better ? v >= g->limit : v <= g->limit;
        return is_met ? VERDICT_MET : VERDICT_MISSED;
}
