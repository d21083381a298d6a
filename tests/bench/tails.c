/* tails: runs many commands of one session at once, and measures the slowest of them. */
#include "tails.h"

#include "base/mem.h"
#include "client.h"
#include "machine.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char argv_true[] = "[\"/bin/true\"]";

/* --- through a server --------------------------------------------------------------------------------------------- */

struct run {
        struct client client;
        const struct tails *tails;
        uint64_t *started_ns; /* of each command */
        size_t started, closed;
};

static int start_next(struct run *w, struct err *err)
{
        char id[24];
        snprintf(id, sizeof(id), "c%zu", w->started);
        w->started_ns[w->started++] = now_ns();
        return client_start_with(&w->client, id, argv_true, false, w->tails->cwd, w->tails->more, err);
}

/* Returns the number of the command that a notification is about; the count of commands when it is about none of ours. */
static size_t number_in(const struct run *w, struct slice message)
{
        const struct slice name = S("\"processId\":\"c");
        const char *p = memmem(message.p, message.n, name.p, name.n);
        size_t n = 0;
        const char *end = message.p + message.n;
        if (!p)
                return w->started;
        for (p += name.n; p < end && *p >= '0' && *p <= '9' && n < w->started; p++)
                n = n * 10 + (size_t)(*p - '0');
        return n;
}

static int await_closed(struct run *w, struct samples *into, struct err *err)
{
        struct slice message;
        int r = client_await(&w->client, NAME_CLOSED, &message, err);
        if (r < 0)
                return r;
        size_t number = number_in(w, message);
        if (number >= w->started)
                return err_set(err, 0, -EPROTO, "the server sent %.*s", (int)MIN(message.n, 400), message.p);
        samples_add(into, us_since(w->started_ns[number]));
        w->closed++;
        return 0;
}

static void sum_up(struct turn *t, const struct samples *all, uint64_t start_ns)
{
        samples_add(&t->into[0], samples_median(all));
        samples_add(&t->into[1], samples_quantile(all, 0.99));
        samples_add(&t->into[2], samples_quantile(all, 1));
        samples_add(&t->into[3], (double)all->n * 1e6 / us_since(start_ns));
}

static bool tails_goes_on(const struct turn *t, const struct run *w)
{
        return w->started < w->tails->commands && (w->tails->is_all || turn_goes_on(t, w->closed));
}

static int tails_drive(struct turn *t, struct run *w, struct samples *all, struct err *err)
{
        int r = client_open_session(&w->client, t, CLIENT_ROOM_SMALL, err);
        uint64_t start = t->started_ns = now_ns();
        while (r == 0 && w->started < TAILS_IN_FLIGHT)
                r = start_next(w, err);
        while (r == 0 && w->closed < w->started) {
                r = await_closed(w, all, err);
                if (r == 0 && tails_goes_on(t, w))
                        r = start_next(w, err);
        }
        if (r == 0)
                sum_up(t, all, start);
        return r;
}

int tails_run(struct turn *t, const struct tails *tails, struct err *err)
{
        struct run w = { .client = CLIENT_INIT, .tails = tails };
        CLEANUP(samples_release) struct samples all = { 0 };
        w.started_ns = mem_alloc(tails->commands * sizeof(*w.started_ns));
        int r = tails_drive(t, &w, &all, err);
        client_close(&w.client);
        free(w.started_ns);
        return r;
}

/* --- the machine -------------------------------------------------------------------------------------------------- */

struct tally {
        _Atomic size_t started, failed;
        double us[TAILS_TURN];
};

static NORETURN void spawn_until(struct turn *t, struct tally *tally)
{
        for (;;) {
                size_t n = tally->started++;
                if (n >= TAILS_TURN || !turn_goes_on(t, n))
                        _exit(0);
                struct err err = ERR_INIT;
                uint64_t start = now_ns();
                if (machine_true(&err) < 0) {
                        tally->failed++;
                        _exit(1);
                }
                tally->us[n] = us_since(start);
        }
}

/* Several processes spawn and wait, because one alone would be stopped during each vfork. */
int tails_machine(struct turn *t, struct err *err)
{
        struct tally *tally =
                mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (tally == MAP_FAILED)
                return err_set(err, 0, -errno, "mmap: %s", errno_text(errno));
        pid_t pids[TAILS_IN_FLIGHT];
        uint64_t start = t->started_ns = now_ns();
        for (size_t i = 0; i < TAILS_IN_FLIGHT; i++) {
                pids[i] = fork();
                if (pids[i] == 0)
                        spawn_until(t, tally);
                tally->failed += pids[i] < 0;
        }
        for (size_t i = 0; i < TAILS_IN_FLIGHT; i++)
                while (pids[i] > 0 && waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
                        continue;
        CLEANUP(samples_release) struct samples all = { 0 };
        for (size_t i = 0; i < TAILS_TURN; i++)
                if (tally->us[i] > 0)
                        samples_add(&all, tally->us[i]);
        bool has_failed = tally->failed > 0;
        munmap(tally, sizeof(*tally));
        if (has_failed)
                return err_set(err, 0, -EAGAIN, "not everything could be spawned");
        sum_up(t, &all, start);
        return 0;
}
