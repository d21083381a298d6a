/* targets: what the options of a command say about its table of unified/: which environments it has, the workspace, and the profile.
 *
 * Each function returns 0, or a negative errno after it has said why on stderr.
 */
#pragma once

#include "base/arena.h"
#include "base/args.h"
#include "unified/unified.h"

/* The options, as they were given. */
struct target_wishes {
        struct arg_list names; /* --env */
        const char *url, *cwd, *profile_file;
        bool is_read_only, is_workspace_write, is_open, has_network;
};

/* The rows of an option table that fill a struct target_wishes. */
#define TARGET_ARGS(w)                                                                                   \
        { "env",                                                                                         \
          ARG_LIST,                                                                                      \
          "NAME",                                                                                        \
          "an environment of environments.toml; more than one may be given",                             \
          .target = &(w)->names,                                                                         \
          .offers = OFFER_ENVIRONMENT },                                                                 \
                { "url", ARG_STRING, "URL",                                                              \
                  "the server to use: ws://HOST:PORT, wss://HOST, unix:/PATH, ssh://HOST",               \
                  .target = &(w)->url },                                                                 \
                { "cwd",                                                                                 \
                  ARG_STRING,                                                                            \
                  "DIR",                                                                                 \
                  "the workspace (default: this directory; elsewhere the server's)",                     \
                  .letter = 'C',                                                                         \
                  .target = &(w)->cwd,                                                                   \
                  .offers = OFFER_DIRECTORY },                                                           \
                { "read-only", ARG_FLAG, NULL, "commands may read everything and write nothing",         \
                  .target = &(w)->is_read_only },                                                        \
                { "workspace-write", ARG_FLAG, NULL,                                                     \
                  "commands may write in the workspace and in /tmp; this is the default",                \
                  .target = &(w)->is_workspace_write },                                                  \
                { "profile",                                                                             \
                  ARG_STRING,                                                                            \
                  "FILE",                                                                                \
                  "a permission profile (JSON)",                                                         \
                  .target = &(w)->profile_file,                                                          \
                  .offers = OFFER_FILE },                                                                \
                { "no-sandbox", ARG_FLAG, NULL, "commands may do everything", .target = &(w)->is_open }, \
        {                                                                                                \
                "network", ARG_FLAG, NULL, "--read-only and --workspace-write leave the network open",   \
                        .target = &(w)->has_network                                                      \
        }

struct targets {
        struct arena arena;
        size_t count;
        struct remote *remotes;
        struct farhand_options *options;
        struct unified_environment *list; /* the first one is the primary one */
};

/* Finds the environments, and gives each its workspace. `client_name` is what their servers are told. */
NODISCARD int targets_find(struct targets *t, const struct target_wishes *w, const char *client_name);
/* Makes the default profile, in the arena. *ret is NULL when there shall be no sandbox. */
NODISCARD int targets_profile(struct targets *t, const struct target_wishes *w, const char **ret);
void targets_release(struct targets *t); /* after the table; also after an error */
