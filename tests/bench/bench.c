/* bench: measures our server, the reference (when there is one) and the machine's own limit in one interleaved run.
 *
 * Exit status: 0 when every row was measured (whether its goal was met or not), 1 when a row could not be, 2 for a
 * bad command line, 130 after an interrupt. No server outlives the benchmark.
 */
#include "bench.h"

#include "base/args.h"
#include "base/mem.h"
#include "report.h"
#include "results.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define ROWS_MAX 48
#define ROUNDS 15
#define ROUNDS_QUICK 3
#define ROW_SECONDS 16 /* after this time no further round of a row begins */
#define ROUNDS_MIN 3   /* rounds of a row even when its time is over */

struct options {
        const char *server, *reference, *rows, *skip, *json;
        uint64_t rounds;
        bool is_quick;
};

static enum args_result options_parse(int argc, char **argv, struct options *o)
{
        const struct arg table[] = {
                { "server", ARG_STRING, "FILE", "our server (default: farhand beside this program)",
                  .target = &o->server },
                { "reference", ARG_STRING, "FILE", "the reference server (default: $REFERENCE; none without)",
                  .target = &o->reference },
                { "rows", ARG_STRING, "A,B", "only these rows", .target = &o->rows },
                { "skip", ARG_STRING, "A,B", "not these rows", .target = &o->skip },
                { "rounds", ARG_U64, "N", "rounds per row (default 15; 3 with --quick)", .target = &o->rounds,
                  .min = 1, .max = 1000 },
                { "quick", ARG_FLAG, NULL, "a first look in half a minute", .target = &o->is_quick },
                { "json", ARG_STRING, "FILE",
                  "the figures as JSON, too; - is stdout (the table goes to stderr)", .target = &o->json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "bench [OPTIONS]",
                .about = "Measure Farhand beside the reference server and the machine's own limit.",
                .table = table,
        };
        int rest;
        enum args_result r = args_parse(&spec, argc, argv, &rest);
        if (r == ARGS_OK && rest < argc) {
                fprintf(stderr, "error: unexpected argument '%s'\n", argv[rest]);
                return ARGS_BAD;
        }
        return r;
}

/* --- which rows --------------------------------------------------------------------------------------------------- */

static bool is_listed(const char *list, const char *name)
{
        struct slice rest = slice_from_str(list);
        while (rest.p)
                if (slice_eq(slice_split(&rest, ','), slice_from_str(name)))
                        return true;
        return false;
}

static bool is_chosen(const struct options *o, const struct row *row)
{
        if (o->skip && is_listed(o->skip, row->name))
                return false;
        return o->rows ? is_listed(o->rows, row->name) : !(o->is_quick && row->is_long);
}

static size_t rows_choose(const struct options *o, struct results *ret)
{
        static const struct row *const groups[] = { rows_process, rows_boxed, rows_sandbox, rows_wire,
                                                    rows_output,  rows_files, rows_trees,   rows_system };
        size_t n = 0;
        for (size_t i = 0; i < ARRAY_LEN(groups); i++)
                for (const struct row *row = groups[i]; row->name; row++) {
                        must(n < ROWS_MAX);
                        if (is_chosen(o, row))
                                ret[n++].row = row;
                        else if (o->rows && is_listed(o->rows, "help"))
                                printf("%s\n", row->name);
                }
        return n;
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

struct run {
        const struct options *options;
        struct contender servers[2]; /* by enum who */
        bool has_reference;
        const char *work; /* where rows have their files */
        char *dir;        /* the directory of the current row; or NULL */
};

static int take_turn(struct run *run, const struct row *row, enum who who, enum ack ack, bool is_first,
                     struct round *round, struct err *err)
{
        if (is_interrupted())
                return err_set(err, 0, -EINTR, "interrupted");
        struct turn t = {
                .server = who == WHO_MACHINE ? NULL : &run->servers[who],
                .ack = ack,
                .is_quick = run->options->is_quick,
                .is_first = is_first,
                .dir = run->dir,
                .bytes = row->bytes,
                .started_ns = now_ns(),
                .budget_ns = row->budget_ms * UINT64_C(1000000) / (run->options->is_quick ? 3 : 1),
                .into = round->turns[who][ack],
        };
        int r = who == WHO_MACHINE ? row->machine(&t, err) : row->server(&t, err);
        return r < 0 ? err_wrap(err, "%s", who == WHO_MACHINE ? "the machine" : t.server->program) : 0;
}

/* Gives every contender one turn. Another contender begins in each round. */
static int run_round(struct run *run, const struct row *row, unsigned number, struct round *round,
                     struct err *err)
{
        struct {
                enum who who;
                enum ack ack;
        } turns[2 * ACKS + 1];
        size_t n = 0;
        for (size_t ack = 0; ack < (row->has_acks ? ACKS : 1u); ack++) {
                turns[n].who = WHO_OURS;
                turns[n++].ack = (enum ack)ack;
                if (run->has_reference) {
                        turns[n].who = WHO_REFERENCE;
                        turns[n++].ack = (enum ack)ack;
                }
        }
        if (row->machine) {
                turns[n].who = WHO_MACHINE;
                turns[n++].ack = ACK_QUICK;
        }
        for (size_t i = 0; i < n; i++) {
                size_t k = (i + number) % n;
                int r = take_turn(run, row, turns[k].who, turns[k].ack, number == 0, round, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int run_rounds(struct run *run, struct results *results, struct err *err)
{
        const struct row *row = results->row;
        unsigned rounds = (unsigned)run->options->rounds;
        if (row->rounds)
                rounds = MIN(rounds, row->rounds);
        uint64_t start = now_ns();
        for (unsigned i = 0; i < rounds; i++) {
                if (i >= ROUNDS_MIN && us_since(start) > ROW_SECONDS * 1e6)
                        break;
                struct round round = { 0 };
                int r = run_round(run, row, i, &round, err);
                if (r == 0)
                        results_add_round(results, &round);
                round_release(&round);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int row_prepare(struct run *run, const struct row *row, struct err *err)
{
        if (!row->prepare)
                return 0;
        run->dir = dir_make(run->work, err);
        return run->dir ? row->prepare(run->dir, row->bytes, err) : err->code;
}

static void row_clean(struct run *run)
{
        if (run->dir)
                dir_remove(run->dir);
        free(run->dir);
        run->dir = NULL;
}

static int run_row(struct run *run, struct results *results)
{
        struct err err = ERR_INIT;
        const size_t servers = run->has_reference ? 2 : 1;
        uint64_t start = now_ns();
        fprintf(stderr, "%-16s", results->row->name);
        int r = row_prepare(run, results->row, &err);
        for (size_t i = 0; r == 0 && i < servers && !results->row->is_solitary; i++)
                r = contender_start(&run->servers[i], &err);
        if (r == 0)
                r = run_rounds(run, results, &err);
        results_finish(results);
        for (size_t i = 0; i < servers; i++)
                contender_stop(&run->servers[i]);
        row_clean(run);
        if (r < 0)
                snprintf(results->failure, sizeof(results->failure), "%.500s", err.text);
        fprintf(stderr, " %5.1f s%s%s\n", us_since(start) / 1e6, r < 0 ? "  " : "", r < 0 ? err.text : "");
        return r;
}

/* --- the run ------------------------------------------------------------------------------------------------------ */

/* Rows open a thousand connections, here and in the servers, which inherit the limit. */
static void raise_file_limit(void)
{
        struct rlimit r;
        if (getrlimit(RLIMIT_NOFILE, &r) == 0) {
                r.rlim_cur = r.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &r);
        }
}

static int write_reports(const struct options *o, const struct report *report)
{
        bool to_stdout = o->json && strcmp(o->json, "-") == 0;
        report_table(report, to_stdout ? stderr : stdout);
        if (!o->json)
                return 0;
        FILE *f = to_stdout ? stdout : fopen(o->json, "we");
        if (!f) {
                fprintf(stderr, "bench: %s: %s\n", o->json, errno_text(errno));
                return -1;
        }
        report_json(report, f);
        int r = ferror(f) ? -1 : 0;
        if (!to_stdout && fclose(f) != 0)
                r = -1;
        return r;
}

static int run_all(const struct options *o, const char *home, const char *work)
{
        static struct results results[ROWS_MAX];
        struct run run = { .options = o, .has_reference = o->reference != NULL, .work = work };
        contender_init(&run.servers[WHO_OURS], WHO_OURS, o->server, home);
        contender_init(&run.servers[WHO_REFERENCE], WHO_REFERENCE, o->reference, home);

        size_t count = rows_choose(o, results);
        if (count == 0) {
                fprintf(stderr, "bench: no such row; --rows help lists them\n");
                return 2;
        }
        int worst = 0;
        uint64_t start = now_ns();
        for (size_t i = 0; i < count && !is_interrupted(); i++)
                if (run_row(&run, &results[i]) < 0)
                        worst = 1;
        struct report report = { o->server, o->reference, (unsigned)o->rounds, us_since(start) / 1e6,
                                 results,   count };
        fputc('\n', stderr);
        if (is_interrupted())
                worst = 130;
        else if (write_reports(o, &report) < 0)
                worst = 1;
        for (size_t i = 0; i < count; i++)
                results_release(&results[i]);
        return worst;
}

int main(int argc, char **argv)
{
        struct options o = { 0 };
        switch (options_parse(argc, argv, &o)) {
        case ARGS_OK:
                break;
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return 2;
        }
        _free_ char *beside = beside_bench("farhand");
        const char *reference = getenv("REFERENCE");
        if (!o.server)
                o.server = beside;
        if (!o.reference && reference && *reference)
                o.reference = reference;
        if (o.rounds == 0)
                o.rounds = o.is_quick ? ROUNDS_QUICK : ROUNDS;

        struct err err = ERR_INIT;
        /* The directory is not in /tmp, because the reference refuses to keep its files there. */
        _free_ char *home = dir_make("/var/tmp", &err);
        if (!home) {
                fprintf(stderr, "bench: %s\n", err.text);
                return 1;
        }
        raise_file_limit();
        interrupts_catch();
        const char *work = getenv("TMPDIR");
        int code = run_all(&o, home, work && *work ? work : home);
        dir_remove(home);
        return code;
}
