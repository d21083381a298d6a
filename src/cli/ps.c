/* ps: `farhand ps`, `farhand logs` and `farhand kill`: list the processes of a server, print their output, and signal them. None of
 * these disturbs the client that has started a process.
 */
#include "cli/cli.h"

#include "base/base64.h"
#include "base/clock.h"
#include "base/printable.h"
#include "cli/detached.h"
#include "cli/outlet.h"
#include "cli/pump.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#define WAIT_MS "10000"
#define HEAD "ID            PID     AGE  STATE    COMMAND"
static struct farhand *connect_for(struct remote *r, const char *name)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        options.client_name = name;
        return remote_connect(r, &options);
}

/* ---- ps ---- */

static void print_age(int64_t started_at_ms)
{
        int64_t seconds = MAX((clock_unix_ms() - started_at_ms) / 1000, (int64_t)0);
        if (seconds < 3600)
                printf("%5" PRId64 ":%02" PRId64, seconds / 60, seconds % 60);
        else
                printf("%3" PRId64 "h%02" PRId64 "m", seconds / 3600, seconds / 60 % 60);
}

/* Prints the words of a command, without control characters for the terminal. */
static void print_command(struct answer *a, const struct json *process)
{
        const struct json *argv = json_get(&a->doc, process, S("argv"));
        for (const struct json *it = argv && argv->type == JSON_ARRAY ? argv + 1 : NULL;
             it && it < a->doc.tokens + argv->end; it = a->doc.tokens + it->end)
                if (it->type == JSON_STRING)
                        printf(" %s", printable_text(&a->arena, json_string(&a->arena, &a->doc, it)));
}

static void print_processes(struct answer *a)
{
        const struct json *list = json_get(&a->doc, a->root, S("processes"));
        puts(HEAD);
        for (const struct json *it = list && list->type == JSON_ARRAY ? list + 1 : NULL;
             it && it < a->doc.tokens + list->end; it = a->doc.tokens + it->end) {
                char state[24] = "running";
                if (!answer_is_true(a, it, "running"))
                        (void)snprintf(state, sizeof(state), "exit %" PRId64,
                                       answer_number(a, it, "exitCode", -1));
                printf("%-9.9s %7" PRId64 " ",
                       printable_str(&a->arena, detached_id(answer_text(a, it, "sessionId"))),
                       answer_number(a, it, "pid", -1));
                print_age(answer_number(a, it, "startedAtMs", clock_unix_ms()));
                printf("  %-8s", state);
                print_command(a, it);
                putchar('\n');
        }
}

int cmd_ps(int argc, char **argv)
{
        struct remote remote = { 0 };
        bool is_json = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "json", ARG_FLAG, NULL, "print the server's list as one JSON object", .target = &is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand ps [OPTIONS]",
                .about = "List what runs on a server; without one: what was started here with --detach or in "
                         "a shell.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        _answer_ struct answer list = ANSWER_INIT;
        remote.is_none_fine = true;
        int chosen = remote_choose_lasting(&remote, false), code = PUMP_FAILED;
        struct farhand *f = chosen == 0 ? connect_for(&remote, "farhand ps") : NULL;
        if (!f && remote.is_none) { /* there is no background server, so nothing runs */
                puts(is_json ? "{\"processes\":[]}" : HEAD);
                code = 0;
        }
        if (f && answer_get(&list, &remote, f, "process/list", "{\"scope\":\"server\"}") == 0) {
                if (is_json)
                        answer_print(&list, buf_slice(&list.text));
                else
                        print_processes(&list);
                code = fflush(stdout) == 0 ? 0 : PUMP_FAILED;
        }
        farhand_free(f);
        remote_release(&remote);
        return code;
}

/* ---- logs ---- */

/* Writes the chunks of one answer. Returns false when they cannot be read or written. */
static bool write_chunks(struct answer *a, struct outlet *out, struct outlet *err)
{
        const struct json *chunks = json_get(&a->doc, a->root, S("chunks"));
        for (const struct json *it = chunks && chunks->type == JSON_ARRAY ? chunks + 1 : NULL;
             it && it < a->doc.tokens + chunks->end; it = a->doc.tokens + it->end) {
                const char *text = answer_text(a, it, "chunk");
                char *bytes = arena_alloc(&a->arena, base64_decoded_max(strlen(text)) + 1);
                ssize_t n = base64_decode(bytes, text, strlen(text), NULL);
                struct outlet *o = strcmp(answer_text(a, it, "stream"), "stderr") == 0 ? err : out;
                if (n < 0)
                        return false;
                outlet_put(o, bytes, (size_t)n);
                while (outlet_waiting(o) > 0) {
                        (void)poll(&(struct pollfd){ .fd = o->fd, .events = POLLOUT }, 1, -1);
                        outlet_flush(o);
                }
                if (o->is_broken)
                        return false;
        }
        return true;
}

/* Prints each chunk as the server has sent it, a line for each, and behind the last what is known of the end. */
static bool print_chunks(struct answer *a, bool is_last)
{
        const struct json *chunks = json_get(&a->doc, a->root, S("chunks")),
                          *gap = json_get(&a->doc, a->root, S("gap"));
        if (gap && gap->type == JSON_OBJECT)
                answer_print(a, slice_from_str(arena_printf(&a->arena, "{\"gap\":%.*s}",
                                                            SLICE(json_raw(&a->doc, gap)))));
        if (chunks && chunks->type == JSON_ARRAY)
                json_each (it, &a->doc, chunks)
                        if (it->type == JSON_OBJECT)
                                answer_print(a, json_raw(&a->doc, it));
        if (is_last) {
                bool has_exited = answer_is_true(a, a->root, "exited");
                const char *code = has_exited ? arena_printf(&a->arena, "%" PRId64,
                                                             answer_number(a, a->root, "exitCode", -1))
                                              : "null";
                printf("{\"exited\":%s,\"exitCode\":%s,\"closed\":%s,\"nextSeq\":%" PRId64 "}\n",
                       has_exited ? "true" : "false", code,
                       answer_is_true(a, a->root, "closed") ? "true" : "false",
                       answer_number(a, a->root, "nextSeq", 1));
        }
        return fflush(stdout) == 0;
}

static int logs(struct remote *r, struct farhand *f, const char *id, bool follows, bool is_json)
{
        _answer_ struct answer list = ANSWER_INIT;
        _answer_ struct answer read = ANSWER_INIT;
        struct detached found;
        struct outlet out, err;
        int result = detached_process(&list, r, f, id, &found);
        outlet_init(&out, STDOUT_FILENO);
        outlet_init(&err, STDERR_FILENO);
        for (int64_t next = 1; result == 0;) {
                const char *more = arena_printf(&list.arena, ",\"afterSeq\":%" PRId64 ",\"waitMs\":%s",
                                                next - 1, follows ? WAIT_MS : "0");
                result = answer_get(&read, r, f, "process/read", detached_params(&list.arena, &found, more));
                if (result < 0)
                        break;
                bool is_last = !follows || answer_is_true(&read, read.root, "closed");
                if (is_json ? !print_chunks(&read, is_last) : !write_chunks(&read, &out, &err))
                        break;
                next = answer_number(&read, read.root, "nextSeq", next);
                if (is_last)
                        break;
        }
        outlet_release(&out);
        outlet_release(&err);
        return result == 0 ? 0 : PUMP_FAILED;
}

int cmd_logs(int argc, char **argv)
{
        struct remote remote = { 0 };
        bool follows = false, is_json = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "follow", ARG_FLAG, NULL, "go on until the command has ended", .letter = 'f',
                  .target = &follows },
                { "json", ARG_FLAG, NULL, "print one JSON object for each piece of output",
                  .target = &is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand logs [OPTIONS] ID",
                .about = "Print what a command has written, as far as its server still keeps it.",
                .table = table,
                .is_mixed = true,
        };
        int rest = 0;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (rest + 1 != argc) {
                fprintf(stderr, "error: farhand logs needs one id, as farhand ps shows it\n");
                return 2;
        }
        struct farhand *f =
                remote_choose_lasting(&remote, false) == 0 ? connect_for(&remote, "farhand logs") : NULL;
        int code = f ? logs(&remote, f, argv[rest], follows, is_json) : PUMP_FAILED;
        farhand_free(f);
        remote_release(&remote);
        return code;
}

/* ---- kill ---- */

/* Reads a signal such as TERM, SIGTERM or 15. Returns 0 when the text is no signal. */
static int parse_signal(const char *text)
{
        uint64_t number;
        if (slice_to_u64(slice_from_str(text), 64, &number) == 0)
                return (int)number;
        if (strncmp(text, "SIG", 3) == 0)
                text += 3;
        for (int signo = 1; signo < NSIG; signo++) {
                const char *name = sigabbrev_np(signo);
                if (name && strcmp(name, text) == 0)
                        return signo;
        }
        return 0;
}

/* Sends a signal to a command. SIGKILL ends all processes that the command has started; other signals go to its process group, and are never sent
 * twice: when the connection is lost before the answer, that is an error. */
static int kill_one(struct remote *r, struct farhand *f, const char *id, int signo)
{
        _answer_ struct answer list = ANSWER_INIT;
        struct farhand_target target = FARHAND_TARGET_INIT;
        struct farhand_error error;
        struct detached found;
        int result = detached_process(&list, r, f, id, &found);
        if (result < 0)
                return result;
        if (!found.is_running) {
                remote_say(r, "%s has ended already", id);
                return -ESRCH;
        }
        target.process_id = found.process_id;
        target.session_id = found.session_id;
        result = signo == SIGKILL ? farhand_target_terminate(f, &target, -1, &error)
                                  : farhand_target_signal(f, &target, signo, FARHAND_SCOPE_GROUP, &error);
        if (result < 0)
                remote_say(r, "%s", error.text);
        return result;
}

int cmd_kill(int argc, char **argv)
{
        struct remote remote = { 0 };
        const char *name = "TERM";
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "signal", ARG_STRING, "SIGNAL",
                  "a name or a number (default TERM); KILL ends the whole tree", .letter = 's',
                  .target = &name },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand kill [OPTIONS] ID...",
                .about = "Send a signal to commands.",
                .table = table,
                .is_mixed = true,
        };
        int rest = 0;
        enum args_result parsed = args_parse(&spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        int signo = parse_signal(name);
        if (signo == 0)
                return args_exit_code(args_refuse("signal", name, "the name or the number of a signal"));
        if (rest == argc) {
                fprintf(stderr, "error: farhand kill needs an id, as farhand ps shows it\n");
                return 2;
        }
        struct farhand *f =
                remote_choose_lasting(&remote, false) == 0 ? connect_for(&remote, "farhand kill") : NULL;
        int code = f ? 0 : PUMP_FAILED;
        for (int i = rest; f && i < argc; i++)
                if (kill_one(&remote, f, argv[i], signo) < 0)
                        code = 1;
        farhand_free(f);
        remote_release(&remote);
        return code;
}
