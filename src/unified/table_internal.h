/* table_internal: the objects of a table, for the files of this directory.
 *
 * Callbacks of libfarhand tell the events BEGIN and DELTA, and note what else has happened in the objects. unified_step() then calls
 * unified_calls_advance() and exec_sessions_advance(): only these let calls go on and free objects.
 */
#pragma once

#include "base/arena.h"
#include "base/head_tail.h"
#include "base/list.h"
#include "patch/apply.h"
#include "unified/deltas.h"
#include "unified/file_args.h"
#include "unified/shell_args.h"
#include "unified/unified.h"

#include <pthread.h>
#include <stdatomic.h>

#define SESSION_BUFFER_BYTES ((size_t)1024 * 1024)
#define AFTER_EXIT_MS 50   /* how long a call waits for the end of the output of a process that has exited */
#define END_GRACE_MS 100   /* how long UNIFIED_END waits for the end of the output */
#define INPUT_PAUSE_MS 100 /* how long a call waits after its input before it collects output */
#define HOST_INFO_MS 30000 /* how long a server may take to tell about its machine; then it counts as lost */
#define DENIALS_MS \
        2000 /* how long a call waits for the denials of its process; then it goes on without them */

enum host_state {
        HOST_IDLE,       /* not connected: nobody has asked for it */
        HOST_CONNECTING, /* the client is connecting */
        HOST_ASKING,     /* the server was asked about its machine */
        HOST_READY,
        HOST_FAILED, /* until the end of the step, so that the calls that wait learn why */
};

/* An environment with its client. */
struct host {
        struct unified *table;
        const char *id;
        const struct farhand_options *options;
        bool is_local;
        const char *given_cwd;    /* unified_environment::cwd, or the first of the roots */
        const char *const *roots; /* the workspace; NULL: cwd alone */
        enum host_state state;
        struct farhand *client;
        struct farhand_environment *info; /* HOST_READY; NULL: the server does not tell */
        const char *cwd;                  /* HOST_READY: the workspace; NULL: unknown */
        uint64_t deadline_ms;             /* HOST_ASKING */
        char error[1024];                 /* HOST_FAILED */
        const char *key;
        struct patch_job *job; /* the patch that is being applied; the other patches wait for it */
};

/* A process. Calls find it in the table by its id, from its start until a call has reported its end. The session is freed when
 * UNIFIED_END was told too. */
struct exec_session {
        struct list link; /* unified::sessions */
        struct unified *table;
        struct host *host;
        int id;
        bool is_listed;                  /* calls find the session by its id */
        struct farhand_process *process; /* NULL: gone with its client, or freed */
        struct arena strings;
        const char *call_id, *cwd, *cmd;
        const char *const *argv;
        bool tty;
        uint64_t used;             /* unified::clock when a call used it last */
        struct unified_call *user; /* the call that uses the session now; NULL: none */
        struct head_tail unread, transcript;
        struct deltas deltas;
        struct buf input; /* what the process has not taken yet */
        bool has_started, has_exited, is_closed, has_failed;
        bool has_begun, has_ended; /* UNIFIED_BEGIN, UNIFIED_END were told */
        bool is_sandboxed;         /* the process was started in a sandbox */
        bool is_ending; /* the process is being killed: the session was pruned, or all sessions end */
        struct farhand_exit exit;
        uint64_t started_us, exited_ms;
        char failure[1024];
        bool is_queried; /* the server was asked what was denied: this object must stay until the answer comes */
        char *denials; /* what was denied, as JSON; NULL: nothing, or the server has not told */
        bool is_own; /* the process belongs to one call of shell alone, and is no session that later calls find */
        /* is_own: */
        struct buf streams[2]; /* the beginning of stdout and of stderr, in place of `unread` */
        int directory_errno; /* has_failed: why its directory could not be entered; 0: that was not the reason */
        struct list
                programs; /* program::link: programs below the process and hosts, about which somebody is asked */
        struct buf refused_hosts; /* those that the model was told of, a line each */
        uint64_t asking_since_us; /* since when such a question is open; 0: none is open */
        uint64_t asked_us;        /* for how long such questions were open before */
};

enum call_state {
        CALL_NEW,
        CALL_CONNECTING, /* waits for the environment */
        CALL_ASKING,     /* waits for the user's answer to a question */
        CALL_STARTING,   /* waits for the answer to process/start */
        CALL_QUEUED,     /* other calls use the session */
        CALL_PAUSING,    /* has written, and waits INPUT_PAUSE_MS */
        CALL_COLLECTING, /* waits for the end of its window, or of the process */
        CALL_REPORTING,  /* asks the server what was denied */
        CALL_PATCHING,   /* a thread applies a patch */
        CALL_FILING,     /* a request for a file is under way */
        CALL_LOOKING,    /* a thread finds out the real paths of a patch */
        CALL_DONE,       /* the result is ready */
};

/* A call of shell. */
struct shell_state {
        struct shell_args args;
        uint64_t used_us;    /* by earlier runs: the time that counts against its limit */
        uint64_t started_us; /* when the first run began */
        uint64_t end_ms;     /* is_timed_out: until then the call waits for the end of the process */
        bool is_timed_out;
};

struct filing_request;

/* A call of a tool for files. */
struct filing_state {
        struct file_args args;
        const char *path; /* absolute */
        const char *
                run_path; /* the path that requests of this run name: `path`, or the real path that was allowed */
        const char *sandbox; /* the sandbox of this run, as JSON; NULL: none */
        bool is_bound;       /* the run is allowed for its real path: no link is followed */
        bool looks_at_directory;
        enum { FILE_STAT, FILE_CONTENT } step;
        struct filing_request *request; /* the request that is under way; NULL: none */
        char *result;                   /* of the last request, JSON; NULL: `error` says why there is none */
        struct farhand_error error;
        const char *denied;     /* the error of the run that the sandbox has denied */
        const char *image_type; /* unified_result::image_type */
        struct slice image;     /* in the strings of the call */
};

struct unified_call {
        struct list link; /* unified::calls, in the order in which they came */
        struct unified *table;
        enum unified_tool tool;
        enum call_state state;
        void *arg;
        struct arena strings;
        const char *id;
        struct exec_args exec;
        struct write_args write;
        struct patch_args patch;
        struct shell_state shell;
        struct filing_state file;
        struct host *host;
        struct exec_session *session; /* the session that the call uses; NULL: none */
        struct approval *approval;
        const char *const *argv; /* of exec_command */
        const char *cwd;
        uint64_t began_us,
                asked_us;       /* when the call began; for how long it has waited for answers of the user */
        uint64_t question_us;   /* CALL_ASKING: when the question was asked */
        uint64_t window_end_ms; /* when the window ends; 0: it has not begun */
        uint64_t
                wake_ms; /* when the call has to be looked at again; UINT64_MAX: only when something happens */
        bool is_cancelled;
        bool ends_process;     /* is_cancelled: the process that the call has started ends, too */
        bool has_write_failed; /* write_stdin: the process has not taken the input */
        char *error;           /* CALL_DONE: why the call has failed; NULL: it has not */
        int rpc_code;          /* unified_result::rpc_code */
        struct tool_answer answer;
        struct buf output, text;
        struct buf structured; /* unified_result::structured */
        /* apply_patch, also by exec_command: */
        bool is_patch;
        struct patch parsed;
        const char *const *paths; /* the absolute paths that the patch changes */
        struct patch_job *job;    /* CALL_PATCHING; then its result */
        struct patch_job *look;   /* CALL_LOOKING; then its result */
        char *denials;            /* what was denied to the patch, as JSON; NULL: nothing */
};

struct unified {
        struct unified_options options;
        struct arena strings, workspace; /* workspace: host::roots */
        struct host *hosts;
        size_t host_count;
        int epoll;
        struct list sessions; /* session::link */
        struct list calls;    /* unified_call::link */
        size_t call_count;
        uint64_t clock; /* counts the uses of sessions */
        bool is_paused;
        bool is_due;                 /* something has changed outside of a step */
        int wake;                    /* an eventfd, which threads make readable */
        struct list jobs;            /* patch_job::link */
        struct list filing_requests; /* filing_request::link */
};

/* ---- hosts.c ---- */

/* Returns the environment of that id; for an id of NULL the primary one. Returns NULL when there is none. */
NODISCARD struct host *host_find(struct unified *u, const char *id);
/* Begins to connect, unless that has begun already. Returns the state: HOST_READY, HOST_FAILED with host::error, or another one while the
 * connection is being made. */
NODISCARD enum host_state host_want(struct host *h);
void hosts_step(struct unified *u);
/* At the end of a step: forgets clients that have failed. */
void hosts_sweep(struct unified *u);
NODISCARD uint64_t hosts_due_ms(const struct unified *u, uint64_t now_ms);
void host_release(struct host *h);
/* Writes the `sandbox` object for a run with this profile. NULL: outside of a sandbox. The text is in the arena. */
NODISCARD const char *host_sandbox(struct arena *a, const struct host *h, const char *permissions);
/* Returns the absolute path of a directory, in the arena; NULL: the workspace is unknown. `dir` may be NULL. */
NODISCARD const char *host_path(struct arena *a, const struct host *h, const char *dir);

/* ---- sessions.c ---- */

/* How a command is started. */
struct exec_start {
        const char *cmd; /* for people */
        bool tty;
        const char *sandbox;                       /* NULL: none */
        const struct farhand_intercept *intercept; /* NULL: programs are not asked about */
        bool is_own; /* the process belongs to its call alone: no other call finds it, and it ends with it */
};

/* Asks the server to start the command of a call. Returns NULL with *ret_error when that fails. */
struct exec_session *exec_session_start(struct unified_call *call, const struct exec_start *how,
                                        struct farhand_error *ret_error);
NODISCARD struct exec_session *exec_session_find(struct unified *u, int64_t id);
/* Writes as much of session::input as the process takes. */
void exec_session_feed(struct exec_session *s);
/* Ends the process, and takes the session out of the table. */
void exec_session_end(struct exec_session *s);
/* Does the same, and ends also what a process has left behind that has exited. */
void exec_session_end_tree(struct exec_session *s);
/* Takes the session out of the table: no later call finds it. */
void exec_session_unlist(struct exec_session *s);
/* Notes that a call begins, or stops, to use the session. */
void exec_session_lock(struct exec_session *s, struct unified_call *call);
void exec_session_unlock(struct exec_session *s);
void exec_session_tell_interaction(struct exec_session *s, struct slice text);
/* Returns whether the process was lost before the server told its exit. */
static inline bool exec_session_is_lost(const struct exec_session *s)
{
        return s->has_failed && !s->has_exited;
}
/* Returns whether a call need not wait for more output of the process. */
NODISCARD bool exec_session_is_over(const struct exec_session *s, uint64_t now_ms);
/* Asks the server what was denied to a process that has exited; and whether anything was denied, when its exit did not tell. Returns
 * false when there is nothing to ask, or the server cannot tell. */
NODISCARD bool exec_session_ask_denials(struct exec_session *s);
void exec_sessions_advance(struct unified *u);
NODISCARD uint64_t exec_sessions_due_ms(const struct unified *u);
void exec_session_free(struct exec_session *s);

/* ---- programs.c ---- */

/* Takes what a server tells of a program below the process: a question, or its end. */
void programs_take(struct exec_session *s, const struct farhand_exec *exec);
/* Takes a question about a host that the process wants to reach, or its end. */
void programs_take_host(struct exec_session *s, const struct farhand_network_question *question);
/* Sends the answers that are there. */
void programs_advance(struct exec_session *s);
/* Withdraws all questions. */
void programs_release(struct exec_session *s);

/* ---- calls.c ---- */

void unified_calls_advance(struct unified *u);
NODISCARD uint64_t unified_calls_due_ms(const struct unified *u);
void unified_call_free(struct unified_call *c);
/* Makes this error the result of the call. The state becomes CALL_DONE. */
void unified_call_fail(struct unified_call *c, const char *fmt, ...) PRINTF_LIKE(2, 3);
/* Makes it an error of the protocol with this code of JSON-RPC, and not a result that a model reads. */
void unified_call_refuse(struct unified_call *c, int rpc_code, const char *text);
/* Makes the result of the call: what the session has written, with the exit code, or with the id while the process runs. Of a lost process
 * the result is an error that begins with `prefix`. */
void unified_call_answer(struct unified_call *c, const char *prefix);
/* Returns when a wait that begins now is over. The clock counts whole milliseconds, so one is added: no wait is too short. */
static inline uint64_t wait_end_ms(uint64_t now_ms, uint64_t wait_ms)
{
        return now_ms + wait_ms + 1;
}
/* Sets the state, and has the call looked at again at that time, or earlier when something happens. */
void unified_call_wait(struct unified_call *c, enum call_state state, uint64_t wake_ms);

/* Fills in the call, the environment and the directory of an action, begins its approval, and waits for what the approval says. */
void unified_call_ask(struct unified_call *c, struct approval_action action);
/* Tells the approval how the run has ended, and waits for what the approval says. `denials` may be NULL; `omitted` is how many denials
 * that list leaves out. */
void unified_call_ran(struct unified_call *c, bool is_denied, const char *denials, size_t omitted);
/* Tells the approval the real paths of the patch, and waits for what the approval says. */
void unified_call_looked(struct unified_call *c, const char *const *real_paths);
/* Ends the wait for the approval. The time of the wait counts neither as time of the call nor as time of its window. */
void unified_call_end_question(struct unified_call *c);

/* ---- patch_job.c ---- */

/* A patch that a thread applies, with a client of its own. It goes on when its call is cancelled. */
struct patch_job {
        struct list link; /* unified::jobs */
        struct host *host;
        struct unified_call *call; /* NULL: nobody waits for it any more */
        pthread_t thread;
        int wake;            /* unified::wake */
        atomic_bool is_done; /* the thread has nothing more to do; `result` is there */
        struct arena strings;
        struct slice text;
        struct patch_options options;
        bool is_look; /* nothing is applied: only the real paths are found out */
        struct farhand_options connection;
        struct patch_result result;
        char error[1024]; /* why there was no connection; "": there was one */
};

/* Begins to apply the patch of a call, as its approval says. Returns NULL when there is no thread. */
struct patch_job *patch_job_start(struct unified_call *c);
/* Begins to find out the real paths of the patch of a call, outside of any sandbox: the user who is asked must see where links lead that
 * the sandbox hides. */
struct patch_job *patch_job_look(struct unified_call *c);
void patch_jobs_collect(struct unified *u);  /* takes the results of the jobs that are done */
void patch_job_release(struct patch_job *j); /* the call has taken the result */
/* Waits until all jobs are done, for at most LIMIT_UNIFIED_PATCH_END_MS. Returns false when a thread still runs: it goes on to use its
 * job and unified::wake, which must not be freed. */
NODISCARD bool patch_jobs_finish(struct unified *u);

/* ---- filing_request.c ---- */

/* Sends a request to the server of the call. The answer is in filing_state::result or filing_state::error once filing_state::request is NULL.
 * Returns false, with filing_state::error, when the request cannot be sent. */
NODISCARD bool filing_request_begin(struct unified_call *c, const char *method, const char *params,
                                    bool is_repeatable);
void filing_request_forget(struct unified_call *c); /* nobody waits for the answer any more */
void filing_requests_release(struct unified *u);    /* when no server can answer any more */

/* ---- exec.c, write.c, patching.c, shell.c, filing.c ---- */

/* Each tool has two functions, one to decode and one to advance, and a row in the table of calls.c, which says what the two do. */
NODISCARD int exec_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                          struct err *err);
NODISCARD bool exec_advance(struct unified_call *c, uint64_t now_ms);
NODISCARD int write_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                           struct err *err);
NODISCARD bool write_advance(struct unified_call *c, uint64_t now_ms);
NODISCARD int patching_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                              struct err *err);
NODISCARD bool patching_advance(struct unified_call *c, uint64_t now_ms);
NODISCARD int shell_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                           struct err *err);
NODISCARD bool shell_advance(struct unified_call *c, uint64_t now_ms);
NODISCARD int filing_decode(struct unified_call *c, const struct json_doc *d, const struct json *arguments,
                            struct err *err);
NODISCARD bool filing_advance(struct unified_call *c, uint64_t now_ms);
/* Changes a call of exec_command into a call of apply_patch when the command does nothing but apply a patch, or fails the call when the
 * command is a patch without a call. Returns whether it has done either. */
NODISCARD bool patching_takes(struct unified_call *c);
