/* front: `farhand mcp --listen`: the listener, its connections and its sessions, until a signal comes. */
#pragma once

#include "base/args.h"
#include "base/slice.h"

/* The options, as they were given. */
struct front_wishes {
        const char *listen; /* http://IP:PORT/PATH; NULL: this program does not listen */
        const char *auth, *token_file, *token_sha256, *shared_secret_file, *issuer, *audience;
        uint64_t max_clock_skew_seconds;
        bool has_max_clock_skew_seconds, insecure_no_auth;
        struct arg_list hosts;
        uint64_t most_sessions, idle_seconds;
};

/* The rows of an option table that fill a struct front_wishes. The options for tokens are those of `farhand serve`. */
#define FRONT_ARGS(w)                                                                                   \
        { "listen", ARG_STRING, "URL", "serve clients that connect over HTTP: http://IP:PORT/mcp",      \
          .target = &(w)->listen },                                                                     \
                { "ws-auth", ARG_STRING, "MODE", "--listen: capability-token or signed-bearer-token",   \
                  .target = &(w)->auth },                                                               \
                { "ws-token-file",                                                                      \
                  ARG_STRING,                                                                           \
                  "FILE",                                                                               \
                  "capability tokens, one per line",                                                    \
                  .target = &(w)->token_file,                                                           \
                  .offers = OFFER_FILE },                                                               \
                { "ws-token-sha256", ARG_STRING, "HEX", "SHA-256 of the capability token",              \
                  .target = &(w)->token_sha256 },                                                       \
                { "ws-shared-secret-file",                                                              \
                  ARG_STRING,                                                                           \
                  "FILE",                                                                               \
                  "secret of signed bearer tokens",                                                     \
                  .target = &(w)->shared_secret_file,                                                   \
                  .offers = OFFER_FILE },                                                               \
                { "ws-issuer", ARG_STRING, "NAME", "the iss that tokens must have",                     \
                  .target = &(w)->issuer },                                                             \
                { "ws-audience", ARG_STRING, "NAME", "the aud that tokens must have",                   \
                  .target = &(w)->audience },                                                           \
                { "ws-max-clock-skew-seconds",                                                          \
                  ARG_U64,                                                                              \
                  "N",                                                                                  \
                  "tolerance for exp and nbf (default 30)",                                             \
                  .target = &(w)->max_clock_skew_seconds,                                               \
                  .max = 86400,                                                                         \
                  .given = &(w)->has_max_clock_skew_seconds },                                          \
                { "insecure-no-auth", ARG_FLAG, NULL, "allow a non-loopback address without --ws-auth", \
                  .target = &(w)->insecure_no_auth },                                                   \
                { "allow-host", ARG_LIST, "NAME",                                                       \
                  "a name by which clients reach the listener, as behind a proxy; may be repeated",     \
                  .target = &(w)->hosts },                                                              \
                { "max-sessions",                                                                       \
                  ARG_U64,                                                                              \
                  "N",                                                                                  \
                  "the most sessions at once (default 64)",                                             \
                  .target = &(w)->most_sessions,                                                        \
                  .min = 1,                                                                             \
                  .max = 4096 },                                                                        \
        {                                                                                               \
                "session-idle", ARG_U64, "SECONDS",                                                     \
                        "end a session to which nobody has been connected for so long (default 1800)",  \
                        .target = &(w)->idle_seconds, .min = 1, .max = 31536000                         \
        }

struct front_options {
        const struct front_wishes *wishes;
        const char *const *argv; /* of the process of a session; ends with NULL */
        /* Return whether there is a version of the protocol of that name, and whether its streams begin with an empty event. */
        bool (*knows_version)(struct slice name);
        bool (*has_greeting)(struct slice name);
};

/* Checks that no option was given that needs --listen, when that was not given. Returns false after a complaint. */
NODISCARD bool front_check(const struct front_wishes *w);
/* Serves until a signal comes. Returns the exit code. */
NODISCARD int front_run(const struct front_options *options);
