#include "server/exit_record.h"

#include "proto/process.h"

#include <signal.h>
#include <sys/wait.h>

static const char *reason_of(const struct task *t)
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
        if (p->exit.met & SPAWN_MET_MEMORY)
                return "memoryLimit";
        return p->exit_signal || p->has_failed ? "signalled" : "exited";
}

void exit_record_write(struct jsonw *w, const struct task *t)
{
        const struct process *p = t->process;
        const char *name = p->exit_signal ? sigabbrev_np(p->exit_signal) : NULL;
        char signal[16];
        if (name)
                snprintf(signal, sizeof(signal), "SIG%s", name);
        else
                snprintf(signal, sizeof(signal), "SIG%d", p->exit_signal); /* a real-time signal */
        jsonw_member_str(w, "signal", p->exit_signal ? signal : NULL);
        jsonw_member_bool(w, "coreDumped", WIFSIGNALED(p->exit.status) && WCOREDUMP(p->exit.status));
        jsonw_member_str(w, "reason", reason_of(t));
        jsonw_key(w, "usage");
        jsonw_object(w);
        jsonw_member_u64(w, "userMs", p->exit.user_us / 1000);
        jsonw_member_u64(w, "systemMs", p->exit.system_us / 1000);
        jsonw_member_u64(w, "maxRssBytes", p->exit.max_rss_bytes);
        jsonw_object_end(w);
        if (t->is_sandboxed) {
                jsonw_key(w, "denials");
                jsonw_raw(w, t->denials ? slice_from_str(t->denials) : S("[]"));
        }
}
