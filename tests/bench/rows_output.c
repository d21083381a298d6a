/* rows_output: much output of one command, as notifications. Every byte is counted; a missing one is a failure. */
#include "bench.h"
#include "client.h"
#include "machine.h"
#include "procinfo.h"

#include <errno.h>
#include <stdio.h>

#define GB 1e9

static int receive(struct client *c, uint64_t *ret_bytes, struct err *err)
{
        struct slice message;
        *ret_bytes = 0;
        for (;;) {
                int r = client_next(c, &message, err);
                if (r < 0)
                        return r;
                /* The name is near the front; the chunk need not be searched for it. */
                struct slice front = slice_from(message.p, MIN(message.n, 160));
                if (message_has(front, NAME_OUTPUT)) {
                        ssize_t n = message_chunk_bytes(message);
                        if (n < 0)
                                return err_set(err, 0, -EPROTO, "output without a chunk");
                        *ret_bytes += (uint64_t)n;
                } else if (message_has(front, NAME_CLOSED)) {
                        return 0;
                } else if (message_has(front, S("\"error\":{"))) {
                        return err_set(err, 0, -EPROTO, "the server answered %.*s", SLICE(front));
                }
        }
}

static int bulk(struct turn *t, bool tty, struct err *err)
{
        struct family family = { 0 };
        _client_ struct client c = CLIENT_INIT;
        uint64_t want = bulk_bytes(t, tty), got = 0;
        char argv[128];
        snprintf(argv, sizeof(argv), "[\"/usr/bin/head\",\"-c\",\"%llu\",\"/dev/zero\"]",
                 (unsigned long long)want);

        int r = family_find(t->server->pid, &family, err);
        if (r == 0)
                r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        double cpu = family_cpu_s(&family), own = own_cpu_s();
        uint64_t start = now_ns();
        if (r == 0)
                r = client_start(&c, "bulk", argv, tty, err);
        if (r == 0)
                r = receive(&c, &got, err);
        double us = us_since(start);
        cpu = family_cpu_s(&family) - cpu;
        own = own_cpu_s() - own;
        if (r == 0 && got != want)
                r = err_set(err, 0, -EPROTO, "%llu bytes of output, %llu came", (unsigned long long)want,
                            (unsigned long long)got);
        if (r < 0)
                return r;
        samples_add(&t->into[0], (double)got / us);
        samples_add(&t->into[1], cpu * GB / (double)got);
        samples_add(&t->into[2], own * GB / (double)got);
        return 0;
}

static int bulk_pipe(struct turn *t, struct err *err)
{
        return bulk(t, false, err);
}

static int bulk_pty(struct turn *t, struct err *err)
{
        return bulk(t, true, err);
}

const struct row rows_output[] = {
        { .name = "bulk-pipe",
          .budget_ms = 1000,
          .server = bulk_pipe,
          .machine = machine_pipe,
          .metrics = { { "rate", "bulk output, pipe", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 2, ">= 2 x reference" } } },
                       { "cpu", "- CPU of the server", UNIT_CPU_S_PER_GB,
                         .goals = { { GOAL_REFERENCE, 0.25, "<= 1/4 x reference" } } },
                       { .name = "clientCpu",
                         .title = "- CPU of this client",
                         .unit = UNIT_CPU_S_PER_GB } } },
        { .name = "bulk-pty",
          .budget_ms = 1000,
          .server = bulk_pty,
          .machine = machine_pty,
          .metrics = { { "rate", "bulk output, PTY", UNIT_MB_PER_S, .more_is_better = true,
                         .goals = { { GOAL_REFERENCE, 1.5, ">= 1.5 x reference" } } },
                       { "cpu", "- CPU of the server", UNIT_CPU_S_PER_GB,
                         .goals = { { GOAL_REFERENCE, 0.5, "<= 1/2 x reference" } } },
                       { .name = "clientCpu",
                         .title = "- CPU of this client",
                         .unit = UNIT_CPU_S_PER_GB } } },
        { 0 },
};
