/* env_check: `farhand env check`: connects to an environment, and says what its server offers. */
#include "cli/env.h"

#include "base/clock.h"
#include "base/printable.h"
#include "cli/answer.h"

#include <stdio.h>

#define ROUNDS 5

/* Returns the time of the shortest of ROUNDS round trips, in microseconds, or a negative number when one fails. */
static int64_t round_trip(struct remote *r, struct farhand *f)
{
        _answer_ struct answer status = ANSWER_INIT;
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < ROUNDS; i++) {
                uint64_t before = clock_mono_us();
                if (answer_get(&status, r, f, "environment/status", "{}") < 0)
                        return -1;
                best = MIN(best, clock_mono_us() - before);
        }
        return (int64_t)best;
}

static void print_line(struct answer *a, const char *what, const char *text)
{
        if (text[0])
                printf("%-10s %s\n", what, printable_str(&a->arena, text));
}

static int check(struct remote *r, struct farhand *f, bool is_json)
{
        _answer_ struct answer info = ANSWER_INIT;
        if (answer_get(&info, r, f, "environment/info", "{}") < 0)
                return 1;
        if (is_json) {
                answer_print(&info, buf_slice(&info.text));
                return 0;
        }
        int64_t us = round_trip(r, f);
        print_line(&info, "id", r->environment->id);
        print_line(&info, "shell", answer_text(&info, json_get(&info.doc, info.root, S("shell")), "path"));
        print_line(&info, "directory", answer_text(&info, info.root, "cwd"));
        print_line(&info, "sandbox", answer_text(&info, info.root, "sandboxBackend"));
        print_line(&info, "session", farhand_session_id(f));
        if (us >= 0)
                printf("%-10s %.2f ms\n", "round trip", (double)us / 1000);
        return us >= 0 ? 0 : 1;
}

int env_check(int argc, char **argv)
{
        struct remote remote = { 0 };
        bool is_json = false;
        const struct arg table[] = {
                REMOTE_ARGS(&remote),
                { "json", ARG_FLAG, NULL, "print what the server tells as one JSON object",
                  .target = &is_json },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand env check [--env NAME | --url URL] [--json]",
                .about = "Connect to an environment, and say what its server offers.",
                .table = table,
        };
        enum args_result parsed = args_parse(&spec, argc, argv, NULL);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        options.client_name = "farhand env check";
        struct farhand *f = remote_choose(&remote) == 0 ? remote_connect(&remote, &options) : NULL;
        int code = f ? check(&remote, f, is_json) : 1;
        farhand_free(f);
        remote_release(&remote);
        return code == 0 && fflush(stdout) != 0 ? 1 : code;
}
