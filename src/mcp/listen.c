/* listen: what the listener has to know of the protocol and of this program. */
#include "mcp/listen.h"

#include "base/mem.h"
#include "mcp/version.h"
#include "mcphttp/relay.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>

bool listen_is_session(void)
{
        if (!getenv(RELAY_VARIABLE))
                return false;
        (void)unsetenv(RELAY_VARIABLE);
        /* The process ends with its stdin, too. The signal is for moments in which stdin is not read. */
        (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
        (void)prctl(PR_SET_NAME, "farhand"); /* the kernel has named the process after /proc/self/exe */
        return true;
}

static bool knows_version(struct slice name)
{
        return mcp_version_find(name) != NULL;
}

static bool has_greeting(struct slice name)
{
        const struct mcp_version *version = mcp_version_find(name);
        return version && version->has_greeting;
}

int listen_run(const struct front_wishes *w, int argc, char **argv)
{
        _free_ const char **session = mem_zalloc(((size_t)argc + 2) * sizeof(*session));
        session[0] = "/proc/self/exe"; /* this program, also when its file has been replaced meanwhile */
        session[1] = "mcp";
        for (int i = 1; i < argc; i++)
                session[i + 1] = argv[i];
        struct front_options options = {
                .wishes = w,
                .argv = session,
                .knows_version = knows_version,
                .has_greeting = has_greeting,
        };
        return front_run(&options);
}
