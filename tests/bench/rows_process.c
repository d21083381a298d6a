/* rows_process: starting commands and talking to them. */
#include "bench.h"
#include "client.h"
#include "machine.h"
#include "tails.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#define WARM_UP 2
#define IN_FLIGHT MACHINE_IN_FLIGHT
#define POLL_MS 20000

static const char argv_true[] = "[\"/bin/true\"]";

/* --- one command after another ------------------------------------------------------------------------------------ */

static int start_to_closed(struct client *c, unsigned number, bool tty, struct err *err)
{
        char id[16];
        struct slice message;
        snprintf(id, sizeof(id), "p%u", number);
        int r = client_start(c, id, argv_true, tty, err);
        return r < 0 ? r : client_await(c, NAME_CLOSED, &message, err);
}

static int run_true(struct turn *t, bool tty, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        unsigned number = 0;
        while (r == 0 && number < WARM_UP)
                r = start_to_closed(&c, number++, tty, err);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = start_to_closed(&c, number++, tty, err);
                samples_add(&t->into[0], us_since(start));
        }
        return r;
}

static int true_on_pipes(struct turn *t, struct err *err)
{
        return run_true(t, false, err);
}

static int true_on_pty(struct turn *t, struct err *err)
{
        return run_true(t, true, err);
}

/* --- sixteen at once ---------------------------------------------------------------------------------------------- */

struct crowd {
        struct client clients[IN_FLIGHT];
        struct pollfd polled[IN_FLIGHT];
        unsigned started, closed;
};

static void crowd_release(struct crowd *w)
{
        for (size_t i = 0; i < IN_FLIGHT; i++)
                client_close(&w->clients[i]);
}

static int crowd_start(struct crowd *w, struct client *c, struct err *err)
{
        char id[16];
        snprintf(id, sizeof(id), "p%u", w->started++);
        return client_start(c, id, argv_true, false, err);
}

/* Handles one received message; `is_over`: the command of this connection has ended, and the next one is started. */
static int crowd_advance(struct crowd *w, struct client *c, bool is_over, struct err *err)
{
        struct slice message;
        int r = client_fill(c, err);
        while (r == 0 && (r = client_take(c, &message, err)) > 0) {
                r = 0;
                if (message_has(message, S("\"error\":{")))
                        return err_set(err, 0, -EPROTO, "the server answered %.*s", SLICE(message));
                if (!message_has(message, NAME_CLOSED))
                        continue;
                w->closed++;
                if (!is_over)
                        r = crowd_start(w, c, err);
        }
        return r;
}

static int crowd_run(struct crowd *w, struct turn *t, struct err *err)
{
        int r = 0;
        for (size_t i = 0; r == 0 && i < IN_FLIGHT; i++)
                r = crowd_start(w, &w->clients[i], err);
        while (r == 0 && w->closed < w->started) {
                int ready = poll(w->polled, IN_FLIGHT, POLL_MS);
                if (ready <= 0)
                        return err_set(err, 0, ready < 0 ? -errno : -ETIMEDOUT, "no command ended");
                bool is_over = !turn_goes_on(t, w->closed);
                for (size_t i = 0; r == 0 && i < IN_FLIGHT; i++)
                        if (w->polled[i].revents)
                                r = crowd_advance(w, &w->clients[i], is_over, err);
        }
        return r;
}

/* Commands that run at once have a connection each, because the reference handles one request of a connection at a time. */
static int starts_per_second(struct turn *t, struct err *err)
{
        CLEANUP(crowd_release) struct crowd w = { 0 };
        int r = 0;
        for (size_t i = 0; i < IN_FLIGHT; i++)
                w.clients[i] = CLIENT_INIT;
        for (size_t i = 0; r == 0 && i < IN_FLIGHT; i++) {
                r = client_open_session(&w.clients[i], t, CLIENT_ROOM_SMALL, err);
                w.polled[i] = (struct pollfd){ .fd = w.clients[i].fd, .events = POLLIN };
        }
        uint64_t start = t->started_ns = now_ns();
        if (r == 0)
                r = crowd_run(&w, t, err);
        if (r == 0)
                samples_add(&t->into[0], (double)w.closed * 1e6 / us_since(start));
        return r;
}

/* All commands belong to one session, on one connection. */
static int tails_of_session(struct turn *t, struct err *err)
{
        return tails_run(t, &(struct tails){ .cwd = "file:///", .more = "", .commands = TAILS_TURN }, err);
}

/* Finished commands that the server still remembers must not make later starts slower. The reference starts as many as it can in
 * the time of the turn. */
static int session_of_many(struct turn *t, struct err *err)
{
        struct tails all = { .cwd = "file:///",
                             .more = "",
                             .commands = t->is_quick ? 2000 : 20000,
                             .is_all = t->server->who == WHO_OURS };
        return tails_run(t, &all, err);
}

/* --- one byte ----------------------------------------------------------------------------------------------------- */

/* Waits for the answer to the last request and for output, in either order. *ret_output_ns is when the output came. */
static int await_both(struct client *c, uint64_t *ret_output_ns, struct err *err)
{
        bool is_answered = false, has_output = false;
        while (!is_answered || !has_output) {
                struct slice message;
                int r = client_next(c, &message, err);
                if (r < 0)
                        return r;
                if (message_has(message, NAME_RESULT)) {
                        is_answered = true;
                } else if (message_has(message, NAME_OUTPUT)) {
                        has_output = true;
                        *ret_output_ns = now_ns();
                } else {
                        return err_set(err, 0, -EPROTO, "the server sent %.*s", (int)MIN(message.n, 400),
                                       message.p);
                }
        }
        return 0;
}

/* Writes one byte to `cat` and measures the time until it comes back; the answer to the write may come before or after it. */
static int byte_there_and_back(struct client *c, double *ret_us, struct err *err)
{
        uint64_t start = now_ns(), end;
        unsigned id = ++c->ids;
        int r = client_send(c, err,
                            "{\"id\":%u,\"method\":\"process/write\",\"params\":{\"processId\":\"cat\","
                            "\"chunk\":\"eA==\",\"writeId\":\"w%u\"}}",
                            id, id);
        if (r == 0)
                r = await_both(c, &end, err);
        if (r == 0)
                *ret_us = (double)(end - start) / 1e3;
        return r;
}

static int byte_through_pty(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        struct slice message;
        uint64_t ready_ns;
        double us = 0;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = client_start(&c, "cat", "[\"/bin/sh\",\"-c\",\"stty raw -echo; printf R; exec cat\"]",
                                 true, err);
        if (r == 0)
                r = await_both(&c, &ready_ns, err);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                r = byte_there_and_back(&c, &us, err);
                if (r == 0 && n > 0) /* the first byte waits until cat runs */
                        samples_add(&t->into[0], us);
        }
        if (r == 0)
                r = client_request(&c, "process/terminate", "{\"processId\":\"cat\"}", err);
        if (r == 0)
                r = client_await(&c, NAME_CLOSED, &message, err);
        return r;
}

const struct row rows_process[] = {
        { .name = "true-pipes",
          .has_acks = true,
          .budget_ms = 150,
          .server = true_on_pipes,
          .machine = machine_spawn,
          .metrics = { { "latency", "`/bin/true`, start to closed, pipes", UNIT_US,
                         .goals = { { GOAL_MACHINE, 1.35, "<= 1.35 x posix_spawn" } } } } },
        { .name = "true-pty",
          .has_acks = true,
          .budget_ms = 150,
          .server = true_on_pty,
          .machine = machine_spawn,
          .metrics = { { "latency", "the same on a PTY", UNIT_US,
                         .goals = { { GOAL_MACHINE, 1.6, "<= 1.6 x posix_spawn" } } } } },
        { .name = "starts",
          .budget_ms = 300,
          .server = starts_per_second,
          .machine = machine_spawn_many,
          .metrics = { { "rate", "starts per second, 16 in flight", UNIT_PER_S, .more_is_better = true,
                         .goals = { { GOAL_MACHINE, 0.75, ">= 0.75 x posix_spawn" } } } } },
        { .name = "tails",
          .budget_ms = 1000,
          .server = tails_of_session,
          .machine = tails_machine,
          .metrics = TAILS_METRICS("`/bin/true`, 16 in flight in one session",
                                   { GOAL_MACHINE, 1.5, "<= 1.5 x posix_spawn" }) },
        { .name = "session",
          .is_long = true,
          .rounds = 1,
          .budget_ms = 8000,
          .server = session_of_many,
          .metrics = TAILS_METRICS("the same, 20,000 of them without an error", { .kind = GOAL_NONE }) },
        { .name = "pty-byte",
          .has_acks = true,
          .budget_ms = 150,
          .server = byte_through_pty,
          .machine = machine_pty_byte,
          .metrics = { { "latency", "one byte through a PTY and back", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 0.7, "<= 0.7 x reference" } } } } },
        { 0 },
};
