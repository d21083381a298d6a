/* task_exit_test: tests the reason of an exit for every cause, and the names of signals. */
#include "proto/process.h"
#include "session/task_internal.h"
#include "unit.h"

#include <signal.h>

/* Make a status as wait(2) returns it. */
#define EXITED(code) ((code) << 8)
#define KILLED(signo) (signo)
#define DUMPED(signo) ((signo) | 0x80)

static uint32_t met; /* enum spawn_met: the limits that the next record says were reached */

/* Returns the JSON that is written for a process that ended with `status`. */
static const char *record(enum end_cause cause, int status, struct process_limits *limits)
{
        static struct buf text = { .p = buf_empty, .cap = 64 * KIB };
        struct process process = {
                .exit = { .status = status,
                          .user_us = 1999,
                          .system_us = 2000,
                          .max_rss_bytes = 4096,
                          .met = met },
                .exit_signal = (status & 0x7f),
        };
        struct task task = { .process = &process, .cause = cause, .limits = limits };
        struct jsonw w;

        buf_truncate(&text, 0);
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        task_exit_write(&w, &task);
        jsonw_object_end(&w);
        eq_int(jsonw_end(&w), 0);
        return text.p;
}

#define RECORD(signal, dumped, reason)                                          \
        "{\"signal\":" signal ",\"coreDumped\":" dumped ",\"reason\":\"" reason \
        "\",\"usage\":{\"userMs\":1,\"systemMs\":2,\"maxRssBytes\":4096}}"

TEST(an_end_by_itself_is_an_exit_or_a_signal)
{
        eq_str(record(END_BY_ITSELF, EXITED(0), NULL), RECORD("null", "false", "exited"));
        eq_str(record(END_BY_ITSELF, EXITED(137), NULL), RECORD("null", "false", "exited"));
        eq_str(record(END_BY_ITSELF, KILLED(SIGKILL), NULL), RECORD("\"SIGKILL\"", "false", "signalled"));
        eq_str(record(END_BY_ITSELF, DUMPED(SIGSEGV), NULL), RECORD("\"SIGSEGV\"", "true", "signalled"));
}

TEST(a_signal_without_a_name_has_its_number)
{
        eq_str(record(END_BY_ITSELF, KILLED(34), NULL), RECORD("\"SIG34\"", "false", "signalled"));
        eq_str(record(END_BY_ITSELF, KILLED(64), NULL), RECORD("\"SIG64\"", "false", "signalled"));
}

TEST(the_cause_of_the_server_is_the_reason_for_every_status)
{
        static const int statuses[] = { EXITED(0), EXITED(9) };
        for (size_t i = 0; i < ARRAY_LEN(statuses); i++) {
                eq_str(record(END_TERMINATED, statuses[i], NULL), RECORD("null", "false", "terminated"));
                eq_str(record(END_WALL_LIMIT, statuses[i], NULL), RECORD("null", "false", "wallLimit"));
                eq_str(record(END_SILENCE_LIMIT, statuses[i], NULL), RECORD("null", "false", "silenceLimit"));
                eq_str(record(END_SESSION, statuses[i], NULL), RECORD("null", "false", "sessionEnd"));
                eq_str(record(END_SHUTDOWN, statuses[i], NULL), RECORD("null", "false", "serverShutdown"));
        }
        eq_str(record(END_TERMINATED, KILLED(SIGTERM), NULL), RECORD("\"SIGTERM\"", "false", "terminated"));
}

TEST(a_held_pipe_is_the_reason_unless_the_server_has_another_cause)
{
        met = SPAWN_MET_HELD;
        eq_str(record(END_BY_ITSELF, KILLED(SIGKILL), NULL), RECORD("\"SIGKILL\"", "false", "pipeHeld"));
        eq_str(record(END_TERMINATED, KILLED(SIGKILL), NULL), RECORD("\"SIGKILL\"", "false", "terminated"));
        met = 0;
}

TEST(the_signal_of_the_cpu_limit_is_that_limit_only_where_there_is_one)
{
        struct process_limits with = { .cpu_seconds = 1 }, without = { .wall_ms = 1 };

        eq_str(record(END_BY_ITSELF, KILLED(SIGXCPU), &with), RECORD("\"SIGXCPU\"", "false", "cpuLimit"));
        eq_str(record(END_BY_ITSELF, KILLED(SIGXCPU), &without), RECORD("\"SIGXCPU\"", "false", "signalled"));
        eq_str(record(END_BY_ITSELF, KILLED(SIGXCPU), NULL), RECORD("\"SIGXCPU\"", "false", "signalled"));
        eq_str(record(END_WALL_LIMIT, KILLED(SIGXCPU), &with), RECORD("\"SIGXCPU\"", "false", "wallLimit"));
}
