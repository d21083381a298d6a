/* spawn_deaths: counts spawners that cannot run, and logs the reason once, or again after a spawner that ran (spawn_deaths.h). */
#include "proc/spawn_deaths.h"

#include "base/limits.h"
#include "base/log.h"
#include "keeper/spawn_msg.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

/* Logs why spawners cannot run, unless that was done, or the reason is not known yet. */
static void log_reason(struct spawn_deaths *d)
{
        struct err err = ERR_INIT;
        if (d->is_logged || d->is_reason_due || !spawn_deaths_explain(d, &err))
                return;
        d->is_logged = true;
        log_error("spawner cannot run", "why=%s remedy=%s", log_quote(slice_from_str(err.text)),
                  log_quote(slice_from_str(err.remedy)));
}

/* Counts one more spawner that could not run, and logs the reason if it is known. */
static void count_death(struct spawn_deaths *d)
{
        d->pid = 0;
        d->count++;
        log_reason(d);
}

void spawn_deaths_unable(struct spawn_deaths *d, const char *call, int os_errno)
{
        d->call = call;
        d->os_errno = os_errno;
        d->is_unable = !d->is_reason_due; /* otherwise the spawner was counted before its report came */
        d->is_reason_due = false;
        log_reason(d);
}

void spawn_deaths_lost(struct spawn_deaths *d, pid_t pid, uint64_t lived_ms)
{
        bool is_unable = d->is_unable;
        if (lived_ms >= LIMIT_SPAWNER_LIVED_MS && !is_unable)
                *d = (struct spawn_deaths){ 0 };
        d->pid = pid;
        d->lived_ms = lived_ms;
        d->is_unable = false;
        if (is_unable)
                count_death(d);
}

void spawn_deaths_ended(struct spawn_deaths *d, int status)
{
        int signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
        bool is_known = d->pid == 0;
        d->pid = 0;
        if (is_known || d->lived_ms >= LIMIT_SPAWNER_LIVED_MS || signo == SIGKILL || signo == SIGTERM)
                return;
        d->signo = signo;
        d->is_reason_due = WIFEXITED(status) && WEXITSTATUS(status) == SPAWN_EXIT_UNABLE;
        count_death(d);
}

bool spawn_deaths_explain(const struct spawn_deaths *d, struct err *err)
{
        if (d->count == 0)
                return false;
        err->step = "spawner";
        err->remedy =
                "allow that call in the server's seccomp filter, or run the server without the emulator";
        err->os_errno = d->call ? d->os_errno : ECHILD;
        if (d->call)
                (void)err_set(err, 0, -d->os_errno, "no command can be started: %s: %s (os error %d)",
                              d->call, errno_text(d->os_errno), d->os_errno);
        else if (d->signo)
                (void)err_set(err, 0, -ECHILD, "no command can be started: signal %d ends the spawner%s",
                              d->signo, d->signo == SIGSYS ? ", because it makes a forbidden call" : "");
        else
                (void)err_set(err, 0, -ECHILD, "no command can be started: the spawner ends at once");
        return true;
}

uint64_t spawn_deaths_wait_ms(const struct spawn_deaths *d)
{
        uint64_t wait_ms = LIMIT_SPAWNER_RETRY_MS;
        for (unsigned i = 1; i < d->count && wait_ms < LIMIT_SPAWNER_RETRY_LAST_MS; i++)
                wait_ms *= 2;
        return MIN(wait_ms, (uint64_t)LIMIT_SPAWNER_RETRY_LAST_MS);
}
