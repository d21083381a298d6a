/* config: reads and checks the configuration. One table says which keys a file may have, their types and their bounds;
 * config_init sets the defaults. The subcommand writes its flags over the values of the file. */
#include "core/config.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "base/toml.h"

#include <errno.h>
#include <limits.h>
#include <unistd.h>

#define FILE_BYTES_MAX (1 * MIB)
#define MS_MAX (INT64_C(3650) * 24 * 3600 * 1000) /* ten years, so that sums of times cannot overflow */
#define BYTES_MAX (INT64_C(1) << 50)
#define COUNT_MAX (1 << 20)
#define SKEW_SECONDS_MAX 86400

enum key_type { KEY_STRING, KEY_INTEGER, KEY_BOOL, KEY_WS_AUTH, KEY_BACKEND, KEY_LOG_LEVEL, KEY_LOG_FORMAT };

/* A key of the configuration file. An integer must be within min…max, or 0 if zero_is_off. */
struct key {
        struct slice name;
        enum key_type type;
        size_t offset; /* of the member of struct config that gets the value */
        int64_t min, max;
        bool zero_is_off;
        bool is_fixed; /* cannot change while the server runs: objects were made with the value, or clients know it */
};

/* Writes a row of the table. Arguments after `member` set further members of struct key. */
#define KEY(key_type, key_name, member, ...)                                    \
        {                                                                       \
                .name = { key_name, sizeof(key_name) - 1 }, .type = (key_type), \
                .offset = offsetof(struct config, member), __VA_ARGS__          \
        }
#define FIXED_KEY(key_type, key_name, member) KEY(key_type, key_name, member, .is_fixed = true)
#define INTEGER_AT(key_name, member, from, to, ...) \
        KEY(KEY_INTEGER, key_name, member, .min = (from), .max = (to), __VA_ARGS__)
#define INTEGER(member, from, to) INTEGER_AT(#member, member, from, to)
#define CONN_INTEGER(member, from, to) INTEGER_AT(#member, conn.member, from, to)
#define FIXED_INTEGER(key_name, member, from, to) INTEGER_AT(key_name, member, from, to, .is_fixed = true)

static const struct key keys[] = {
        FIXED_KEY(KEY_STRING, "listen", conn.listen),
        INTEGER(concurrent_requests, 1, INT64_MAX),
        KEY(KEY_BOOL, "insecure_no_auth", insecure_no_auth),
        KEY(KEY_BOOL, "allow_other_namespaces", conn.allow_other_namespaces),

        KEY(KEY_WS_AUTH, "ws_auth", auth_options.mode),
        KEY(KEY_STRING, "ws_token_file", auth_options.token_file),
        KEY(KEY_STRING, "ws_admin_token_file", auth_options.admin_token_file),
        KEY(KEY_STRING, "ws_token_sha256", auth_options.token_sha256),
        KEY(KEY_STRING, "ws_shared_secret_file", auth_options.shared_secret_file),
        KEY(KEY_STRING, "ws_issuer", auth_options.issuer),
        KEY(KEY_STRING, "ws_audience", auth_options.audience),
        INTEGER_AT("ws_max_clock_skew_seconds", auth_options.max_clock_skew_seconds, 0, SKEW_SECONDS_MAX),

        INTEGER(shutdown_grace_period_ms, 0, MS_MAX),
        /* At most INT32_MAX, because json_parse has offsets, and printf has precisions, of this type. */
        FIXED_INTEGER("max_message_bytes", conn.max_message_bytes, 64 * KIB, INT32_MAX),
        INTEGER(max_processes_per_session, 1, COUNT_MAX),
        INTEGER(max_finished_processes_per_session, 1, COUNT_MAX),
        FIXED_INTEGER("retained_output_bytes_per_process", retained_output_bytes_per_process, 4 * KIB,
                      BYTES_MAX),
        INTEGER(retained_output_bytes_total, 4 * KIB, BYTES_MAX),
        KEY(KEY_BOOL, "allow_server_scope", allow_server_scope),
        KEY(KEY_BOOL, "allow_direct_exec", allow_direct_exec),
        KEY(KEY_BOOL, "allow_prepared_exec", allow_prepared_exec),
        INTEGER(detached_session_ttl_ms, 0, MS_MAX),
        INTEGER(max_detached_session_ttl_ms, 0, MS_MAX),
        INTEGER(exited_process_retention_ms, 0, MS_MAX),
        CONN_INTEGER(max_connections, 1, COUNT_MAX),
        INTEGER(max_sessions, 1, COUNT_MAX),
        FIXED_INTEGER("output_chunk_bytes", output_chunk_bytes, 4 * KIB, 1 * MIB),
        INTEGER_AT("ping_interval_ms", conn.ping_interval_ms, 50, MS_MAX, .zero_is_off = true),
        CONN_INTEGER(pong_timeout_ms, 0, MS_MAX),      /* 0: a silent connection is never closed */
        CONN_INTEGER(tcp_user_timeout_ms, 0, INT_MAX), /* unsigned int in tcp(7); 0: the system decides */

        FIXED_KEY(KEY_BACKEND, "sandbox_backend", sandbox_backend),
        KEY(KEY_LOG_LEVEL, "log_level", log_level),
        KEY(KEY_LOG_FORMAT, "log_format", log_format),
};

void config_init(struct config *c)
{
        *c = (struct config){
                .conn.listen = mem_strdup(LISTEN_URL_DEFAULT),
                .concurrent_requests = 1,
                .shutdown_grace_period_ms = 500,
                .conn.max_message_bytes = LIMIT_MESSAGE_BYTES,
                .max_processes_per_session = 1024,
                .max_finished_processes_per_session = LIMIT_FINISHED_PROCESSES,
                .retained_output_bytes_per_process = LIMIT_RETAINED_BYTES,
                .retained_output_bytes_total = LIMIT_RETAINED_TOTAL_BYTES,
                .allow_server_scope = true,
                .allow_direct_exec = true,
                .allow_prepared_exec = true,
                .detached_session_ttl_ms = 30000,
                .max_detached_session_ttl_ms = 86400000,
                .exited_process_retention_ms = 30000,
                .conn.max_connections = 16384,
                .max_sessions = 16384,
                .output_chunk_bytes = LIMIT_CHUNK_BYTES,
                .conn.ping_interval_ms = 20000,
                .conn.pong_timeout_ms = 60000,
                .conn.tcp_user_timeout_ms = 20000,
                .sandbox_backend = BACKEND_AUTO,
                .log_level = LOG_WARN,
                .log_format = LOG_TEXT,
        };
}

void config_release(struct config *c)
{
        free(c->conn.listen);
        listen_url_release(&c->conn.listen_url);
        auth_options_release(&c->auth_options);
        auth_release(&c->conn.auth);
        *c = (struct config){ 0 };
}

static const struct key *key_find(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (slice_eq(keys[i].name, name))
                        return &keys[i];
        return NULL;
}

static int value_error(const struct toml *t, const char *what, struct err *err)
{
        return err_set(err, 0, -EINVAL, "line %u: `%.*s` must be %s", t->line, SLICE(t->key), what);
}

static int string_apply(const struct toml *t, char **target, struct err *err)
{
        if (t->type != TOML_STRING)
                return value_error(t, "a string", err);
        free(*target);
        *target = slice_dup(t->string); /* toml.h promises that the string has no NUL */
        return 0;
}

static int integer_apply(const struct key *key, const struct toml *t, uint64_t *target, struct err *err)
{
        if (t->type != TOML_INTEGER)
                return value_error(t, "an integer", err);
        if (t->integer == 0 && key->zero_is_off) {
                *target = 0;
                return 0;
        }
        if (t->integer < key->min || t->integer > key->max) {
                char range[96];
                (void)snprintf(range, sizeof(range), "%sbetween %lld and %lld",
                               key->zero_is_off ? "0 or " : "", (long long)key->min, (long long)key->max);
                return value_error(t, range, err);
        }
        *target = (uint64_t)t->integer;
        return 0;
}

/* Sets a value that must be one of a few words. */
static int word_apply(const struct key *key, const struct toml *t, void *target, struct err *err)
{
        bool is_string = t->type == TOML_STRING;

        if (key->type == KEY_BACKEND)
                return is_string && backend_parse(t->string, target) >= 0
                               ? 0
                               : value_error(t, "`auto`, `namespaces`, `bubblewrap` or `landlock`", err);
        if (key->type == KEY_LOG_LEVEL)
                return is_string && log_level_parse(t->string, target) >= 0
                               ? 0
                               : value_error(t, "`debug`, `info`, `warn`, `error` or `off`", err);
        if (key->type == KEY_LOG_FORMAT)
                return is_string && log_format_parse(t->string, target) >= 0
                               ? 0
                               : value_error(t, "`text` or `json`", err);
        if (!is_string ||
            (!slice_eq(t->string, S("capability-token")) && !slice_eq(t->string, S("signed-bearer-token"))))
                return value_error(t, "`capability-token` or `signed-bearer-token`", err);
        return string_apply(t, target, err);
}

static int member_apply(struct config *c, const struct toml *t, struct err *err)
{
        const struct key *key = key_find(t->key);
        if (!key)
                return err_set(err, 0, -EINVAL, "line %u: unknown %s `%s`", t->line,
                               t->type == TOML_TABLE ? "table" : "key", log_escape(t->key));

        void *target = (char *)c + key->offset;
        switch (key->type) {
        case KEY_STRING:
                return string_apply(t, target, err);
        case KEY_INTEGER:
                if (target == &c->auth_options.max_clock_skew_seconds)
                        c->auth_options.has_max_clock_skew_seconds = true;
                return integer_apply(key, t, target, err);
        case KEY_BOOL:
                if (t->type != TOML_BOOL)
                        return value_error(t, "true or false", err);
                *(bool *)target = t->boolean;
                return 0;
        case KEY_WS_AUTH:
        case KEY_BACKEND:
        case KEY_LOG_LEVEL:
        case KEY_LOG_FORMAT:
                return word_apply(key, t, target, err);
        }
        must(false);
        return -EINVAL;
}

int config_read_file(struct config *c, const char *path, struct err *err)
{
        _buf_ struct buf text = BUF_INIT(FILE_BYTES_MAX);
        int r = fd_read_file(path, FILE_BYTES_MAX, &text);
        if (r < 0)
                return err_set(err, 0, r, "failed to read configuration file %s: %s (os error %d)", path,
                               errno_text(r), -r);

        _arena_ struct arena arena = ARENA_INIT;
        const struct toml *root = toml_parse(&arena, buf_slice(&text), err);
        if (!root)
                return err_wrap(err, "%s", path);
        for (const struct toml *t = root->first; t; t = t->next)
                if (member_apply(c, t, err) < 0)
                        return err_wrap(err, "%s", path);
        return 0;
}

/* Copies the value of one fixed key from `live`. Returns whether the value was different. */
static bool member_keep(const struct key *key, struct config *fresh, const struct config *live)
{
        void *to = (char *)fresh + key->offset;
        const void *from = (const char *)live + key->offset;
        if (key->type == KEY_STRING) {
                char **text = to, *kept = *(char *const *)from;
                bool differs = strcmp(*text, kept) != 0;
                free(*text);
                *text = mem_strdup(kept);
                return differs;
        }
        size_t size = key->type == KEY_INTEGER ? sizeof(uint64_t) : sizeof(enum backend);
        bool differs = memcmp(to, from, size) != 0;
        memcpy(to, from, size);
        return differs;
}

void config_keep_fixed(struct config *fresh, const struct config *live, void (*differs)(const char *key))
{
        for (size_t i = 0; i < ARRAY_LEN(keys); i++)
                if (keys[i].is_fixed && member_keep(&keys[i], fresh, live) && differs)
                        differs(keys[i].name.p);
}

/* Puts the working directory in front of the path of a unix socket. */
static int make_absolute(struct listen_url *url, const char *text, struct err *err)
{
        if (url->kind != LISTEN_UNIX || url->path[0] == '/')
                return 0;
        _free_ char *cwd = getcwd(NULL, 0);
        if (!cwd)
                return err_set(err, 0, -errno, "invalid unix --listen URL `%s`: no working directory: %s",
                               text, errno_text(errno));
        char *absolute = mem_printf("%s/%s", cwd, url->path);
        free(url->path);
        url->path = absolute;
        return strlen(absolute) > LISTEN_PATH_MAX ? listen_url_too_long(text, err) : 0;
}

int config_check(struct config *c, struct err *err)
{
        listen_url_release(&c->conn.listen_url);
        auth_release(&c->conn.auth);

        int r = listen_url_parse(c->conn.listen, &c->conn.listen_url, err);
        if (r == 0)
                r = make_absolute(&c->conn.listen_url, c->conn.listen, err);
        if (r < 0)
                return r;
        if (c->conn.listen_url.kind == LISTEN_STDIO && c->auth_options.mode)
                return err_set(err, 0, -EINVAL, "WebSocket auth requires a WebSocket listener, not stdio");

        if (c->conn.listen_url.kind == LISTEN_STDIO && c->has_lifeline && c->lifeline <= STDOUT_FILENO)
                return err_set(err, 0, -EINVAL,
                               "--lifeline %u: with stdio the server ends with its input anyway",
                               (unsigned)c->lifeline);

        r = auth_init(&c->conn.auth, &c->auth_options, err);
        if (r < 0)
                return r;
        if (c->conn.auth.mode == AUTH_NONE && !c->insecure_no_auth &&
            !listen_url_is_loopback(&c->conn.listen_url))
                return err_set(
                        err, 0, -EPERM,
                        "refusing to listen on `%s` without authentication: whoever reaches the port could "
                        "run commands; set up `--ws-auth`, or pass `--insecure-no-auth` to allow it",
                        c->conn.listen);
        return 0;
}
