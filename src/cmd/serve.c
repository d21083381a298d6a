/* serve: `farhand serve`, alias `farhand exec-server`: flags over the configuration file, then the server. */
#include "cmd/cmd.h"

#include "base/args.h"
#include "base/log.h"
#include "base/mem.h"
#include "server/config.h"
#include "server/server.h"

struct flags {
        const char *config_file;
        const char *listen;
        const char *ws_auth, *ws_token_file, *ws_token_sha256, *ws_shared_secret_file, *ws_issuer,
                *ws_audience;
        uint64_t ws_max_clock_skew_seconds;
        bool has_ws_max_clock_skew_seconds;
        uint64_t concurrent_requests;
        bool has_concurrent_requests;
        bool insecure_no_auth;
        const char *sandbox_backend;
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
                { "ws-token-file", ARG_STRING, "FILE", "capability token", .target = &f->ws_token_file },
                { "ws-token-sha256", ARG_STRING, "HEX", "SHA-256 of the capability token",
                  .target = &f->ws_token_sha256 },
                { "ws-shared-secret-file", ARG_STRING, "FILE", "secret of signed bearer tokens",
                  .target = &f->ws_shared_secret_file },
                { "ws-issuer", ARG_STRING, "NAME", "the iss that tokens must have", .target = &f->ws_issuer },
                { "ws-audience", ARG_STRING, "NAME", "the aud that tokens must have",
                  .target = &f->ws_audience },
                { "ws-max-clock-skew-seconds", ARG_U64, "N", "tolerance for exp and nbf (default 30)",
                  .target = &f->ws_max_clock_skew_seconds, .max = 86400,
                  .given = &f->has_ws_max_clock_skew_seconds },
                { "insecure-no-auth", ARG_FLAG, NULL, "allow a non-loopback address without --ws-auth",
                  .target = &f->insecure_no_auth },
                { "config", ARG_STRING, "FILE", "configuration file (TOML); flags win over it",
                  .target = &f->config_file },
                { "sandbox-backend", ARG_STRING, "NAME", BACKEND_WISHES " (default auto)",
                  .target = &f->sandbox_backend },
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
        int rest;
        enum args_result r = args_parse(&spec, argc, argv, &rest);
        if (r == ARGS_OK && rest < argc) {
                fprintf(stderr, "error: unexpected argument '%s'\n", argv[rest]);
                return ARGS_BAD;
        }
        return r;
}

static void replace(char **target, const char *value)
{
        if (!value)
                return;
        free(*target);
        *target = mem_strdup(value);
}

/* False when a flag's value is no such thing; the complaint was printed. */
static bool apply_flags(struct config *c, const struct flags *f)
{
        struct auth_options *auth = &c->auth_options;
        replace(&c->listen, f->listen);
        replace(&auth->mode, f->ws_auth);
        replace(&auth->token_file, f->ws_token_file);
        replace(&auth->token_sha256, f->ws_token_sha256);
        replace(&auth->shared_secret_file, f->ws_shared_secret_file);
        replace(&auth->issuer, f->ws_issuer);
        replace(&auth->audience, f->ws_audience);
        if (f->has_ws_max_clock_skew_seconds) {
                auth->max_clock_skew_seconds = f->ws_max_clock_skew_seconds;
                auth->has_max_clock_skew_seconds = true;
        }
        if (f->has_concurrent_requests)
                c->concurrent_requests = f->concurrent_requests;
        c->insecure_no_auth = c->insecure_no_auth || f->insecure_no_auth;
        if (f->ws_auth && strcmp(f->ws_auth, "capability-token") != 0 &&
            strcmp(f->ws_auth, "signed-bearer-token") != 0) {
                fprintf(stderr,
                        "error: invalid value '%s' for '--ws-auth': capability-token or "
                        "signed-bearer-token\n",
                        f->ws_auth);
                return false;
        }
        if (f->sandbox_backend &&
            backend_parse(slice_from_str(f->sandbox_backend), &c->sandbox_backend) < 0) {
                fprintf(stderr, "error: invalid value '%s' for '--sandbox-backend': " BACKEND_WISHES "\n",
                        f->sandbox_backend);
                return false;
        }
        if (f->log_level && log_level_parse(slice_from_str(f->log_level), &c->log_level) < 0) {
                fprintf(stderr,
                        "error: invalid value '%s' for '--log-level': debug, info, warn, error or off\n",
                        f->log_level);
                return false;
        }
        if (f->log_format && log_format_parse(slice_from_str(f->log_format), &c->log_format) < 0) {
                fprintf(stderr, "error: invalid value '%s' for '--log-format': text or json\n",
                        f->log_format);
                return false;
        }
        return true;
}

static int run(struct config *config, const struct flags *f)
{
        struct err err = ERR_INIT;
        if (f->config_file && config_read_file(config, f->config_file, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        if (!apply_flags(config, f))
                return 2;
        log_set_level(config->log_level);
        log_set_format(config->log_format);
        if (config_check(config, &err) < 0) {
                fprintf(stderr, "Error: %s\n", err.text);
                return 1;
        }
        return server_run(config);
}

int cmd_serve(int argc, char **argv)
{
        struct flags f = { 0 };
        switch (parse_flags(argc, argv, &f)) {
        case ARGS_OK:
                break;
        case ARGS_HELP:
                return 0;
        case ARGS_BAD:
                return 2;
        }
        struct config config;
        config_init(&config);
        int code = run(&config, &f);
        config_release(&config);
        return code;
}
