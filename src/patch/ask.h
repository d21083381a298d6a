/* ask: requests to the server, many under way at once.
 *
 * A patch of many files shall take few round trips: requests are sent without waiting, and each answer is handed to a function as it comes.
 * The server works on the requests of a connection in their order. Every request carries the sandbox that the asks were begun with.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "farhand/farhand.h"
#include "wire/json.h"
#include "wire/jsonw.h"

/* What the permission profile refused, as the server tells it. */
struct denial {
        const char *operation; /* "read" or "write" */
        const char *path;
        const char *rule;  /* "readOnly", "outside", "noEntry", "entry", "protected", "pattern", "own" */
        const char *entry; /* the path or pattern of the rule; NULL: there is none */
};

/* Why a request failed. */
struct failure {
        int os_errno;     /* of the server's system; 0: not told */
        bool is_conflict; /* a conditional write found another file */
        bool is_unknown;  /* the server does not have the method */
        bool is_lost;     /* there is no connection any more: nobody knows what the server has done */
        const char *text; /* the words of the server */
        const struct denial *denial; /* NULL: the profile has nothing to do with it */
};

/* The files of this machine, without a server: its methods run in this process, one after the other. That saves the start of a
 * server, which takes longer than a patch. */
struct patch_near {
        /* Does a request; `params` may be changed. Appends the result to `result`, or fills *ret_error and returns -EREMOTEIO. */
        int (*call)(void *arg, const char *method, struct buf *params, struct buf *result,
                    struct farhand_error *ret_error);
        /* Opens a file to be read, or to be emptied and written. Returns a descriptor, or err->code. */
        int (*open)(void *arg, const char *path, bool is_written, struct err *err);
        /* A patch was found that was interrupted: temporary files may be left. */
        void (*on_interrupted)(void *arg);
        void *arg;
};

struct asks {
        struct farhand *client;        /* NULL: `near` */
        const struct patch_near *near; /* NULL: the client does everything */
        const char *sandbox;           /* JSON; NULL: none. Without a client there is none. */
        struct arena *arena; /* failures, and what the functions that take answers keep; outlives the asks */
        size_t waiting;      /* requests without an answer */
        struct buf params;
        struct jsonw w; /* the params that are being written */
};

/* Gets an answer. `root` is the result, valid during the call, as is the scratch arena. With a failure `root` is NULL. */
struct answer {
        struct asks *asks;
        const struct json_doc *doc;
        const struct json *root;
        struct arena *scratch;
        const struct failure *failure; /* in the arena of the asks */
};
typedef void (*ask_take)(void *arg, const struct answer *answer);

/* `client` or `near` is NULL. */
void asks_begin(struct asks *s, struct farhand *client, const struct patch_near *near, const char *sandbox,
                struct arena *arena);
NODISCARD bool asks_has(const struct asks *s, const char *capability);
/* Returns whether the connection is lost for good. */
NODISCARD bool asks_are_lost(const struct asks *s);
void asks_release(struct asks *s); /* nothing may be under way */

/* Begins the params of a request; ask_about with the member `path`. Members are written to the writer that is returned, paths by
 * ask_path. */
struct jsonw *ask_begin(struct asks *s);
struct jsonw *ask_about(struct asks *s, const char *path);
void ask_path(struct asks *s, const char *key, const char *path);
/* Sends the request. `take` is called exactly once, at the latest by asks_wait; perhaps before this returns. With `is_question` the
 * request changes nothing, and is repeated after a lost connection. */
void ask_send(struct asks *s, const char *method, bool is_question, ask_take take, void *arg);
/* Waits until every request is answered. */
void asks_wait(struct asks *s);

/* The most bytes that a path may have as the protocol writes it, and that the text of a link may have. */
#define PATH_TEXT_MAX ((size_t)64 * 1024)

/* Reads the member `denied` of an error or of an answer; NULL when it tells of no denial. */
NODISCARD const struct denial *denial_read(struct arena *a, const struct json_doc *doc,
                                           const struct json *denied);
/* Returns an error of the library as a failure. */
NODISCARD const struct failure *failure_from(struct arena *a, const struct farhand_error *error);

/* Members of a result; absent or of another type: false, 0, empty. */
NODISCARD bool answered_flag(const struct answer *answer, const struct json *object, const char *key);
NODISCARD uint64_t answered_number(const struct answer *answer, const struct json *object, const char *key);
NODISCARD int64_t answered_time(const struct answer *answer, const struct json *object, const char *key);
/* Returns a member that is text; p is NULL when it is not there. */
NODISCARD struct slice answered_text(const struct answer *answer, const struct json *object, const char *key);
/* Decodes a member in base64 into the arena of the asks. Returns 0; -EPROTO; or -EFBIG when there are more bytes than `max`: a server may
 * send more than what was asked for. */
NODISCARD int answered_bytes(const struct answer *answer, const struct json *object, const char *key,
                             uint64_t max, struct slice *ret);
/* Returns the text of a link, from the member `target` or targetBase64 of a result, in the arena of the asks; NULL when there is none, or
 * when it has more than PATH_TEXT_MAX bytes. */
NODISCARD const char *answered_link(const struct answer *answer);
/* Returns a member that is a path or a file: URI, as a path in the arena of the asks; NULL when there is none, or when it has more than
 * PATH_TEXT_MAX bytes. */
NODISCARD const char *answered_path(const struct answer *answer, const struct json *object, const char *key);
