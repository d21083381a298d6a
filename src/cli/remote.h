/* remote: what the subcommands that use a server share: the options that name the server, connecting, and messages for people. */
#pragma once

#include "base/arena.h"
#include "base/args.h"
#include "env/environment.h"
#include "farhand/farhand.h"

struct remote {
        const char *env_name, *url; /* --env, --url */
        struct arena arena;
        const struct environment *environment;
        bool is_background; /* the environment is the background server of this machine */
        bool may_start;     /* the background server is started when there is none */
        bool is_none;       /* there was no background server */
        bool is_none_fine;  /* no message is printed when there is no background server */
        bool is_quiet;      /* no message is printed about lost and resumed connections */
        bool is_raw;        /* the terminal is raw: lines end with CR LF */
        bool was_lost;      /* the connection is being resumed */
};

/* The rows of an option table that name the server. */
#define REMOTE_ARGS(r)                                                                           \
        { "env",                                                                                 \
          ARG_STRING,                                                                            \
          "NAME",                                                                                \
          "the environment to use, of environments.toml, or a URL",                              \
          .target = &(r)->env_name,                                                              \
          .offers = OFFER_ENVIRONMENT },                                                         \
        {                                                                                        \
                "url", ARG_STRING, "URL",                                                        \
                        "the server to use: ws://HOST:PORT, wss://HOST, unix:/PATH, ssh://HOST", \
                        .target = &(r)->url                                                      \
        }

/* Finds the environment that the options name. Returns 0, or -errno after it has printed why on stderr. */
NODISCARD int remote_choose(struct remote *r);
/* Finds the environment for a command that outlives this program. ssh:// always reaches the background server of the far machine. On this
 * machine the user's background server takes the place of a private one; with `may_start` it is started when there is none. */
NODISCARD int remote_choose_lasting(struct remote *r, bool may_start);
/* Fills in how the chosen environment is reached: url, program, tokens, timeouts. The texts are in the arena. */
void remote_apply(struct remote *r, struct farhand_options *options);
/* Connects to the chosen environment. The caller sets options of its own in `options`; url, program, tokens, timeouts and messages are
 * filled in. When the background server ends before it has answered, tries again for BACKGROUND_DYING_MS, with another one. Returns NULL
 * after it has printed why on stderr. */
NODISCARD struct farhand *remote_connect(struct remote *r, struct farhand_options *options);
/* Returns the working directory of a server, in the arena; NULL when the server does not tell it. */
NODISCARD const char *remote_server_cwd(struct remote *r, const struct farhand *f);
void remote_release(struct remote *r);
static inline bool remote_is_local(const struct remote *r)
{
        return r->is_background || (r->environment && r->environment->kind == ENVIRONMENT_LOCAL);
}

/* Prints "farhand: TEXT" on stderr. Control characters are escaped, because texts of a server or a file must not control the
 * terminal. */
void remote_say(const struct remote *r, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Prints what the server does not see of a command whose programs it is to intercept, if it says so in its answer to the start. */
void remote_warn_of_start(const struct remote *r, const struct farhand_process *p);
