/* action: what a tool is asked to do, with the permissions that it wishes for, and the names of policies and wishes. */
#pragma once

#include "base/compat.h"

enum approval_policy { APPROVAL_NEVER, APPROVAL_ON_REQUEST, APPROVAL_ON_FAILURE, APPROVAL_UNTRUSTED };
#define APPROVAL_POLICIES 4
/* "never", "on-request", … */
const char *approval_policy_name(enum approval_policy policy);
/* Returns false when there is no policy of that name. */
NODISCARD bool approval_policy_find(const char *name, enum approval_policy *ret);

/* What the caller of a tool wishes for: its member `sandbox_permissions`. */
enum approval_wish { APPROVAL_USE_DEFAULT, APPROVAL_WITH_ADDITIONAL, APPROVAL_REQUIRE_ESCALATED };
#define APPROVAL_WISHES 3
const char *approval_wish_name(enum approval_wish wish); /* "use_default", … */
NODISCARD bool approval_wish_find(const char *name, enum approval_wish *ret);

/* One action. approval_new copies everything. */
struct approval_action {
        const char *call_id;        /* the name of the call, for whoever answers; may be NULL */
        const char *environment_id; /* the environment in which the action happens */
        const char *cwd;            /* the directory there */
        const char *const *argv;    /* the command, which ends with NULL; NULL: the action is a patch */
        bool tty;                 /* the command gets a terminal, so that later input decides what it does */
        const char *const *paths; /* the absolute paths that a patch changes, which end with NULL */
        /* The real paths that a patch reads and changes, which end with NULL; NULL: nobody has looked yet. */
        const char *const *real_paths;
        enum approval_wish wish;
        const char *justification; /* why, in words for people; NULL: not told */
        const char *additional;    /* additional permissions as JSON (docs/PERMISSIONS.md); NULL: none */
        bool is_read;              /* in place of a patch: one path is only read */
        /* A program that a command wants to start, about which its rules ask: argv is its file and its arguments, `justification` is that of
         * the rule. With a rule a yes runs the program outside of the sandbox. */
        bool is_program;
        /* A host that a command wants to reach: argv is HOST:PORT alone. NULL: the action is none of these. */
        const char *host;
        const char *protocol; /* host: "http", "https_connect", … */
        uint16_t port;        /* host: */
        bool has_port_rules;  /* host: the server knows rules for a port alone */
        const char
                *rule; /* is_program: where the strictest rule stands, as NAME:LINE; NULL: no rule matched */
};
