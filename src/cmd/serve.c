/* serve: `farhand serve`, alias `farhand exec-server`: reads flags and the configuration file, and runs the server. */
#include "cmd/cmd.h"

#include "base/args.h"
#include "base/log.h"
#include "base/mem.h"
#include "core/config.h"
#include "server/run.h"

#include <errno.h>
#include <limits.h>

struct flags {
        const char *config_file;
        const char *listen;
        const char *ws_auth, *ws_token_file, *ws_admin_token_file, *ws_token_sha256, *ws_shared_secret_file,
                *ws_issuer, *ws_audience;
        uint64_t ws_max_clock_skew_seconds;
        bool has_ws_max_clock_skew_seconds;
        uint64_t concurrent_requests;
        bool has_concurrent_requests;
        uint64_t lifeline;
        bool has_lifeline;
        bool insecure_no_auth;
        bool allow_other_namespaces;
        const char *sandbox_backend;
        uint64_t exit_when_idle_sec;
        uint64_t keep_finished_sec;
        bool has_keep_finished_sec;
        const char *log_level, *log_format;
};

static enum args_result parse_flags(int argc, char **argv, struct flags *f)
{
        const struct arg table[] = {
                { "listen", ARG_STRING, "URL", "ws://IP:PORT (default ws://127.0.0.1:0), unix:PATH or stdio",
                  .target = &f->listen },
                { "concurrent-requests", ARG_U64, "N",
                  "accepted for compatibility: requests always run side by side",
                  .target = &f->concurrent_requests, .min = 1, .given = &f->has_concurrent_requests },
                { "ws-auth", ARG_STRING, "MODE", "capability-token or signed-bearer-token",
                  .target = &f->ws_auth },
                { "ws-token-file", ARG_STRING, "FILE", "capability tokens, one per line",
                  .target = &f->ws_token_file, .offers = OFFER_FILE },
                { "ws-admin-token-file", ARG_STRING, "FILE",
                  "the same, of clients that may see and resume all sessions",
                  .target = &f->ws_admin_token_file, .offers = OFFER_FILE },
                { "ws-token-sha256", ARG_STRING, "HEX", "SHA-256 of the capability token",
                  .target = &f->ws_token_sha256 },
                { "ws-shared-secret-file", ARG_STRING, "FILE", "secret of signed bearer tokens",
                  .target = &f->ws_shared_secret_file, .offers = OFFER_FILE },
                { "ws-issuer", ARG_STRING, "NAME", "the iss that tokens must have", .target = &f->ws_issuer },
                { "ws-audience", ARG_STRING, "NAME", "the aud that tokens must have",
                  .target = &f->ws_audience },
                { "ws-max-clock-skew-seconds", ARG_U64, "N", "tolerance for exp and nbf (default 30)",
                  .target = &f->ws_max_clock_skew_seconds, .max = 86400,
                  .given = &f->has_ws_max_clock_skew_seconds },
                { "insecure-no-auth", ARG_FLAG, NULL, "allow a non-loopback address without --ws-auth",
                  .target = &f->insecure_no_auth },
                { "allow-other-namespaces", ARG_FLAG, NULL,
                  "unix: clients may be in other user and pid namespaces (containers)",
                  .target = &f->allow_other_namespaces },
                { "config", ARG_STRING, "FILE", "configuration file (TOML); flags win over it",
                  .target = &f->config_file, .offers = OFFER_FILE },
                { "lifeline", ARG_U64, "FD", "end when this descriptor, a pipe or a socket, reaches its end",
                  .target = &f->lifeline, .max = INT_MAX, .given = &f->has_lifeline },
                { "sandbox-backend", ARG_STRING, "NAME", BACKEND_WISHES " (default auto)",
                  .target = &f->sandbox_backend },
                { "exit-when-idle", ARG_U64, "SECONDS", "end when there was no session for so long",
                  .target = &f->exit_when_idle_sec, .min = 1, .max = 31536000 },
                { "keep-finished", ARG_U64, "SECONDS",
                  "output and exit code of a finished command stay readable for so long (default 30)",
                  .target = &f->keep_finished_sec, .max = 31536000, .given = &f->has_keep_finished_sec },
                { "log-level", ARG_STRING, "LEVEL", "debug, info, warn (default), error or off",
                  .target = &f->log_level },
                { "log-format", ARG_STRING, "FORMAT", "text (default) or json", .target = &f->log_format },
                { .name = NULL },
        };
        const struct args spec = {
                .usage = "farhand serve [OPTIONS]",
                .about = "Run commands for clients of the exec-server protocol.",
                .table = table,
        };
        return args_parse(&spec, argc, argv, NULL);
}

static void replace(char **target, const char *value)
{
        if (!value)
                return;
        free(*target);
        *target = mem_strdup(value);
}

/* Applies the flags, which override the configuration. */
static enum args_result apply_flags(struct config *c, const struct flags *f)
{
        struct auth_options *auth = &c->auth_options;
        replace(&c->conn.listen, f->listen);
        replace(&auth->mode, f->ws_auth);
        replace(&auth->token_file, f->ws_token_file);
        replace(&auth->admin_token_file, f->ws_admin_token_file);
        replace(&auth->token_sha256, f->ws_token_sha256);
        replace(&auth->shared_secret_file, f->ws_shared_secret_file);
        replace(&auth->issuer, f->ws_issuer);
        replace(&auth->audience, f->ws_audience);
        if (f->has_ws_max_clock_skew_seconds) {
                auth->max_clock_skew_seconds = f->ws_max_clock_skew_seconds;
                auth->has_max_clock_skew_seconds = true;
        }
        if (f->exit_when_idle_sec)
                c->exit_when_idle_sec = f->exit_when_idle_sec;
        if (f->has_keep_finished_sec)
                c->exited_process_retention_ms = f->keep_finished_sec * 1000;
        if (f->has_concurrent_requests)
                c->concurrent_requests = f->concurrent_requests;
        c->has_lifeline = f->has_lifeline;
        c->lifeline = f->lifeline;
        c->insecure_no_auth = c->insecure_no_auth || f->insecure_no_auth;
        c->conn.allow_other_namespaces = c->conn.allow_other_namespaces || f->allow_other_namespaces;
        if (f->ws_auth && strcmp(f->ws_auth, "capability-token") != 0 &&
            strcmp(f->ws_auth, "signed-bearer-token") != 0)
                return args_refuse("ws-auth", f->ws_auth, "capability-token or signed-bearer-token");
        if (f->sandbox_backend && backend_parse(slice_from_str(f->sandbox_backend), &c->sandbox_backend) < 0)
                return args_refuse("sandbox-backend", f->sandbox_backend, BACKEND_WISHES);
        if (f->log_level && log_level_parse(slice_from_str(f->log_level), &c->log_level) < 0)
                return args_refuse("log-level", f->log_level, "debug, info, warn, error or off");
        if (f->log_format && log_format_parse(slice_from_str(f->log_format), &c->log_format) < 0)
                return args_refuse("log-format", f->log_format, "text or json");
        return ARGS_OK;
}

/* The flags and the configuration file, from which the configuration is made again at a SIGHUP. The flags were checked at the
 * start. */
struct source {
        struct config_source source;
        const struct flags *flags;
};

static int read_again(const struct config_source *s, struct config *ret, struct err *err)
{
        const struct flags *f = container_of(s, struct source, source)->flags;
        int r = f->config_file ? config_read_file(ret, f->config_file, err) : 0;
        if (r < 0)
                return r;
        return apply_flags(ret, f) == ARGS_OK ? 0 : err_set(err, 0, -EINVAL, "flags");
}

static int run(struct config *config, const struct flags *f)
{
        static struct source source; /* static: a stuck thread may use it after this function has returned */
        struct err err = ERR_INIT;
        source = (struct source){ { read_again }, f };
        if (f->config_file && config_read_file(config, f->config_file, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        if (apply_flags(config, f) != ARGS_OK)
                return 2;
        log_set_level(config->log_level);
        log_set_format(config->log_format);
        if (config_check(config, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        return server_run(config, &source.source);
}

int cmd_serve(int argc, char **argv)
{
        static struct flags f; /* static: a stuck thread may use it after this function has returned */
        enum args_result parsed = parse_flags(argc, argv, &f);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        struct config config;
        config_init(&config);
        int code = run(&config, &f);
        config_release(&config);
        return code;
}
