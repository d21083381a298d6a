/* command_args: the options that say how a command runs: where, with which variables, limits and permissions. */
#pragma once

#include "base/args.h"
#include "cli/remote.h"

struct command_args {
        const char *cwd;             /* -C */
        struct arg_list env;         /* -e */
        uint64_t timeout_sec;        /* --timeout */
        uint64_t memory_bytes;       /* --memory */
        struct arg_list limits;      /* --limit */
        struct farhand_limits limit; /* all of them, after command_args_check */
        bool is_read_only, is_workspace_write, has_network;
        const char *profile_file; /* --profile */
};

#define COMMAND_ARGS(c)                                                                                  \
        { "cwd",                                                                                         \
          ARG_STRING,                                                                                    \
          "DIR",                                                                                         \
          "run in this directory (default: this one; on another machine the server's)",                  \
          .letter = 'C',                                                                                 \
          .target = &(c)->cwd,                                                                           \
          .offers = OFFER_DIRECTORY },                                                                   \
                { "set",          ARG_LIST,                                                              \
                  "NAME[=VALUE]", "set a variable of the command; without a value: as it is here",       \
                  .letter = 'e',  .target = &(c)->env },                                                 \
                { "timeout",                                                                             \
                  ARG_U64,                                                                               \
                  "SECONDS",                                                                             \
                  "end the command after so long",                                                       \
                  .target = &(c)->timeout_sec,                                                           \
                  .min = 1,                                                                              \
                  .max = 31536000 },                                                                     \
                { "memory",                                                                              \
                  ARG_U64,                                                                               \
                  "BYTES",                                                                               \
                  "the most memory that it may have",                                                    \
                  .target = &(c)->memory_bytes,                                                          \
                  .min = 1 },                                                                            \
                { "limit", ARG_LIST, "NAME=NUMBER",                                                      \
                  "what it may use: silence, cpu (seconds), files, processes, file-size",                \
                  .target = &(c)->limits },                                                              \
                { "read-only", ARG_FLAG, NULL, "in a sandbox: it may read everything and write nothing", \
                  .target = &(c)->is_read_only },                                                        \
                { "workspace-write", ARG_FLAG, NULL,                                                     \
                  "in a sandbox: it may write in its directory and in /tmp",                             \
                  .target = &(c)->is_workspace_write },                                                  \
                { "profile",                                                                             \
                  ARG_STRING,                                                                            \
                  "FILE",                                                                                \
                  "in a sandbox: a permission profile (JSON)",                                           \
                  .target = &(c)->profile_file,                                                          \
                  .offers = OFFER_FILE },                                                                \
        {                                                                                                \
                "network", ARG_FLAG, NULL,                                                               \
                        "a sandbox by --read-only or --workspace-write leaves the network open",         \
                        .target = &(c)->has_network                                                      \
        }

/* Reads the limits of the options. Returns false after it has printed on stderr what is wrong with them: the exit code is 2. */
NODISCARD bool command_args_check(struct command_args *c);
/* Releases the lists of the options. */
void command_args_release(struct command_args *c);
/* Fills the command from the options. With `wants_terminal` the command gets our TERM and LANG. All texts are in the arena of the
 * remote. Returns 0, or -errno after it has printed why on stderr. */
NODISCARD int command_args_apply(const struct command_args *c, struct remote *r, const struct farhand *f,
                                 bool wants_terminal, struct farhand_command *ret);
/* Finds the directory that -C says, or ours. *ret is NULL when it is the server's own. Returns as command_args_apply. */
NODISCARD int command_args_cwd(const struct command_args *c, struct remote *r, const char **ret);
/* Reads the permissions that --profile, --read-only or --workspace-write give, as JSON; *ret is NULL without them. Returns as
 * command_args_apply. */
NODISCARD int command_args_permissions(const struct command_args *c, struct remote *r, const char **ret);
/* Makes the member `sandbox` of requests as JSON, of --profile, --read-only or --workspace-write; *ret is NULL without them. Returns as
 * command_args_apply. */
NODISCARD int command_args_sandbox(const struct command_args *c, struct remote *r, const struct farhand *f,
                                   const char *cwd, const char **ret);
