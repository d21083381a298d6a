/* connect: reads the options of `farhand connect`, opens its door and waits for its end. */
#include "door/connect.h"

#include "base/args.h"
#include "base/fd.h"
#include "cli/background.h"
#include "cli/pump.h"
#include "cli/remote.h"
#include "door/companion.h"
#include "door/door.h"
#include "door/relay.h"
#include "env/environments_file.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct wishes {
        const char *listen;
        bool is_json;
        char **command; /* NULL: there is no command */
};

/* ---- the door ---- */

/* Connects once, so that the user is told before the door opens that the environment cannot be reached. ssh may ask for a password
 * here, but not later, because the command has the terminal then. An environment that is a program is not tried: the program would
 * be started for nothing. */
static bool is_reachable(struct remote *r, const struct farhand_options *links)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_error error = { 0 };
        if (r->environment->kind == ENVIRONMENT_COMMAND) {
                remote_say(r,
                           "%s: each connection starts the program anew; a session ends with its connection",
                           r->environment->id);
                return true;
        }
        options.client_name = "farhand connect";
        struct farhand *f = remote_connect(r, &options);
        bool is_there = f != NULL;
        farhand_free(f);
        if (!is_there || r->environment->kind != ENVIRONMENT_SSH)
                return is_there;
        struct farhand_link *link = farhand_link_open(links, &error);
        is_there = link != NULL;
        farhand_link_free(link);
        if (!is_there)
                remote_say(r,
                           "%s: ssh must not have to ask when a connection is made again: use a key that an "
                           "agent holds, or ControlMaster in ~/.ssh/config (%s)",
                           r->environment->url, error.text);
        return is_there;
}

/* Warns when Codex has a file of environments: then it does not look at the variable that we set. */
static void warn_of_file(struct remote *r)
{
        struct environment_variables variables;
        environment_variables_read(&r->arena, &variables);
        const char *path = environments_path_codex(&r->arena, &variables);
        if (path && access(path, F_OK) == 0)
                remote_say(r, "%s exists: a Codex client reads that, and not CODEX_EXEC_SERVER_URL", path);
}

static int print_url(const struct door *d, bool is_json)
{
        _buf_ struct buf text = BUF_INIT(4096);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "url", d->url);
        jsonw_member_string(&w, "baseUrl", slice_from(d->url, d->base_chars));
        jsonw_member_str(&w, "token", d->token);
        jsonw_object_end(&w);
        if (jsonw_end(&w) < 0)
                return -ENOBUFS;
        printf("%s\n", is_json ? text.p : d->url);
        return fflush(stdout) == 0 ? 0 : -errno;
}

/* Lets connections in until the command ends, or, when `command` is NULL, until a signal asks us to end. Returns the exit code. */
static int serve(struct door *d, struct companion *command, int signals)
{
        for (;;) {
                struct signalfd_siginfo info;
                int code = 0;
                door_run(d, signals);
                if (read(signals, &info, sizeof(info)) != sizeof(info))
                        continue;
                if (info.ssi_signo == SIGCHLD)
                        background_reap(); /* a guest has started the background server again */
                else if (!command)
                        return 0;
                if (command && companion_on_signal(command, &info, &code))
                        return code;
        }
}

static int open_door(struct remote *r, const struct wishes *wishes, const struct listen_url *where)
{
        static struct door door; /* threads use it until the program ends */
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct companion command = { 0 };
        struct err err = ERR_INIT;
        (void)signal(SIGPIPE, SIG_IGN);
        remote_apply(r, &options);
        options.connect_timeout_ms =
                MIN(options.connect_timeout_ms, GUEST_HOLD_MS); /* no guest waits longer */
        if (!is_reachable(r, &options))
                return PUMP_FAILED;
        _close_ int signals = companion_watch_signals(&command, &err);
        if (signals < 0 || door_open(&door, r, &options, where, &err) < 0) {
                remote_say(r, "%s", err.text);
                return PUMP_FAILED;
        }
        door.guests.is_silent = wishes->command && isatty(STDERR_FILENO); /* the screen is the command's */
        if (!wishes->command)
                return print_url(&door, wishes->is_json) < 0 ? PUMP_FAILED : serve(&door, NULL, signals);
        warn_of_file(r);
        int failed = companion_start(&command, wishes->command, door.url, r->environment->token_env, &err);
        if (failed) {
                remote_say(r, "%s", err.text);
                return failed;
        }
        return serve(&door, &command, signals);
}

/* ---- the command line ---- */

static int connect_to(struct remote *r, const char *environment, const struct wishes *wishes)
{
        struct listen_url where = { 0 };
        struct err err = ERR_INIT;
        int code = 2;
        if (listen_url_parse(wishes->listen, &where, &err) < 0)
                fprintf(stderr, "error: %s\n", err.text);
        else if (where.kind == LISTEN_STDIO && (environment || wishes->command || wishes->is_json))
                fprintf(stderr, "error: --listen stdio leads to the server of this machine, and takes "
                                "nothing else\n");
        else if (where.kind == LISTEN_STDIO)
                code = relay_stdio(r);
        else if (where.kind != LISTEN_WS || !listen_url_is_loopback(&where))
                fprintf(stderr, "error: a door is for this machine alone: --listen ws://127.0.0.1:PORT or "
                                "ws://[::1]:PORT\n");
        else if (wishes->command && wishes->is_json)
                fprintf(stderr, "error: --json is for a door without a command\n");
        else {
                r->env_name = environment;
                code = remote_choose_lasting(r, true) == 0 ? open_door(r, wishes, &where) : PUMP_FAILED;
        }
        listen_url_release(&where);
        return code;
}

int cmd_connect(int argc, char **argv)
{
        static struct remote remote; /* threads use it until the program ends */
        struct wishes wishes = { .listen = LISTEN_URL_DEFAULT };
        const struct arg table[] = {
                { "listen", ARG_STRING, "URL", "where: ws://127.0.0.1:PORT, or stdio; 0: any free port",
                  .target = &wishes.listen },
                { "json", ARG_FLAG, NULL, "print URL and token as JSON", .target = &wishes.is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand connect [OPTIONS] [ENV] [-- COMMAND [ARG]...]",
                .about = "Open a door to an environment for programs that know only a URL: print its URL, or "
                         "run a command with CODEX_EXEC_SERVER_URL set. ENV is a name or a URL.",
                .table = table,
                .is_mixed = true,
                .operands = OFFER_ENVIRONMENT,
                .behind = OFFER_COMMAND,
        };
        int own = 1, rest = 0;
        while (own < argc && strcmp(argv[own], "--") != 0)
                own++;
        enum args_result parsed = args_parse(&spec, own, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (own - rest > 1 || own + 1 == argc) {
                fprintf(stderr, "error: farhand connect takes one environment%s\n",
                        own + 1 == argc ? ", and a command behind --" : "; a command stands behind --");
                return 2;
        }
        wishes.command = own < argc ? argv + own + 1 : NULL;
        return connect_to(&remote, rest < own ? argv[rest] : NULL, &wishes);
}
