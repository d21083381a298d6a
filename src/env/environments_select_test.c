/* environments_select_test: which source decides, where the files are, and what a name means. */
#include "env/environments_select.h"

#include "unit.h"

#include <errno.h>

#define FILE_TEXT(literal)                                                               \
        {                                                                                \
                .path = "/x/environments.toml", .text = { literal, sizeof(literal) - 1 } \
        }
#define NO_FILE                                                  \
        {                                                        \
                .path = "/x/environments.toml", .error = -ENOENT \
        }

/* Returns the decision as text: the source, then each environment, with an asterisk before the default; or the text of the
 * error. */
static const char *decide(struct arena *a, const struct environment_inputs *in)
{
        struct environments e;
        struct err err = ERR_INIT;

        if (environments_select(a, in, &e, &err) < 0)
                return arena_dup(a, slice_from_str(err.text));
        const char *text =
                arena_printf(a, "%s:%s", e.source ? e.source : "-", e.is_disabled ? " disabled" : "");
        for (size_t i = 0; i < e.count; i++)
                text = arena_printf(a, "%s %s%s%s%s", text, i == e.default_index ? "*" : "", e.list[i].id,
                                    e.list[i].url ? "=" : "", e.list[i].url ? e.list[i].url : "");
        return text;
}

#define FARHAND_FILE FILE_TEXT("default='f'\n[[environments]]\nid='f'\nurl='ws://f'")
#define CODEX_FILE FILE_TEXT("[[environments]]\nid='c'\nurl='ws://c'")

TEST(the_first_source_that_says_something_decides)
{
        static const struct {
                struct environment_inputs in;
                const char *expect;
        } rows[] = {
                { { .farhand = NO_FILE, .codex = NO_FILE }, "-: *local" },
                { { .url = NULL }, "-: *local" }, /* nothing says where the files are */
                { { .url = " unix:/s ",
                    .name = "f",
                    .variables = { .farhand_url = "ws://u", .codex_exec_server_url = "ws://x" },
                    .farhand = FARHAND_FILE },
                  "--url: *remote=unix:/s" },
                { { .variables = { .farhand_url = "ws://u", .codex_exec_server_url = "none" },
                    .farhand = FARHAND_FILE,
                    .codex = CODEX_FILE },
                  "FARHAND_URL: *remote=ws://u" },
                { { .name = "f", .variables = { .farhand_url = "ws://u" }, .farhand = FARHAND_FILE },
                  "/x/environments.toml: local *f=ws://f" },
                { { .variables = { .farhand_url = " \t", .codex_exec_server_url = "ws://x" },
                    .farhand = FARHAND_FILE,
                    .codex = CODEX_FILE },
                  "/x/environments.toml: local *f=ws://f" },
                { { .variables = { .codex_exec_server_url = "none" },
                    .farhand = NO_FILE,
                    .codex = CODEX_FILE },
                  "/x/environments.toml: *local c=ws://c" },
                { { .variables = { .codex_exec_server_url = "none" },
                    .farhand = FILE_TEXT(""),
                    .codex = CODEX_FILE },
                  "/x/environments.toml: *local" },
                { { .variables = { .codex_exec_server_url = " ws://x " },
                    .farhand = NO_FILE,
                    .codex = NO_FILE },
                  "CODEX_EXEC_SERVER_URL: *remote=ws://x" },
                { { .variables = { .codex_exec_server_url = "" } }, "-: *local" },
                { { .variables = { .codex_exec_server_url = " \n" } }, "-: *local" },
                { { .variables = { .codex_exec_server_url = " NoNe " } }, "CODEX_EXEC_SERVER_URL: disabled" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(decide(&a, &rows[i].in), rows[i].expect);
        }
}

TEST(a_name_takes_the_place_of_the_default)
{
        static const struct {
                struct environment_inputs in;
                const char *expect;
        } rows[] = {
                { { .name = "local" }, "-: *local" },
                { { .name = "ssh://far", .farhand = FARHAND_FILE }, "--env: *remote=ssh://far" },
                { { .name = "ssh://-far" },
                  "--env: environment url `ssh://-far` is invalid: its host is neither a name nor an "
                  "address" },
                { { .name = "local", .farhand = FARHAND_FILE }, "/x/environments.toml: *local f=ws://f" },
                { { .name = "c", .farhand = NO_FILE, .codex = CODEX_FILE },
                  "/x/environments.toml: local *c=ws://c" },
                { { .name = "remote", .variables = { .codex_exec_server_url = "ws://x" } },
                  "CODEX_EXEC_SERVER_URL: *remote=ws://x" },
                { { .name = "c", .farhand = FARHAND_FILE, .codex = CODEX_FILE },
                  "unknown environment `c`; known: local, f" },
                { { .name = "F", .farhand = FARHAND_FILE }, "unknown environment `F`; known: local, f" },
                { { .name = "", .farhand = FARHAND_FILE }, "unknown environment ``; known: local, f" },
                { { .name = "none" }, "unknown environment `none`; known: local" },
                { { .name = "\x1b[2J" }, "unknown environment `\\x1b[2J`; known: local" },
                { { .name = "local", .variables = { .codex_exec_server_url = "ws://x" } },
                  "unknown environment `local`; known: remote" },
                { { .name = "local", .farhand = FILE_TEXT("include_local = false") },
                  "unknown environment `local`; known: none" },
                { { .name = "local", .variables = { .codex_exec_server_url = "none" } },
                  "unknown environment `local`: CODEX_EXEC_SERVER_URL is `none`, so there are none" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(decide(&a, &rows[i].in), rows[i].expect);
        }
}

TEST(a_source_that_cannot_be_read_is_an_error)
{
        static const struct {
                struct environment_inputs in;
                const char *expect;
        } rows[] = {
                { { .farhand = { .path = "/x\n/e", .error = -EACCES }, .codex = CODEX_FILE },
                  "failed to read environment config `/x\\x0a/e`: Permission denied (os error 13)" },
                { { .farhand = { .path = "/e", .error = -ENOTDIR }, .codex = NO_FILE },
                  "failed to read environment config `/e`: Not a directory (os error 20)" },
                { { .farhand = NO_FILE,
                    .codex = { .path = "/e", .error = -EFBIG, .why = "it has more than 1 MiB" } },
                  "failed to read environment config `/e`: it has more than 1 MiB (os error 27)" },
                { { .farhand = FILE_TEXT("x"), .codex = CODEX_FILE },
                  "failed to parse environment config `/x/environments.toml`: line 1, column 2: "
                  "expected '=' behind the key, found the end of the file" },
                { { .farhand = FILE_TEXT("default='x'"), .codex = CODEX_FILE },
                  "/x/environments.toml: default environment `x` is not configured" },
                { { .url = "" }, "--url: environment url cannot be empty" },
                { { .url = "h:1" }, "--url: environment url `h:1` must use ws:// or wss://" },
                { { .variables = { .farhand_url = "none" } },
                  "FARHAND_URL: environment url `none` must use ws:// or wss://" },
                { { .variables = { .codex_exec_server_url = "http://x" } },
                  "CODEX_EXEC_SERVER_URL: environment url `http://x` must use ws:// or wss://" },
                /* A file that is not needed is not an error when it cannot be read. */
                { { .url = "ws://u", .farhand = { .path = "/e", .error = -EACCES } },
                  "--url: *remote=ws://u" },
                { { .farhand = FARHAND_FILE, .codex = { .path = "/e", .error = -EACCES } },
                  "/x/environments.toml: local *f=ws://f" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                eq_str(decide(&a, &rows[i].in), rows[i].expect);
        }
}

TEST(the_token_variable_is_for_our_own_urls_only)
{
        static const struct {
                struct environment_inputs in;
                bool has_token;
        } rows[] = {
                { { .url = "ws://u", .variables = { .farhand_token = "t" } }, true },
                { { .variables = { .farhand_token = "t", .farhand_url = "unix:/s" } }, true },
                { { .url = "ws://u" }, false },
                { { .url = "ws://u", .variables = { .farhand_token = "" } }, false },
                { { .url = "ssh://u", .variables = { .farhand_token = "t" } }, false },
                { { .variables = { .farhand_token = "t", .codex_exec_server_url = "ws://x" } }, false },
                { { .variables = { .farhand_token = "t" }, .farhand = FARHAND_FILE }, false },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                struct environments e;
                struct err err = ERR_INIT;
                eq_int(environments_select(&a, &rows[i].in, &e, &err), 0);
                const char *token = environments_default(&e)->token_env;
                eq_str(token ? token : "-", rows[i].has_token ? "FARHAND_TOKEN" : "-");
        }
}

TEST(files_are_asked_for_only_when_they_matter)
{
        ok(environments_need_files(&(struct environment_inputs){ .url = NULL }));
        ok(environments_need_files(&(struct environment_inputs){ .variables = { .farhand_url = " " } }));
        ok(environments_need_files(
                &(struct environment_inputs){ .name = "a", .variables = { .farhand_url = "ws://h" } }));
        ok(!environments_need_files(
                &(struct environment_inputs){ .variables = { .farhand_url = "ws://h" } }));
        ok(!environments_need_files(&(struct environment_inputs){ .url = "ws://h", .name = "a" }));
}

TEST(the_files_are_where_the_variables_say)
{
        static const struct {
                struct environment_variables v;
                const char *farhand, *codex;
        } rows[] = {
                { { .home = "/h" }, "/h/.config/farhand/environments.toml", "/h/.codex/environments.toml" },
                { { .home = NULL }, NULL, NULL },
                { { .home = "" }, NULL, NULL },
                { { .home = "relative", .cwd = "/w" }, NULL, NULL },
                { { .home = "/h", .xdg_config_home = "/c" },
                  "/c/farhand/environments.toml",
                  "/h/.codex/environments.toml" },
                { { .home = "/h", .xdg_config_home = "c", .cwd = "/w" },
                  "/h/.config/farhand/environments.toml",
                  "/h/.codex/environments.toml" },
                { { .home = "/h", .xdg_config_home = "" },
                  "/h/.config/farhand/environments.toml",
                  "/h/.codex/environments.toml" },
                { { .home = "/h", .xdg_config_home = "/c", .farhand_home = "/f", .codex_home = "/x" },
                  "/f/environments.toml",
                  "/x/environments.toml" },
                { { .farhand_home = "f", .codex_home = "x", .cwd = "/w" },
                  "/w/f/environments.toml",
                  "/w/x/environments.toml" },
                { { .farhand_home = "f", .codex_home = "x" }, "f/environments.toml", "x/environments.toml" },
                { { .home = "/h", .farhand_home = "", .codex_home = "" },
                  "/h/.config/farhand/environments.toml",
                  "/h/.codex/environments.toml" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                _arena_ struct arena a = ARENA_INIT;
                const char *farhand = environments_path_farhand(&a, &rows[i].v);
                const char *codex = environments_path_codex(&a, &rows[i].v);
                eq_str(farhand ? farhand : "-", rows[i].farhand ? rows[i].farhand : "-");
                eq_str(codex ? codex : "-", rows[i].codex ? rows[i].codex : "-");
        }
}
