/* client: the objects of the client library, and what its files need of each other.
 *
 * Programs see only include/farhand/farhand.h. A client is used by one thread at a time.
 */
#pragma once

#include "base/head_tail.h"
#include "base/list.h"
#include "client/sequence.h"
#include "farhand/farhand.h"
#include "transport/endpoint.h"
#include "transport/transport.h"
#include "wire/json.h"
#include "wire/jsonw.h"
#include "wire/rpc.h"

#define CALLS_MAX 1024
#define REQUEST_MAX ((size_t)96 * 1024 * 1024) /* the longest request, as JSON */

#define CONNECT_TIMEOUT_MS 10000
#define INITIALIZE_TIMEOUT_MS 10000
#define RECOVER_MS 25000 /* less than the 30 s for which a server keeps a session */
#define RECOVER_RETRY_MS 100
#define SSH_CONNECT_TIMEOUT_MS 120000 /* a person may have to type a password; sshd waits as long */
#define SSH_PUT_TIMEOUT_MS 600000     /* until the program has arrived: 2 MB over a slow link */
#define SSH_RETRY_MS 1000
#define PING_MS 30000
/* A server that has sent nothing for so long, not even an answer to a ping, is gone. */
#define SILENCE_MS 75000
/* How long a missing event may still come by itself. After that the server is asked for it. */
#define HOLE_MS 1000
#define CHILD_PATIENCE_MS 2000
#define NETWORK_QUESTIONS_MAX 1024        /* a server asks no more at once */
#define SANDBOX_MAX ((size_t)1024 * 1024) /* the longest sandbox of file requests, as JSON */
/* The longest content of a file in one message: such a content fits into REQUEST_MAX as base64. */
#define WHOLE_FILE_MAX ((size_t)64 * 1024 * 1024)
/* A flag of a call: it is sent only to a server that knows sandboxes for commands (sandbox_check.c). */
#define CALL_NEEDS_SANDBOX (1U << 31)

/* Gets the answer to a call of the library itself. Exactly one of m and error is not NULL. */
typedef void (*call_done)(struct farhand *f, void *arg, const struct rpc_message *m,
                          const struct farhand_error *error);

struct call;
/* Reads an answer, and calls call::on_typed with its content. Exactly one of m and error is not NULL. */
typedef void (*call_tell)(struct farhand *f, const struct call *call, const struct rpc_message *m,
                          const struct farhand_error *error);
typedef void (*any_function)(void);

struct call {
        uint64_t id;                 /* 0: the slot is free */
        call_done done;              /* set for a call of the library itself */
        farhand_on_answer on_answer; /* set for a call of the program */
        call_tell tell;              /* set for a call of the program whose answer is read into a struct */
        any_function on_typed;       /* the callback of the program, which `tell` calls */
        uint64_t number;             /* a number of the call that `tell` needs, such as a limit */
        void *arg;
        unsigned flags;
        bool is_sent;
        bool is_forgotten; /* the answer is dropped: nothing waits for it any more */
        struct buf text;   /* the request, while it may have to be sent or sent again */
        size_t held;       /* the part of farhand::held_bytes that `text` takes */
};

/* Returns whether the server knows sandboxes for commands. */
enum sandbox_check {
        SANDBOX_UNASKED, /* nobody needed to know it yet */
        SANDBOX_ASKED,   /* the answer is awaited */
        SANDBOX_KNOWN,
        SANDBOX_UNKNOWN, /* the server would run commands without a sandbox */
};

struct farhand {
        struct farhand_options options; /* the strings of the options are copies in `strings` */
        struct arena strings;
        struct endpoint endpoint;
        bool has_endpoint;
        char *token;
        bool is_link; /* only the transport is used (link.c) */
        enum farhand_state state;
        bool is_initializing;     /* the answer to initialize is awaited */
        bool can_repeat_writes;   /* the server drops a write whose writeId it knows already */
        bool wants_uris;          /* paths are spelled as file: URIs */
        bool has_process_control; /* the server has the capability processControlV1 */
        char *session_id;         /* "" when the server gave none: then nothing can be resumed */
        char *info;               /* the answer to initialize */
        char *sandbox;            /* the sandbox of file requests, as JSON; NULL: none */
        enum sandbox_check sandbox_check;
        struct transport transport;
        int epoll;
        int watched; /* the descriptor in `epoll`, or -1 */
        uint32_t watched_events;
        unsigned watched_serial; /* transport::serial when `watched` was added */
        bool is_paused;          /* nothing is read */
        /* When connecting or initializing must be done; 0: neither is under way. */
        uint64_t attempt_end_ms;
        uint64_t recover_end_ms;
        uint64_t retry_at_ms;         /* when the next attempt to connect begins; 0: none is due */
        uint64_t losses;              /* how often the connection was lost */
        char lost_text[512];          /* why the connection was lost */
        struct farhand_error failure; /* in the state FARHAND_FAILED: why */
        uint64_t next_id;
        struct call calls[CALLS_MAX];
        size_t call_count;
        size_t held_bytes;     /* the bytes of all requests that may have to be sent or sent again */
        bool is_starved;       /* a process got no room for a write because other calls had all of it */
        struct list processes; /* farhand_process::link */
        uint64_t next_process;
        struct list files; /* farhand_file::link */
        uint64_t next_file;
        struct list http_requests; /* farhand_http::link */
        uint64_t next_http;
        struct list watches; /* farhand_watch::link */
        uint64_t next_watch;
        struct farhand_missing *missing; /* NULL: none is waited for */
        uint64_t next_missing;
        struct list network_questions; /* network_question::link */
        size_t network_question_count;
        uint64_t next_network_question;
        unsigned depth; /* how many calls of farhand_step are under way, one inside of the other */
};

enum process_state {
        PROCESS_STARTING,
        PROCESS_RUNNING, /* also after the exit, until the process is closed */
        PROCESS_OVER,    /* closed or failed: no event follows */
};

struct farhand_process {
        struct list link; /* farhand::processes */
        struct farhand *client;
        char *id;
        char *start_answer; /* the result of process/start; NULL: not there yet, or this object did not start the process */
        struct farhand_process_events events;
        void *arg;
        enum process_state state;
        struct sequence sequence;
        bool has_exited;
        struct farhand_exit exit;
        bool is_tty, is_stdin_closed;
        bool is_start_unknown; /* the connection was lost before the answer to process/start */
        bool is_reading;       /* process/read was sent for missed events, and its answer is awaited */
        /* Another client has started the process (farhand_adopt), so this client never ends it. */
        bool is_adopted;
        /* The process is adopted, and the server has not yet told the number of its next event. */
        bool is_adopting;
        /* Events up to this number came while the process was being adopted, and there was no room for them. */
        uint64_t dropped_seq;
        uint64_t hole_since_ms; /* since when later events wait for a missing one; 0: none is missing */
        bool has_failed;
        struct farhand_error failure;
        struct head_tail *kept; /* output that the program has not taken yet; NULL: output is not collected */
        bool is_freed; /* the program has freed the process; its memory is freed at the end of the step */
        /* The first part of every writeId of this object. The server remembers the ids of a process, and drops a write with a known id;
         * so another client that resumes the session must use another prefix. */
        uint32_t write_prefix;
        uint64_t next_write;
        unsigned network_timeout_ms; /* how long the server waits for an answer of on_network; 0: not known */
        unsigned writes_waiting;     /* how many writes wait for the server's answer */
        bool wants_room;             /* a write was cut short: on_writable is due */
};

/* ---- client.c ---- */

/* Called when the connection has failed. Tries to recover if that is possible; otherwise the client fails. */
void client_lost(struct farhand *f, const struct err *err);
/* Makes the client fail for good: every call and every process fails with this error. */
void client_fail(struct farhand *f, const struct farhand_error *error);
void client_set_state(struct farhand *f, enum farhand_state state, const char *text);

/* ---- notifications.c ---- */

void client_on_notification(struct farhand *f, const struct rpc_message *m);

/* ---- open.c ---- */

/* Begins one attempt to connect. */
NODISCARD int client_open(struct farhand *f, struct err *err);
/* Sends our program to a far machine that has no farhand of our version. */
NODISCARD int client_send_program(struct farhand *f, struct err *err);

/* ---- calls.c ---- */

/* Begins a request with {"id":N,"method":M,"params": after which the caller writes the params. Returns NULL with *ret_error when
 * there are too many calls. */
struct call *call_begin(struct farhand *f, const char *method, struct jsonw *w,
                        struct farhand_error *ret_error);
/* Ends the request, and sends it when there is a connection. Returns 0, or -EMSGSIZE when the request is too long: then `done` is
 * never called. */
int call_end(struct farhand *f, struct call *call, struct jsonw *w, unsigned flags, call_done done, void *arg,
             struct farhand_error *ret_error);
/* Drops, from now on, the answers of calls with this callback and argument. NULL: calls of the library itself; those of the program
 * stay, also when their argument is an object that is freed. */
void calls_forget(struct farhand *f, any_function on, const void *arg);
void calls_on_answer(struct farhand *f, const struct rpc_message *m);
void calls_send_waiting(struct farhand *f);             /* called after the handshake */
void calls_on_lost(struct farhand *f, const char *why); /* makes the calls fail that must not be repeated */
void calls_fail_all(struct farhand *f, const struct farhand_error *error);
/* Makes the calls fail that have this flag and are not sent yet. */
void calls_fail_flagged(struct farhand *f, unsigned flag, const struct farhand_error *error);
void calls_release(struct farhand *f);

/* ---- sandbox_check.c ---- */

/* Called before a command is started in a sandbox. Finds out whether the server knows what that is, if that is not known yet: calls with
 * CALL_NEEDS_SANDBOX wait for the answer. Returns 0, or -errno when a sandbox cannot be relied on. */
NODISCARD int sandbox_check_begin(struct farhand *f, struct farhand_error *ret_error);
/* Returns whether a call with these flags may be sent. */
static inline bool sandbox_check_allows(const struct farhand *f, unsigned flags)
{
        return !(flags & CALL_NEEDS_SANDBOX) || f->sandbox_check == SANDBOX_KNOWN;
}

/* ---- process.c ---- */

void client_process_on_notification(struct farhand *f, const struct rpc_message *m);
void client_processes_fail_all(struct farhand *f, const struct farhand_error *error);
void client_process_release(struct farhand_process *p);
void client_process_fail(struct farhand_process *p, const struct farhand_error *error);
/* Reads the members of an exit. The exit code is -1 when the server does not tell it. */
void client_exit_read(const struct json_doc *d, const struct json *object, struct farhand_exit *ret);
/* Reads seq, stream and chunk. Returns false when one is missing or wrong. The caller frees ret->bytes. */
bool client_output_read(const struct json_doc *d, const struct json *object, struct event *ret);
/* Tells the program one event, which must be the next in order. */
void client_process_tell(struct farhand_process *p, const struct event *event);
void client_process_tell_all(struct farhand_process *p); /* tells all events whose turn has come, in order */
void client_process_on_started(struct farhand_process *p, int64_t pid);
/* Called at the end of a step: frees the processes that the program gave back during the step. */
void client_processes_sweep(struct farhand *f);
void client_process_tell_writable(struct farhand_process *p);
/* Called at the end of a step: calls on_writable of the processes that wait for room, if there is room. */
void client_processes_feed(struct farhand *f);

/* ---- command.c ---- */

/* Checks what the server would refuse, or would not know and ignore. */
int client_command_check(const struct farhand *f, const struct farhand_command *c,
                         struct farhand_error *ret_error);
/* Writes the params of process/start. */
void client_command_write(const struct farhand *f, struct jsonw *w, const char *id,
                          const struct farhand_command *c);

/* ---- exec.c ---- */

/* Writes the member `intercept`. */
void client_intercept_write(struct jsonw *w, const struct farhand_intercept *given);
/* Takes a notification process/execRequested. */
void client_process_on_exec(struct farhand_process *p, const struct rpc_message *m);
/* Returns -EINVAL when this is no answer to a question. */
int client_decision_check(enum farhand_exec_decision decision, struct farhand_error *ret_error);
/* Writes the members of an answer, but processId. */
void client_decision_write(struct jsonw *w, const char *request_id, enum farhand_exec_decision decision,
                           const char *reason, bool remember);

/* ---- network.c ---- */

/* Checks what a server would not know and ignore. */
int client_network_check(const struct farhand *f, const struct farhand_network *given,
                         struct farhand_error *ret_error);
/* Writes the members `networkProxy` and `enforceManagedNetwork`. */
void client_network_write(struct jsonw *w, const struct farhand_network *given);
/* Returns how long the server waits for answers; 0: nobody is asked. `given` may be NULL. */
unsigned client_network_timeout_ms(const struct farhand_network *given);
/* Takes a notification network/policyDecision. */
void client_process_on_network_decision(struct farhand_process *p, const struct rpc_message *m);

/* ---- network_questions.c ---- */

/* Answers a request of the server, or makes a question of it. */
void client_on_request(struct farhand *f, const struct rpc_message *m);
/* Called when the connection was lost: its requests are gone, and come again with the next one. */
void client_network_questions_on_lost(struct farhand *f);
/* Withdraws the questions for which no server waits any more. */
void client_network_questions_on_time(struct farhand *f, uint64_t now_ms);
/* Returns when client_network_questions_on_time has work next; UINT64_MAX: never. */
uint64_t client_network_questions_due_ms(const struct farhand *f);
/* Drops the questions of a process that is over, or freed: the answer is no. */
void client_network_questions_drop(struct farhand_process *p);

/* ---- control.c ---- */

/* Writes the members `signal` and `scope`. */
void client_signal_write(struct jsonw *w, int signo, enum farhand_scope scope);
/* Writes the member `mode` of a graceful end. */
void client_grace_write(struct jsonw *w, unsigned grace_ms);

/* ---- snapshot.c ---- */

/* Does farhand_snapshot for a process of the session `session_id`; NULL: of this session. */
int client_snapshot(struct farhand *f, const char *process_id, const char *session_id, size_t max_bytes,
                    int timeout_ms, struct farhand_snapshot *ret, struct farhand_error *ret_error);

/* ---- recover.c ---- */

void client_processes_recover(struct farhand *f); /* asks the server for the events that were missed */
/* Asks the server for every event after the newest one that the program was told. */
NODISCARD int client_process_read_missed(struct farhand_process *p, struct farhand_error *ret_error);
/* Asks the server for missing events that have not come within HOLE_MS. */
void client_processes_on_time(struct farhand *f, uint64_t now_ms);
/* Returns when client_processes_on_time has work next; UINT64_MAX: never. */
uint64_t client_processes_due_ms(const struct farhand *f);

/* ---- wait.c ---- */

/* Returns when a wait of `timeout_ms` is over; a wait of -1 never is (UINT64_MAX). */
uint64_t client_wait_end(int timeout_ms);
/* Waits for an event until `end`, and handles it. Returns 1; 0 when the time is over; -errno when the client has failed. */
NODISCARD int client_wait_until(struct farhand *f, uint64_t end, struct farhand_error *ret_error);
/* Handles events until *is_there. Returns 0; -ETIMEDOUT at `end`; or another -errno when the client has failed. `what` names the
 * awaited thing in the error. */
NODISCARD int client_wait_for(struct farhand *f, const bool *is_there, uint64_t end, const char *what,
                              struct farhand_error *ret_error);

/* ---- file_sandbox.c ---- */

/* Writes the member `sandbox` of a file request; nothing when the sandbox is NULL. */
void client_sandbox_write(struct jsonw *w, const char *sandbox);

/* ---- metadata.c ---- */

/* Does farhand_stat_begin with this sandbox in place of that of the client; NULL: none. */
int client_stat_begin(struct farhand *f, const char *path, const char *sandbox, farhand_on_stat on_stat,
                      void *arg, struct farhand_error *ret_error);
/* Reads the answer to fs/getMetadata. Members that the server did not send are 0, or false. */
void client_metadata_read(const struct json_doc *doc, const struct json *object,
                          struct farhand_metadata *ret);
/* Reads the member `digest`. Writes "" when it is missing, or is no SHA-256. */
void client_digest_read(struct arena *a, const struct json_doc *doc, const struct json *object,
                        char ret[FARHAND_DIGEST_BYTES]);

/* ---- file_stream.c ---- */

void client_files_release(struct farhand *f);
/* Called at the end of a step: calls on_progress of the files that made progress. */
void client_files_tell(struct farhand *f);

/* ---- http.c ---- */

/* Takes a piece of a body. Returns false when the piece belongs to a request that the program made itself, with farhand_call. */
bool client_http_on_body(struct farhand *f, const struct rpc_message *m);
/* Fails the requests that are answered and whose body is not complete. */
void client_http_requests_fail(struct farhand *f, int code, const char *why);
void client_http_requests_sweep(struct farhand *f);
void client_http_requests_release(struct farhand *f);

/* ---- watch.c ---- */

/* Takes a notification fs/changed. Returns false when it is about a watch that the program made itself, with farhand_call. */
bool client_watch_on_changed(struct farhand *f, const struct rpc_message *m);
void client_watches_recover(struct farhand *f); /* asks the server for every watch again */
void client_watches_fail_all(struct farhand *f, const struct farhand_error *error);
void client_watches_sweep(struct farhand *f);
void client_watches_release(struct farhand *f);

/* ---- missing.c ---- */

/* Takes a notification fs/missingChanged. Returns false when it belongs to a request that the program made itself, with farhand_call. */
bool client_missing_on_changed(struct farhand *f, const struct rpc_message *m);
void client_missing_recover(struct farhand *f); /* tells a change: one may have been missed */
void client_missing_fail(struct farhand *f, const struct farhand_error *error);

/* ---- paths ---- */

/* Writes an absolute path as this server wants paths spelled, or null when the path is too long or not absolute. */
void client_path_write(const struct farhand *f, struct jsonw *w, const char *path);
