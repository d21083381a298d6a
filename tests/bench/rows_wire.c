/* rows_wire: requests that cost nothing but the way there and back. */
#include "base/limits.h"
#include "base/mem.h"
#include "bench.h"
#include "client.h"
#include "machine.h"
#include "procinfo.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#define WARM_UP 20
#define CONNECTIONS 64
#define POLL_SAMPLES 200
#define LARGE_WAIT_MS 20000

static int status_ask(struct client *c, struct err *err)
{
        return client_request(c, "environment/status", "null", err);
}

static int status_round_trip(struct client *c, struct err *err)
{
        struct slice message;
        int r = status_ask(c, err);
        return r < 0 ? r : client_await(c, S("\"ready\""), &message, err);
}

static int status_alone(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        for (size_t n = 0; r == 0 && n < WARM_UP; n++)
                r = status_round_trip(&c, err);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = status_round_trip(&c, err);
                samples_add(&t->into[0], us_since(start));
        }
        return r;
}

/* --- many connections --------------------------------------------------------------------------------------------- */

struct many {
        struct client clients[CONNECTIONS];
};

static void many_release(struct many *m)
{
        for (size_t i = 0; i < CONNECTIONS; i++)
                client_close(&m->clients[i]);
}

/* Every connection has one request under way; they are answered and asked again in turn, so that the client needs two
 * system calls per request and the server always has work. */
static int many_run(struct many *m, struct turn *t, size_t *ret_answers, struct err *err)
{
        struct slice message;
        size_t answers = 0;
        int r = 0;
        for (size_t i = 0; r == 0 && i < CONNECTIONS; i++)
                r = status_ask(&m->clients[i], err);
        while (r == 0 && turn_goes_on(t, answers)) {
                for (size_t i = 0; r == 0 && i < CONNECTIONS; i++) {
                        r = client_await(&m->clients[i], S("\"ready\""), &message, err);
                        if (r == 0)
                                r = status_ask(&m->clients[i], err);
                        answers++;
                }
        }
        *ret_answers = answers;
        return r;
}

static int status_of_many(struct turn *t, struct err *err)
{
        CLEANUP(many_release) struct many m;
        struct family family = { 0 };
        size_t answers = 0;
        for (size_t i = 0; i < CONNECTIONS; i++)
                m.clients[i] = CLIENT_INIT;
        t->ack =
                ACK_DELAYED; /* no side waits for an ACK here, so that quick ACKs would only cost the client time */
        int r = family_find(t->server->pid, &family, err);
        for (size_t i = 0; r == 0 && i < CONNECTIONS; i++)
                r = client_open_session(&m.clients[i], t, CLIENT_ROOM_SMALL, err);
        double cpu = family_cpu_s(&family), own = own_cpu_s();
        uint64_t start = t->started_ns = now_ns();
        if (r == 0)
                r = many_run(&m, t, &answers, err);
        if (r < 0)
                return r;
        double n = (double)answers;
        samples_add(&t->into[0], n * 1e6 / us_since(start));
        samples_add(&t->into[1], (family_cpu_s(&family) - cpu) * 1e6 / n);
        samples_add(&t->into[2], (own_cpu_s() - own) * 1e6 / n);
        return 0;
}

/* --- beside a long poll ------------------------------------------------------------------------------------------- */

/* Sends a read that waits 500 ms, and meanwhile requests on the same connection, as many as there is time for: one for a server
 * that handles one request at a time. */
static int status_beside_poll(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        struct slice message;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = client_start(&c, "s", "[\"/bin/sleep\",\"30\"]", false, err);
        if (r == 0)
                r = client_await(&c, NAME_RESULT, &message, err);
        if (r == 0)
                r = client_request(&c, "process/read", "{\"processId\":\"s\",\"afterSeq\":0,\"waitMs\":500}",
                                   err);
        uint64_t asked = now_ns();
        for (size_t n = 0; r == 0 && n < POLL_SAMPLES && us_since(asked) < 400e3; n++) {
                uint64_t start = now_ns();
                r = status_round_trip(&c, err);
                samples_add(&t->into[0], us_since(start));
        }
        if (r == 0)
                r = client_request(&c, "process/terminate", "{\"processId\":\"s\"}", err);
        if (r == 0)
                r = client_await(&c, NAME_CLOSED, &message, err);
        return r;
}

/* --- beside large messages ---------------------------------------------------------------------------------------- */

/* Appends a request whose text has `n` bytes, most of them escapes: nothing takes longer to parse. */
static void large_prepare(struct buf *to, size_t n)
{
        _buf_ struct buf message = BUF_INIT(SIZE_MAX / 4);
        char *room;
        must(buf_append(&message, S("{\"id\":1,\"method\":\"environment/status\",\"params\":{\"x\":\"")) ==
             0);
        must(buf_reserve(&message, n, &room) == 0);
        for (size_t i = 0; i + 1 < n; i += 2)
                memcpy(room + i, "\\n", 2);
        buf_commit(&message, n & ~(size_t)1);
        must(buf_append(&message, S("\"}}")) == 0);
        client_prepare_fragments(to, buf_slice(&message));
}

/* The body of a process that sends large requests one after another. Writes a byte to `ready` when the first is answered. */
static _Noreturn void large_sender(const struct turn *t, int ready)
{
        struct client c = CLIENT_INIT;
        struct err err = ERR_INIT;
        struct buf frames = BUF_INIT(SIZE_MAX / 4);
        struct slice message;
        large_prepare(&frames, t->bytes);
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, &err);
        for (size_t n = 0; r >= 0; n++) {
                r = client_send_prepared(&c, buf_slice(&frames), &err);
                if (r >= 0)
                        r = client_next(&c, &message, &err); /* an error is an answer as well */
                if (r >= 0 && n == 0 && write(ready, "", 1) != 1)
                        break;
        }
        _exit(1);
}

static int status_beside_sender(struct turn *t, int ready, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        struct pollfd first = { .fd = ready, .events = POLLIN };
        char byte;
        double worst = 0;
        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0 && (poll(&first, 1, LARGE_WAIT_MS) != 1 || read(ready, &byte, 1) != 1))
                r = err_set(err, 0, -EPIPE, "it does not take messages of this size");
        t->started_ns = now_ns();
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = status_round_trip(&c, err);
                worst = MAX(worst, us_since(start));
                samples_add(&t->into[1], us_since(start));
        }
        if (r == 0)
                samples_add(&t->into[0], worst);
        return r;
}

static int status_beside_large(struct turn *t, struct err *err)
{
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return err_set(err, 0, -errno, "pipe: %s", errno_text(errno));
        pid_t pid = fork();
        if (pid == 0)
                large_sender(t, ends[1]);
        close(ends[1]);
        int r = pid < 0 ? err_set(err, 0, -errno, "fork: %s", errno_text(errno))
                        : status_beside_sender(t, ends[0], err);
        close(ends[0]);
        if (pid > 0) {
                kill(pid, SIGKILL);
                waitpid(pid, NULL, 0);
        }
        /* When the reference closes the connection because the message is too long, it has no figure. */
        return r == -EPIPE && t->server->who == WHO_REFERENCE ? 0 : r;
}

const struct row rows_wire[] = {
        { .name = "status",
          .has_acks = true,
          .budget_ms = 100,
          .server = status_alone,
          .machine = machine_tcp,
          .metrics = { { "latency", "status round trip", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 0.9, "<= 0.9 x reference" },
                                    { GOAL_MACHINE, 2.5, "<= 2.5 x TCP" } } } } },
        { .name = "connections",
          .budget_ms = 250,
          .server = status_of_many,
          .metrics = { { "rate", "status requests per second, 64 connections", UNIT_PER_S,
                         .more_is_better = true, .goals = { { GOAL_REFERENCE, 2, ">= 2 x reference" } } },
                       { .name = "cpu", .title = "- CPU of the server, each", .unit = UNIT_US },
                       { .name = "clientCpu", .title = "- CPU of this client, each", .unit = UNIT_US } } },
        { .name = "long-poll",
          .has_acks = true,
          .rounds = 5,
          .budget_ms = 500,
          .server = status_beside_poll,
          .metrics = { { "latency", "a request beside a 500 ms long poll, same connection", UNIT_US,
                         .goals = { { GOAL_VALUE, 5000, "< 5 ms" } } } } },
        { .name = "beside-60m",
          .rounds = 3,
          .budget_ms = 2000,
          .bytes = 60 * MIB,
          .server = status_beside_large,
          .metrics = { { "worst", "slowest request while another client sends 60 MiB messages", UNIT_US,
                         .goals = { { GOAL_VALUE, 20000, "< 20 ms" } } },
                       { "latency", "- median", .unit = UNIT_US } } },
        { .name = "beside-100m",
          .rounds = 3,
          .budget_ms = 2000,
          .bytes = 100 * MIB,
          .server = status_beside_large,
          .metrics = { { "worst", "slowest request while another client sends 100 MiB messages", UNIT_US,
                         .goals = { { GOAL_VALUE, 20000, "< 20 ms" } } },
                       { "latency", "- median", .unit = UNIT_US } } },
        { 0 },
};
