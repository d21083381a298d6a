/* environment: a machine on which commands run and files lie: this one, or one that a server makes reachable.
 *
 * All environments and their texts are in the arena of the caller that asked for them, and do not change. The texts have been
 * checked: an id is at most 64 characters of A-Za-z0-9-_, a url is printable ASCII of a form that env/environment_url.h describes,
 * and no text holds a NUL.
 */
#pragma once

#include "base/arena.h"
#include "base/compat.h"
#include "base/slice.h"

#define ENVIRONMENT_LOCAL_ID "local"   /* this machine; no entry of a file may have this id */
#define ENVIRONMENT_REMOTE_ID "remote" /* the environment that --url or a variable names */
#define ENVIRONMENT_ID_MAX 64
#define ENVIRONMENT_TIMEOUT_MS 10000 /* of both timeouts, by default */
#define ENVIRONMENT_SSH_TIMEOUT_MS \
        120000 /* to connect by ssh, by default: a person may have to type a password */

enum environment_kind {
        ENVIRONMENT_LOCAL,
        ENVIRONMENT_URL,     /* ws:, wss: or unix: */
        ENVIRONMENT_COMMAND, /* a program whose standard streams speak the protocol */
        ENVIRONMENT_SSH,     /* ssh: */
};

struct environment_variable {
        const char *name, *value;
};

struct environment {
        const char *id;
        enum environment_kind kind;
        const char *url;         /* of ENVIRONMENT_URL and ENVIRONMENT_SSH; else NULL */
        const char *const *argv; /* of ENVIRONMENT_COMMAND: the program, its arguments, NULL; else NULL */
        const struct environment_variable *env; /* of ENVIRONMENT_COMMAND: more variables for the program */
        size_t env_count;
        const char *cwd;                /* of ENVIRONMENT_COMMAND: its working directory; NULL: our own */
        uint64_t connect_timeout_ms;    /* of ENVIRONMENT_URL and ENVIRONMENT_SSH; else 0 */
        uint64_t initialize_timeout_ms; /* 0 for ENVIRONMENT_LOCAL */
        /* The file or the variable that the bearer token comes from. At most one of the two is set, and only when `url` is set;
         * else NULL. */
        const char *token_file, *token_env;
};

#define ENVIRONMENTS_NONE SIZE_MAX

struct environments {
        const struct environment
                *list; /* `local` first, if it is included; then the others in the order of the file */
        size_t count;
        size_t default_index; /* ENVIRONMENTS_NONE: there is no default */
        bool is_disabled;     /* the user wants no environment: offer nothing that needs one */
        const char
                *source; /* what names the environments: a path, a variable, an option; NULL: nothing does */
};

/* Returns the text that stands for an environment in the records of patches (patch/store.h), in the arena: all subcommands that apply
 * patches must use the same text for the same files. */
NODISCARD const char *environment_key(struct arena *a, const struct environment *e);

/* These two functions return a member of the list, or NULL when there is no such environment. */
NODISCARD const struct environment *environments_find(const struct environments *e, struct slice id);
NODISCARD const struct environment *environments_default(const struct environments *e);

/* Returns "local", "url", "command" or "ssh". */
NODISCARD const char *environment_kind_name(enum environment_kind kind);

extern const struct environment environment_local;
