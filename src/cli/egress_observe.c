/* egress_observe: `farhand egress observe`: runs a command in a sandbox in which it reaches every public host that it asks for, and prints
 * which ones these were, as options and as rules. It answers the server's questions itself, with yes; private addresses stay closed. */
#include "cli/egress.h"

#include "base/map.h"
#include "base/mem.h"
#include "base/printable.h"
#include "cli/command_args.h"
#include "cli/network_denials.h"
#include "cli/pump.h"
#include "cli/rules.h"

#include <stdio.h>
#include <unistd.h>

#define HOSTS_MAX 1024
#define ASK_MS 60000 /* the answers come at once */

struct host {
        const char *name, *protocol;
        uint16_t port;
};

struct observation {
        struct remote *remote;
        struct network_denials *denials;
        struct arena arena;
        struct map known;
        struct host hosts[HOSTS_MAX];
        size_t count;
        bool has_ports, is_over;
        int code;
};

static void note(struct observation *o, const struct farhand_network_question *q)
{
        const char *key = o->has_ports ? arena_printf(&o->arena, "%s %u", q->host, (unsigned)q->port)
                                       : arena_dup(&o->arena, slice_from_str(q->host));
        if (o->count == HOSTS_MAX || map_find(&o->known, slice_from_str(key)))
                return;
        map_put(&o->known, slice_from_str(key), o);
        o->hosts[o->count++] = (struct host){ .name = arena_dup(&o->arena, slice_from_str(q->host)),
                                              .protocol = rules_network_protocol(q->protocol),
                                              .port = o->has_ports ? q->port : 0 };
}

static void on_network(struct farhand_process *p, void *arg, const struct farhand_network_question *q)
{
        struct farhand_network_answer yes = FARHAND_NETWORK_ANSWER_INIT;
        if (q->action != FARHAND_NETWORK_ASK)
                return;
        note(arg, q);
        yes.remember = FARHAND_REMEMBER_PROCESS;
        (void)farhand_process_answer_network(p, q->id, &yes, NULL);
}

static void on_network_decision(UNUSED struct farhand_process *p, void *arg,
                                const struct farhand_network_decision *decision)
{
        network_denials_take(((struct observation *)arg)->denials, decision);
}

static void on_output(UNUSED struct farhand_process *p, UNUSED void *arg, enum farhand_stream stream,
                      const void *bytes, size_t n)
{
        FILE *to = stream == FARHAND_STDERR ? stderr : stdout;
        (void)fwrite(bytes, 1, n, to);
        (void)fflush(to);
}

static void on_exited(UNUSED struct farhand_process *p, void *arg, const struct farhand_exit *exit)
{
        ((struct observation *)arg)->code = exit->code < 0 || exit->code > 255 ? PUMP_FAILED : exit->code;
}

static void on_closed(UNUSED struct farhand_process *p, void *arg)
{
        ((struct observation *)arg)->is_over = true;
}

static void on_failed(UNUSED struct farhand_process *p, void *arg, const struct farhand_error *error)
{
        struct observation *o = arg;
        remote_say(o->remote, "%s", error->text);
        o->is_over = true;
}

/* Prints what was observed, on stderr: stdout is the command's. A host that can be no rule has none. */
static void print(const struct observation *o)
{
        _arena_ struct arena a = ARENA_INIT;
        if (o->count == 0)
                fprintf(stderr, "farhand: the command has asked for no host\n");
        for (size_t i = 0; i < o->count; i++) {
                const struct host *h = &o->hosts[i];
                bool has_colon = h->port > 0 && strchr(h->name, ':');
                fprintf(stderr, has_colon ? "--allow [%s]" : "--allow %s", printable_str(&a, h->name));
                if (h->port > 0)
                        fprintf(stderr, ":%u", (unsigned)h->port);
                fputc('\n', stderr);
        }
        for (size_t i = 0; i < o->count; i++) {
                const struct exec_network_addition add = { .host = o->hosts[i].name,
                                                           .protocol = o->hosts[i].protocol,
                                                           .port = o->hosts[i].port };
                const char *line = rules_network_line(&a, &add);
                if (line)
                        fprintf(stderr, "%s\n", line);
        }
        if (o->count == HOSTS_MAX)
                fprintf(stderr, "farhand: there may be more: the list is full\n");
}

static int observe(struct observation *o, struct farhand *f, struct farhand_command *command)
{
        static const struct farhand_process_events events = { .on_output = on_output,
                                                              .on_exited = on_exited,
                                                              .on_closed = on_closed,
                                                              .on_failed = on_failed,
                                                              .on_network = on_network,
                                                              .on_network_decision = on_network_decision };
        struct farhand_network network = FARHAND_NETWORK_INIT;
        struct farhand_error error = { 0 };
        network.ask_timeout_ms = ASK_MS;
        command->network = &network;
        o->has_ports = farhand_has_capability(f, "egressV1");
        struct farhand_process *p = farhand_start(f, command, &events, o, &error);
        while (p && !o->is_over && farhand_wait(f, -1, &error) == 0)
                ;
        if (!p || !o->is_over)
                remote_say(o->remote, "%s", error.text);
        else
                print(o);
        farhand_process_free(p);
        return o->code;
}

static int run(struct remote *r, struct command_args *args, char **argv)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        struct farhand_command command = FARHAND_COMMAND_INIT;
        options.client_name = "farhand egress observe";
        struct farhand *f = remote_connect(r, &options);
        if (!f)
                return PUMP_FAILED;
        struct observation *o = mem_new(struct observation);
        o->remote = r;
        o->code = PUMP_FAILED;
        o->denials = network_denials_new(r);
        map_init(&o->known);
        command.argv = (const char *const *)argv;
        if (!args->is_read_only && !args->profile_file)
                args->is_workspace_write = true; /* most commands that fetch something write it down */
        int code =
                command_args_apply(args, r, f, false, &command) == 0 ? observe(o, f, &command) : PUMP_FAILED;
        network_denials_free(o->denials);
        map_release(&o->known);
        arena_release(&o->arena);
        free(o);
        farhand_free(f);
        return code;
}

int egress_observe(int argc, char **argv)
{
        struct remote remote = { 0 };
        struct command_args command = { 0 };
        const struct arg table[] = { REMOTE_ARGS(&remote), COMMAND_ARGS(&command), { .name = NULL } };
        const struct args spec = {
                .usage = "farhand egress observe [OPTIONS] [--] COMMAND [ARG]...",
                .about = "Run a command in a sandbox that reaches every public host, and print the hosts "
                         "that it needs.",
                .table = table,
                .operands = OFFER_COMMAND,
                .behind = OFFER_COMMAND,
        };
        int rest = 0, code = 2;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed == ARGS_HELP)
                code = 0;
        else if (parsed == ARGS_OK && rest == argc)
                fprintf(stderr, "error: farhand egress observe needs a command\n");
        else if (parsed == ARGS_OK && command.has_network)
                fprintf(stderr, "error: --network leaves the network open: nothing could be observed\n");
        else if (parsed == ARGS_OK && command_args_check(&command))
                code = remote_choose(&remote) == 0 ? run(&remote, &command, argv + rest) : PUMP_FAILED;
        command_args_release(&command);
        remote_release(&remote);
        return code;
}
