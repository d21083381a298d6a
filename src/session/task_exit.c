/* task_exit: writes how a process ended, for answers, notifications and the log (docs/PROTOCOL.md). */
#include "proto/process.h"
#include "session/task_internal.h"

#include <signal.h>
#include <sys/wait.h>

const char *task_exit_reason(const struct task *t)
{
        const struct process *p = t->process;
        switch (t->cause) {
        case END_TERMINATED:
                return "terminated";
        case END_WALL_LIMIT:
                return "wallLimit";
        case END_SILENCE_LIMIT:
                return "silenceLimit";
        case END_SANDBOX:
                return "sandboxBroken";
        case END_SESSION:
                return "sessionEnd";
        case END_SHUTDOWN:
                return "serverShutdown";
        case END_BY_ITSELF:
                break;
        }
        if (p->exit_signal == SIGXCPU && t->limits && t->limits->cpu_seconds)
                return "cpuLimit";
        if (p->exit.met & SPAWN_MET_HELD)
                return "pipeHeld";
        if (p->exit.met & SPAWN_MET_MEMORY)
                return "memoryLimit";
        return p->exit_signal || p->has_failed ? "signalled" : "exited";
}

bool task_exit_signal(const struct process *p, char ret[static TASK_EXIT_SIGNAL_BYTES])
{
        if (!p->exit_signal)
                return false;
        const char *name = sigabbrev_np(p->exit_signal);
        if (name)
                snprintf(ret, TASK_EXIT_SIGNAL_BYTES, "SIG%s", name);
        else
                snprintf(ret, TASK_EXIT_SIGNAL_BYTES, "SIG%d", p->exit_signal); /* a real-time signal */
        return true;
}

void task_exit_code_write(struct jsonw *w, const struct task *t)
{
        if (process_has_exited(t->process))
                jsonw_member_i64(w, "exitCode", t->process->exit_code);
        else
                jsonw_member_null(w, "exitCode");
}

void task_exit_write(struct jsonw *w, const struct task *t)
{
        const struct process *p = t->process;
        char signal[TASK_EXIT_SIGNAL_BYTES];
        jsonw_member_str(w, "signal", task_exit_signal(p, signal) ? signal : NULL);
        jsonw_member_bool(w, "coreDumped", WIFSIGNALED(p->exit.status) && WCOREDUMP(p->exit.status));
        jsonw_member_str(w, "reason", task_exit_reason(t));
        jsonw_key(w, "usage");
        jsonw_object(w);
        jsonw_member_u64(w, "userMs", p->exit.user_us / 1000);
        jsonw_member_u64(w, "systemMs", p->exit.system_us / 1000);
        jsonw_member_u64(w, "maxRssBytes", p->exit.max_rss_bytes);
        jsonw_object_end(w);
        task_intercept_exit_write(w, t);
        task_network_exit_write(w, t);
        if (t->is_sandboxed) {
                jsonw_key(w, "denials");
                jsonw_raw(w, t->denials ? slice_from_str(t->denials) : S("[]"));
        }
}
