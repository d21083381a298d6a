/* rows_system: memory, start-up, size. Each turn starts a server of its own. */
#include "bench.h"
#include "client.h"
#include "procinfo.h"

#include "base/mem.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define IDLE_CONNECTIONS 1000
#define COMMANDS 100
#define SETTLE_MS 100 /* time for the work of a server after its last answer; no event reports its end */
#define STARTS 5

static int measure(struct contender *server, double *ret_bytes, struct err *err)
{
        struct family family;
        (void)poll(NULL, 0, SETTLE_MS);
        int r = family_find(server->pid, &family, err);
        return r < 0 ? r : family_pss_bytes(&family, ret_bytes, err);
}

/* Opens a connection and awaits an answer: by then the server has finished its start. */
static int open_and_ask_status(struct client *c, struct turn *t, struct err *err)
{
        struct slice message;
        int r = client_open_session(c, t, CLIENT_ROOM_SMALL, err);
        if (r == 0)
                r = client_request(c, "environment/status", "null", err);
        return r < 0 ? r : client_await(c, S("\"ready\""), &message, err);
}

/* --- idle connections --------------------------------------------------------------------------------------------- */

static int connect_idly(struct turn *t, double *ret_idle, double *ret_after, struct err *err)
{
        size_t count = t->is_quick ? IDLE_CONNECTIONS / 10 : IDLE_CONNECTIONS, n = 0;
        _free_ struct client *clients = mem_zalloc(IDLE_CONNECTIONS * sizeof(*clients));
        int r = measure(t->server, ret_idle, err);
        for (; r == 0 && n < count; n++)
                r = open_and_ask_status(&clients[n], t, err);
        if (r == 0)
                r = measure(t->server, ret_after, err);
        for (size_t i = 0; i < n; i++)
                client_close(&clients[i]);
        return r;
}

static int memory_of_connections(struct turn *t, struct err *err)
{
        double idle = 0, after = 0;
        int r = contender_start(t->server, err);
        if (r == 0)
                r = connect_idly(t, &idle, &after, err);
        contender_stop(t->server);
        if (r < 0)
                return r;
        double scale = t->is_quick ? 10 : 1;
        samples_add(&t->into[0], idle);
        samples_add(&t->into[1], idle + (after - idle) * scale);
        samples_add(&t->into[2], (after - idle) * scale / IDLE_CONNECTIONS);
        return 0;
}

/* --- running commands --------------------------------------------------------------------------------------------- */

/* Commands that no server has started. They share libc with the servers' commands, so that a server's proportional part of libc
 * is the same before and after its commands start. */
static void bystanders_start(pid_t pids[COMMANDS])
{
        char *const argv[] = { (char[]){ "/bin/sleep" }, (char[]){ "60" }, NULL };
        char *const env[] = { NULL };
        for (size_t i = 0; i < COMMANDS; i++)
                if (posix_spawn(&pids[i], argv[0], NULL, NULL, argv, env) != 0)
                        pids[i] = 0;
}

static void bystanders_stop(pid_t pids[COMMANDS])
{
        for (size_t i = 0; i < COMMANDS; i++)
                if (pids[i] > 0)
                        kill(pids[i], SIGKILL);
        for (size_t i = 0; i < COMMANDS; i++)
                while (pids[i] > 0 && waitpid(pids[i], NULL, 0) < 0 && errno == EINTR)
                        continue;
}

static int start_sleeping(struct client *c, struct err *err)
{
        int r = 0;
        for (unsigned i = 0; r == 0 && i < COMMANDS; i++) {
                char id[16];
                struct slice message;
                snprintf(id, sizeof(id), "s%u", i);
                r = client_start(c, id, "[\"/bin/sleep\",\"60\"]", false, err);
                if (r == 0)
                        r = client_await(c, NAME_RESULT, &message, err);
        }
        return r;
}

static int run_commands(struct turn *t, double *ret_before, double *ret_after, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        pid_t pids[COMMANDS];
        int r = open_and_ask_status(&c, t, err);
        if (r < 0)
                return r;
        bystanders_start(pids);
        r = measure(t->server, ret_before, err);
        bystanders_stop(pids);
        if (r == 0)
                r = start_sleeping(&c, err);
        return r < 0 ? r : measure(t->server, ret_after, err);
}

static int memory_of_commands(struct turn *t, struct err *err)
{
        double before = 0, after = 0;
        int r = contender_start(t->server, err);
        if (r == 0)
                r = run_commands(t, &before, &after, err);
        contender_stop(t->server);
        if (r == 0)
                samples_add(&t->into[0], (after - before) / COMMANDS);
        return r;
}

/* --- start-up and size -------------------------------------------------------------------------------------------- */

static int start_up(struct turn *t, struct err *err)
{
        int r = 0;
        for (size_t n = 0; r == 0 && n < STARTS; n++) {
                _client_ struct client c = CLIENT_INIT;
                uint64_t start = now_ns();
                r = contender_start(t->server, err);
                if (r == 0)
                        r = client_open(&c, t, CLIENT_ROOM_SMALL, err);
                samples_add(&t->into[0], us_since(start));
                contender_stop(t->server);
        }
        return r;
}

/* The size of the static program, which `make bench` builds in a directory beside the measured build. */
static int binary_size(struct turn *t, struct err *err)
{
        struct stat st;
        const char *slash = strrchr(t->server->program, '/');
        _free_ char *shipped =
                mem_printf("%.*s/static/farhand", slash ? (int)(slash - t->server->program) : 1,
                           slash ? t->server->program : ".");
        if (stat(shipped, &st) < 0 && stat(t->server->program, &st) < 0)
                return err_set(err, 0, -errno, "%s: %s", t->server->program, errno_text(errno));
        samples_add(&t->into[0], (double)st.st_size);
        return 0;
}

const struct row rows_system[] = {
        { .name = "memory",
          .is_solitary = true,
          .rounds = 3,
          .server = memory_of_connections,
          .metrics = { { "idle", "idle memory (PSS)", UNIT_BYTES,
                         .goals = { { GOAL_REFERENCE, 1.0 / 12, "<= 1/12 x reference" } } },
                       { "connections", "1,000 idle connections", UNIT_BYTES,
                         .goals = { { GOAL_REFERENCE, 1.0 / 12, "<= 1/12 x reference" } } },
                       { .name = "connection", .title = "- growth for one of them", .unit = UNIT_BYTES } } },
        { .name = "process-memory",
          .is_solitary = true,
          .rounds = 3,
          .server = memory_of_commands,
          .metrics = { { "growth", "one running process (growth of PSS)", UNIT_BYTES,
                         .goals = { { GOAL_VALUE, 16 * 1024, "<= 16 KiB" } } } } },
        { .name = "start",
          .is_solitary = true,
          .server = start_up,
          .metrics = { { "latency", "start until accepting", UNIT_US,
                         .goals = { { GOAL_REFERENCE, 1.0 / 3, "<= 1/3 x reference" } } } } },
        { .name = "size",
          .is_solitary = true,
          .rounds = 1,
          .server = binary_size,
          .metrics = { { "bytes", "binary", UNIT_BYTES, .goals = { { GOAL_VALUE, 3e6, "< 3 MB" } } } } },
        { 0 },
};
