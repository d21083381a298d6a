/* report: writes the results as a table for people and as JSON. */
#include "report.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/mem.h"
#include "wire/jsonw.h"

#include <math.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define REPORT_MAX (4 * 1024 * 1024)
#define CELL_MAX 64

static const char *const ack_names[ACKS] = { "quick", "delayed" };
static const char *const who_names[WHOS] = { "farhand", "reference", "machine" };
static const char *const verdict_names[] = { "-", "met", "MISSED" };
static const char *const unit_names[] = { "us", "1/s", "MB/s", "CPU s/GB", "bytes" };
static const char *const kind_names[] = { "none", "value", "ratioToMachine", "ratioToReference" };

/* --- about the run ------------------------------------------------------------------------------------------------ */

static void cpu_name(char ret[128])
{
        _buf_ struct buf text = BUF_INIT(REPORT_MAX);
        snprintf(ret, 128, "unknown CPU");
        if (fd_read_file("/proc/cpuinfo", REPORT_MAX, &text) < 0)
                return;
        const char *line = strstr(text.p, "model name");
        const char *colon = line ? strchr(line, ':') : NULL;
        if (colon)
                snprintf(ret, 128, "%.*s", (int)strcspn(colon + 2, "\n"), colon + 2);
}

static void date(char ret[32])
{
        time_t now = time(NULL);
        struct tm tm;
        gmtime_r(&now, &tm);
        strftime(ret, 32, "%Y-%m-%d %H:%M UTC", &tm);
}

/* --- table -------------------------------------------------------------------------------------------------------- */

static void value_text(char ret[CELL_MAX], enum unit unit, double v)
{
        if (isnan(v))
                snprintf(ret, CELL_MAX, "-");
        else if (unit == UNIT_US)
                snprintf(ret, CELL_MAX,
                         v < 100    ? "%.1f us"
                         : v < 1000 ? "%.0f us"
                                    : "%.2f ms",
                         v < 1000 ? v : v / 1000);
        else if (unit == UNIT_PER_S)
                snprintf(ret, CELL_MAX, "%.0f/s", v);
        else if (unit == UNIT_MB_PER_S)
                snprintf(ret, CELL_MAX, "%.0f MB/s", v);
        else if (unit == UNIT_CPU_S_PER_GB)
                snprintf(ret, CELL_MAX, "%.2f s/GB", v);
        else
                snprintf(ret, CELL_MAX, fabs(v) < 1e5 ? "%.1f KiB" : "%.2f MB",
                         fabs(v) < 1e5 ? v / 1024 : v / 1e6);
}

/* Writes "median (p10)". */
static void figure_text(char ret[2 * CELL_MAX], enum unit unit, const struct figure *f)
{
        char median[CELL_MAX], p10[CELL_MAX];
        value_text(median, unit, samples_median(&f->rounds));
        value_text(p10, unit, samples_quantile(&f->all, 0.1));
        snprintf(ret, 2 * CELL_MAX, f->all.n > 1 ? "%s (%s)" : "%s", median, p10);
}

static void ratio_text(char ret[CELL_MAX], const struct samples *s)
{
        double v = samples_median(s);
        if (isnan(v))
                snprintf(ret, CELL_MAX, "-");
        else if (v > 0 && v < 0.095)
                snprintf(ret, CELL_MAX, "1/%.0f", 1 / v);
        else
                snprintf(ret, CELL_MAX, "%.2f", v);
}

static void table_line(const struct row *row, const struct metric *metric, const struct metric_results *m,
                       enum ack ack, FILE *to)
{
        char ours[2 * CELL_MAX], reference[2 * CELL_MAX], machine[2 * CELL_MAX], by_reference[CELL_MAX],
                by_machine[CELL_MAX], goals[2 * CELL_MAX] = "", verdicts[CELL_MAX] = "";
        figure_text(ours, metric->unit, &m->figures[WHO_OURS][ack]);
        figure_text(reference, metric->unit, &m->figures[WHO_REFERENCE][ack]);
        figure_text(
                machine, metric->unit,
                &m->figures[WHO_MACHINE][ACK_QUICK]); /* the machine is measured with one kind of ACK only */
        ratio_text(by_reference, &m->by_reference[ack]);
        ratio_text(by_machine, &m->by_machine[ack]);
        for (size_t i = 0; i < GOALS_MAX && metric->goals[i].kind != GOAL_NONE; i++) {
                const struct goal *g = &metric->goals[i];
                size_t gn = strlen(goals), vn = strlen(verdicts);
                snprintf(goals + gn, sizeof(goals) - gn, "%s%s", i ? ", " : "", g->text);
                snprintf(verdicts + vn, sizeof(verdicts) - vn, "%s%s", i ? ", " : "",
                         verdict_names[goal_verdict(m, metric, g, ack)]);
        }
        fprintf(to, "| %-52s | %-7s | %-24s | %-24s | %-24s | %6s | %6s | %-34s | %s |\n", metric->title,
                row->has_acks ? ack_names[ack] : "", ours, reference, machine, by_reference, by_machine,
                goals, verdicts);
}

static void table_row(const struct results *r, FILE *to)
{
        for (size_t i = 0; i < METRICS_MAX && r->row->metrics[i].name; i++)
                for (size_t ack = 0; ack < (r->row->has_acks ? ACKS : 1u); ack++)
                        table_line(r->row, &r->row->metrics[i], &r->metrics[i], (enum ack)ack, to);
}

void report_table(const struct report *r, FILE *to)
{
        char cpu[128], when[32];
        struct utsname os;
        cpu_name(cpu);
        date(when);
        uname(&os);
        fprintf(to, "%s; %ld x %s; Linux %s; %u rounds in %.0f s; median (p10)\n", when,
                sysconf(_SC_NPROCESSORS_ONLN), cpu, os.release, r->rounds, r->seconds);
        fprintf(to, "farhand: %s; reference: %s\n\n", r->server, r->reference ? r->reference : "none");
        fprintf(to, "| %-52s | %-7s | %-24s | %-24s | %-24s | %6s | %6s | %-34s | %s |\n", "work", "ACK",
                "Farhand", "reference", "machine's limit", "/ ref.", "/ mac.", "goal", "met?");
        fprintf(to, "|---|---|---|---|---|--:|--:|---|---|\n");
        for (size_t i = 0; i < r->count; i++)
                if (r->results[i].is_measured)
                        table_row(&r->results[i], to);
        for (size_t i = 0; i < r->count; i++)
                if (r->results[i].failure[0])
                        fprintf(to, "\n%s failed: %s\n", r->results[i].row->name, r->results[i].failure);
}

/* --- JSON --------------------------------------------------------------------------------------------------------- */

static void json_number(struct jsonw *w, const char *key, double v)
{
        char text[CELL_MAX];
        snprintf(text, sizeof(text), "%.9g", v);
        jsonw_key(w, key);
        if (isnan(v) || isinf(v))
                jsonw_null(w);
        else
                jsonw_raw(w, slice_from_str(text));
}

static void json_figure(struct jsonw *w, const char *key, const struct figure *f)
{
        jsonw_key(w, key);
        if (f->all.n == 0) {
                jsonw_null(w);
                return;
        }
        jsonw_object(w);
        json_number(w, "median", samples_median(&f->rounds));
        json_number(w, "p10", samples_quantile(&f->all, 0.1));
        json_number(w, "p90", samples_quantile(&f->all, 0.9));
        jsonw_member_u64(w, "rounds", f->rounds.n);
        jsonw_member_u64(w, "samples", f->all.n);
        jsonw_object_end(w);
}

static void json_goals(struct jsonw *w, const struct metric *metric, const struct metric_results *m,
                       enum ack ack)
{
        jsonw_key(w, "goals");
        jsonw_array(w);
        for (size_t i = 0; i < GOALS_MAX && metric->goals[i].kind != GOAL_NONE; i++) {
                const struct goal *g = &metric->goals[i];
                enum verdict verdict = goal_verdict(m, metric, g, ack);
                jsonw_object(w);
                jsonw_member_str(w, "of", kind_names[g->kind]);
                jsonw_member_str(w, "text", g->text);
                json_number(w, metric->more_is_better ? "atLeast" : "atMost", g->limit);
                json_number(w, "is", goal_value(m, g, ack));
                if (verdict == VERDICT_NONE)
                        jsonw_member_null(w, "met");
                else
                        jsonw_member_bool(w, "met", verdict == VERDICT_MET);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

static void json_metric(struct jsonw *w, const struct row *row, const struct metric *metric,
                        const struct metric_results *m, enum ack ack)
{
        jsonw_object(w);
        jsonw_member_str(w, "row", row->name);
        jsonw_member_str(w, "metric", metric->name);
        jsonw_member_str(w, "title", metric->title);
        jsonw_member_str(w, "unit", unit_names[metric->unit]);
        jsonw_member_str(w, "ack", row->has_acks ? ack_names[ack] : NULL);
        json_figure(w, who_names[WHO_OURS], &m->figures[WHO_OURS][ack]);
        json_figure(w, who_names[WHO_REFERENCE], &m->figures[WHO_REFERENCE][ack]);
        json_figure(w, who_names[WHO_MACHINE], &m->figures[WHO_MACHINE][ACK_QUICK]);
        json_number(w, "ratioToReference", samples_median(&m->by_reference[ack]));
        json_number(w, "ratioToMachine", samples_median(&m->by_machine[ack]));
        json_goals(w, metric, m, ack);
        jsonw_object_end(w);
}

static void json_results(struct jsonw *w, const struct report *r)
{
        jsonw_key(w, "metrics");
        jsonw_array(w);
        for (size_t i = 0; i < r->count; i++) {
                const struct results *one = &r->results[i];
                for (size_t k = 0; one->is_measured && k < METRICS_MAX && one->row->metrics[k].name; k++)
                        for (size_t ack = 0; ack < (one->row->has_acks ? ACKS : 1u); ack++)
                                json_metric(w, one->row, &one->row->metrics[k], &one->metrics[k],
                                            (enum ack)ack);
        }
        jsonw_array_end(w);
        jsonw_key(w, "failures");
        jsonw_array(w);
        for (size_t i = 0; i < r->count; i++)
                if (r->results[i].failure[0]) {
                        jsonw_object(w);
                        jsonw_member_str(w, "row", r->results[i].row->name);
                        jsonw_member_str(w, "why", r->results[i].failure);
                        jsonw_object_end(w);
                }
        jsonw_array_end(w);
}

void report_json(const struct report *r, FILE *to)
{
        char cpu[128], when[32];
        struct utsname os;
        struct jsonw w;
        _buf_ struct buf out = BUF_INIT(REPORT_MAX);
        cpu_name(cpu);
        date(when);
        uname(&os);
        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_member_str(&w, "date", when);
        jsonw_member_str(&w, "cpu", cpu);
        jsonw_member_i64(&w, "cpus", sysconf(_SC_NPROCESSORS_ONLN));
        jsonw_member_str(&w, "kernel", os.release);
        jsonw_member_str(&w, "server", r->server);
        jsonw_member_str(&w, "reference", r->reference);
        jsonw_member_u64(&w, "rounds", r->rounds);
        json_number(&w, "seconds", r->seconds);
        json_results(&w, r);
        jsonw_object_end(&w);
        must(jsonw_end(&w) == 0);
        fprintf(to, "%s\n", out.p);
}
