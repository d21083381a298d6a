/* method: the descriptor of a method: its name, its params, what must have happened before it, how it is ordered among other
 * requests, and the function that does its work. Each descriptor is beside the method's code; server/methods.c lists them. */
#pragma once

#include "proto/decode.h"

struct file_quick;   /* files/request.h */
struct file_request; /* files/request.h */
struct job_class;    /* core/job.h */
struct jsonw;
struct req; /* core/req.h */
struct sandbox_context;

enum method_needs {
        NEEDS_NOTHING = 0,
        NEEDS_READY = 1, /* the client has sent initialize and initialized, and so has a session */
};

/* What a request works on. Requests with the same key keep their order when one of them is exclusive. */
enum method_key {
        KEY_NONE,
        KEY_FILE,    /* a file handle, or a watch */
        KEY_PROCESS, /* a process: the request waits while a file request must come before it */
};

#define METHOD_TEXTS_MAX 3

struct method {
        const char *name;
        const char *family; /* the name in errors about the handshake: "exec", "environment info" */
        enum method_needs needs;
        size_t params_size;
        params_decode *decode;

        /* The key, the session and the sandbox in the params, set by METHOD_KEY, METHOD_SESSION and METHOD_SANDBOX. */
        enum method_key key;
        size_t key_at; /* the offset of a slice */
        bool has_session;
        size_t session_at; /* the offset of a slice; p == NULL: the process is of the client's own session */
        bool has_sandbox;
        size_t sandbox_at; /* the offset of a pointer; NULL: the request has no sandbox */

        bool is_change;    /* waits for all earlier file requests, and later file requests wait for it */
        bool asks_changes; /* changes nothing, but its sandbox is planned as that of a change */
        bool is_exclusive; /* runs alone among the requests with the same key */
        bool is_start;     /* starts a process: waits for earlier requests that change files */
        bool is_urgent;    /* acts on a process and waits for nothing */
        bool may_be_job;   /* `handle` may submit the request as a job: its message is kept for that */

        /* One of these does the work: `handle` on the loop, `job` on a thread, `run` on a thread or, with a sandbox, in an fs
         * helper. */
        int (*handle)(struct req *req, const void *params, struct err *err);
        const struct job_class *job;
        int (*run)(struct file_request *r, struct jsonw *w, struct err *err);

        /* Only with `run`: the offsets of the slices in the params, which are sent to an fs helper; and functions that may
         * answer on the loop without waiting, or NULL. */
        size_t text_count;
        size_t texts_at[METHOD_TEXTS_MAX];
        const struct file_quick *quick;
};

#define METHOD_PARAMS(type) .params_size = sizeof(struct type), .decode = type##_decode
#define METHOD_KEY(kind, type, member) .key = (kind), .key_at = offsetof(struct type, member)
#define METHOD_SESSION(type) .has_session = true, .session_at = offsetof(struct type, session_id)
#define METHOD_SANDBOX(type) .has_sandbox = true, .sandbox_at = offsetof(struct type, sandbox)
#define METHOD_TEXT(type, a) .text_count = 1, .texts_at = { offsetof(struct type, a) }
#define METHOD_TEXTS_2(type, a, b) \
        .text_count = 2, .texts_at = { offsetof(struct type, a), offsetof(struct type, b) }
#define METHOD_TEXTS_3(type, a, b, c) \
        .text_count = 3,              \
        .texts_at = { offsetof(struct type, a), offsetof(struct type, b), offsetof(struct type, c) }

/* Returns whether requests of this method are file requests: these are jobs from the beginning and may say `unordered`. */
static inline bool method_is_file(const struct method *m)
{
        return m->job || m->run;
}

/* These functions return what the params of a request of this method have: the handle, watch or process that the request is about, the
 * session, and the sandbox; p == NULL or NULL when they have none. */
static inline struct slice method_key_of(const struct method *m, const void *params)
{
        struct slice key = { 0 };
        if (m->key != KEY_NONE)
                memcpy(&key, (const char *)params + m->key_at, sizeof(key));
        return key;
}

static inline struct slice method_session_of(const struct method *m, const void *params)
{
        struct slice id = { 0 };
        if (m->has_session)
                memcpy(&id, (const char *)params + m->session_at, sizeof(id));
        return id;
}

static inline const struct sandbox_context *method_sandbox_of(const struct method *m, const void *params)
{
        const struct sandbox_context *sandbox = NULL;
        if (m->has_sandbox)
                memcpy(&sandbox, (const char *)params + m->sandbox_at, sizeof(sandbox));
        return sandbox;
}
