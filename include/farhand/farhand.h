/* farhand: run commands and touch files on another machine, from C.
 *
 * A `struct farhand` is a client: a connection to an exec server, and what is needed to survive the loss of that connection. It has
 * no threads of its own that run callbacks, no signal handlers, prints nothing and shares nothing with other clients, so that a
 * program may have several, one thread each at a time.
 *
 * Everything happens in farhand_step(): call it when farhand_fd() is readable, or when farhand_timeout_ms() has passed.
 * farhand_step() calls the callbacks, which may call any function of this header but farhand_free(), farhand_step() and those that
 * wait. The functions that wait (farhand_connect, farhand_call_wait, farhand_process_wait, farhand_process_yield,
 * farhand_communicate, farhand_snapshot, farhand_http_fetch, farhand_file_wait, and those on processes by their ids, on files and on
 * the environment that say so) call farhand_step() themselves. A callback must not free the process or the file that one of them
 * waits for.
 *
 * Functions return 0 or more, or a negative errno. A `struct farhand_error *` may be NULL. Options and commands are structs that
 * begin with their size, so that later versions can add members: begin with FARHAND_OPTIONS_INIT, FARHAND_COMMAND_INIT and their like.
 */
#ifndef FARHAND_FARHAND_H
#define FARHAND_FARHAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FARHAND_API __attribute__((visibility("default")))

struct farhand;
struct farhand_process;
struct farhand_file;
struct farhand_http;
struct farhand_watch;

/* ---- errors ---- */

struct farhand_error {
        int code;     /* a negative errno; -EREMOTEIO when the server has answered with an error */
        int rpc_code; /* the code of the server's error; 0 when the error is not the server's */
        char text[1024];
        /* The `data` of the server's error as JSON; empty when there is none, or when it does not fit. */
        char data[4096];
};

/* Returns the errno (a positive number) that the server's system gave, as far as the server tells it; else 0. */
FARHAND_API int farhand_error_errno(const struct farhand_error *error);

/* What a permission profile has refused. */
struct farhand_denial {
        const char *operation; /* "read" or "write" */
        const char *path;
        const char *rule;  /* "readOnly", "outside", "noEntry", "entry", "protected", "pattern", "own", … */
        const char *entry; /* the path or the pattern in the profile that says so; NULL: none does */
};
/* Returns what the permission profile of a file request has refused; NULL when the error has another cause, or the server does not tell.
 * The caller frees the struct with free(), which frees its strings too. */
FARHAND_API struct farhand_denial *farhand_error_denial(const struct farhand_error *error);

/* ---- connecting ---- */

/* Where the server is:
 *
 *   ws://HOST[:PORT][/PATH]  WebSocket on TCP
 *   wss://HOST[:PORT][/PATH] the same with TLS; needs the helper farhand-net
 *   unix:/PATH               WebSocket on a unix socket
 *   ssh://[USER@]HOST[:PORT] the user's own server on a machine that ssh reaches
 *
 * For ssh:// the program ssh is started, with the user's keys and configuration. Nothing need be installed on the machine: when there
 * is no farhand of this version, a static one is put into ~/.cache/farhand/ there. ssh runs in the process group of this program, so
 * that it can ask on the terminal, with SIGINT and SIGQUIT blocked, and writes what it has to say to stderr. While a lost connection
 * is resumed, it neither asks nor says anything.
 *
 * Without a URL, `argv` is a program that speaks the protocol on its stdin and stdout (`ssh HOST farhand serve --listen stdio`).
 * Without both, a private server is started here, which ends with this client. */
struct farhand_options {
        size_t size;
        const char *url;
        const char *const *argv; /* ends with NULL */
        /* For argv: "NAME=VALUE", added to the variables of this process; ends with NULL. */
        const char *const *env;
        const char *cwd;     /* the working directory of argv; NULL: that of this process */
        const char *farhand; /* the program farhand; NULL: beside this program, or where it was installed */
        const char *farhand_net;        /* the program farhand-net; NULL: where it is found from `farhand` */
        const char *token;              /* sent as a bearer token */
        const char *token_file;         /* a file whose first line is the token */
        const char *token_env;          /* the variable that holds the token; it is not passed on to argv */
        const char *client_name;        /* "farhand" */
        unsigned connect_timeout_ms;    /* 0: 10,000; for ssh:// 120,000 */
        unsigned initialize_timeout_ms; /* 0: 10,000 */
        const char *resume_session_id;  /* the session to go on with; NULL: a new one */
        bool takeover;                  /* take the session from another connection that has it */
        /* How long the session shall live without a connection; 0: the server decides. */
        uint64_t detach_ms;
        /* Called when the state has changed; `text` says why, in words for people. */
        void (*on_state)(struct farhand *f, void *arg, int state, const char *text);
        /* Called for a notification that belongs to no process, watch or HTTP request of this header. `params` is JSON. */
        void (*on_notification)(struct farhand *f, void *arg, const char *method, const char *params);
        void *arg;
        const char *ssh; /* for ssh://: the program; NULL: ssh of PATH */
        const char *
                static_dir; /* for ssh://: where farhand-x86_64 and farhand-aarch64 lie, the static programs that can be sent;
                                 * NULL: where they were installed, and `farhand` itself when it is static */
};
#define FARHAND_OPTIONS_INIT                           \
        {                                              \
                .size = sizeof(struct farhand_options) \
        }

enum farhand_state {
        FARHAND_CONNECTING, /* the first connection is being made */
        FARHAND_READY,
        FARHAND_RECOVERING, /* the connection was lost; calls wait until it is back, for 25 s at most */
        FARHAND_FAILED,     /* the client has failed for good, with everything that waited */
};

/* Begins to connect. Calls are possible when the state is FARHAND_READY. Returns NULL with *ret_error when the options are bad or
 * the program cannot be started. */
FARHAND_API struct farhand *farhand_new(const struct farhand_options *options,
                                        struct farhand_error *ret_error);
/* Makes a client like farhand_new(), and waits until the client is ready. */
FARHAND_API struct farhand *farhand_connect(const struct farhand_options *options,
                                            struct farhand_error *ret_error);
/* Closes the connection and frees the client with its processes; no callback is called. NULL is fine. A program that was started
 * for this client ends; after two seconds SIGKILL ends it. */
FARHAND_API void farhand_free(struct farhand *f);

FARHAND_API int farhand_fd(const struct farhand *f); /* for poll: readable when farhand_step has work */
/* For poll: after how many milliseconds farhand_step has work although farhand_fd is not readable; -1: never. */
FARHAND_API int farhand_timeout_ms(const struct farhand *f);
/* Does the work that is due. Returns 0, or a negative errno when the client has failed for good. */
FARHAND_API int farhand_step(struct farhand *f, struct farhand_error *ret_error);
/* Waits for work for at most `timeout_ms` (-1: as long as it takes) and does that work. */
FARHAND_API int farhand_wait(struct farhand *f, int timeout_ms, struct farhand_error *ret_error);

/* While a client is paused nothing is read from the server: neither answers nor output, which the server then holds back. */
FARHAND_API void farhand_pause(struct farhand *f, bool is_paused);

FARHAND_API enum farhand_state farhand_get_state(const struct farhand *f);
FARHAND_API const char *farhand_session_id(const struct farhand *f);  /* "" when the server has no sessions */
FARHAND_API const char *farhand_server_info(const struct farhand *f); /* the answer to initialize, as JSON */
FARHAND_API bool farhand_has_capability(const struct farhand *f, const char *name);

/* ---- a connection for somebody else ---- */

/* A connection to a server without a client on it: for programs that pass the conversation of another client on. Nothing is sent but
 * the upgrade to a WebSocket, with the token of the options. A program that is started for it, ssh too, does not ask on the terminal. */
struct farhand_link;

/* Connects, and waits for that for at most connect_timeout_ms. Of the options, those are used that say where the server is, and the
 * timeout. NULL with *ret_error: -EACCES when the server refuses the token. */
FARHAND_API struct farhand_link *farhand_link_open(const struct farhand_options *options,
                                                   struct farhand_error *ret_error);
/* A socket, non-blocking, that stays the link's: the caller reads and writes it until farhand_link_free(). */
FARHAND_API int farhand_link_fd(const struct farhand_link *link);
/* On the stdio of a program and of a private server a message is a line; otherwise messages are WebSocket frames. */
FARHAND_API bool farhand_link_is_lines(const struct farhand_link *link);
/* What the server has sent together with its answer to the upgrade: it comes before what is read from the socket. Returns how many
 * bytes; *ret is valid until farhand_link_free(). */
FARHAND_API size_t farhand_link_early(const struct farhand_link *link, const char **ret);
/* Closes the link. A program that was started for the link ends, at the latest after two seconds by SIGKILL. NULL is fine. */
FARHAND_API void farhand_link_free(struct farhand_link *link);

/* ---- any method ---- */

enum farhand_call_flags {
        /* The call is sent again when the connection is lost before its answer. This flag is for calls that change nothing, or may
         * be done twice. Without this flag the call fails with -ECONNRESET, because it is unknown whether the server has done
         * it. */
        FARHAND_REPEAT = 1,
};

/* Gets the answer to a call. Exactly one of `result` (JSON) and `error` is not NULL. */
typedef void (*farhand_on_answer)(struct farhand *f, void *arg, const char *result,
                                  const struct farhand_error *error);

/* Calls a method; `params` is JSON. Returns -EAGAIN when 1,024 calls wait already. The callback is called exactly once, unless the
 * client is freed before. */
FARHAND_API int farhand_call(struct farhand *f, const char *method, const char *params, unsigned flags,
                             farhand_on_answer on_answer, void *arg, struct farhand_error *ret_error);
/* Calls a method like farhand_call(), and waits for the answer for at most `timeout_ms` (-1: as long as it takes). *ret_result is
 * JSON, which the caller frees. */
FARHAND_API int farhand_call_wait(struct farhand *f, const char *method, const char *params, unsigned flags,
                                  int timeout_ms, char **ret_result, struct farhand_error *ret_error);

/* Returns how many bytes wait to be sent. A program that sends much waits until they are few. */
FARHAND_API size_t farhand_queued_bytes(const struct farhand *f);
/* Returns a path as this server wants it spelled, as a JSON string with its quotes, to be freed by the caller; NULL when the path
 * is not absolute. */
FARHAND_API char *farhand_path_json(const struct farhand *f, const char *path);

/* ---- processes ---- */

enum farhand_stream { FARHAND_STDOUT, FARHAND_STDERR, FARHAND_PTY };

struct farhand_exit {
        int code;        /* 128 + the signal that killed the process; -1 when the code is unknown */
        char signal[16]; /* such as "SIGKILL"; empty: no signal, or the server does not tell */
        char reason[24]; /* "exited", "signalled", "wallLimit", …; empty: the server does not tell */
        bool core_dumped;
        bool sandbox_denied; /* false when the server does not tell */
        bool is_denial_told; /* the server has told `sandbox_denied`, be it true or false; older ones tell it only in process/read */
};

enum farhand_exec_decision {
        FARHAND_EXEC_ASK,      /* a question: the program waits for farhand_process_decide */
        FARHAND_EXEC_RUN,      /* as the command runs, in its sandbox */
        FARHAND_EXEC_ESCALATE, /* outside of the sandbox */
        FARHAND_EXEC_DENY,
        FARHAND_EXEC_WITHDRAWN, /* the question waits for no answer any more */
};

/* A program that an intercepted command is to start (farhand_command.intercept). */
struct farhand_exec {
        enum farhand_exec_decision
                decision;       /* FARHAND_EXEC_ASK, or what was decided, by rules or by another client */
        const char *request_id; /* NULL: a report, about which nobody was asked */
        const char *
                file; /* the absolute path of the program; this and the next two are bytes, not always UTF-8 */
        const char *const *argv; /* ends with NULL */
        const char *cwd;
        uint64_t omitted_bytes; /* of the arguments of a report: more than 1 MiB is left out */
        int64_t pid; /* the process that wants to become the program; 0: the command itself, which has not begun */
        /* The strictest rule that matched: with one, a yes is FARHAND_EXEC_ESCALATE, without FARHAND_EXEC_RUN. */
        const char *rule_name; /* NULL: no rule matched, and the next two mean nothing */
        uint64_t rule_line;
        const char *justification; /* NULL: none */
};

enum farhand_network_action {
        FARHAND_NETWORK_ALLOW,
        FARHAND_NETWORK_DENY,
        FARHAND_NETWORK_ASK,       /* a question: a connection waits for farhand_process_answer_network */
        FARHAND_NETWORK_WITHDRAWN, /* the question waits for no answer any more */
};

/* A host that a process with a managed network (farhand_command.network) wants to reach, and that its policy neither allows nor denies. */
struct farhand_network_question {
        enum farhand_network_action action; /* FARHAND_NETWORK_ASK or _WITHDRAWN */
        uint64_t id;                        /* for the answer */
        const char *protocol;               /* "http", "https_connect", "socks5_tcp", … */
        const char *host;                   /* any text: the process has chosen it */
        uint16_t port;
};

/* What was decided about a connection of such a process. */
struct farhand_network_decision {
        enum farhand_network_action action;
        const char *source; /* "baseline_policy", "decider", "mode_guard", "proxy_state", … */
        const char *reason; /* "allow", "not_allowed", "denied", "not_allowed_local", … */
        const char *protocol, *host;
        uint16_t port;
        const char *method; /* NULL: not told */
        const char *client; /* the address of the process's end; NULL: not told */
        const char *time;   /* RFC 3339 */
        bool is_guard;      /* it was decided for another reason than the host */
        bool is_overridden; /* an answer has allowed what the policy did not */
        uint64_t count;     /* of so many connections together */
};

struct farhand_process_events {
        void (*on_started)(struct farhand_process *p, void *arg,
                           int64_t pid); /* pid -1: the server does not tell */
        void (*on_output)(struct farhand_process *p, void *arg, enum farhand_stream stream, const void *bytes,
                          size_t n);
        /* The server has taken what was written to this process: there is room for more. */
        void (*on_writable)(struct farhand_process *p, void *arg);
        void (*on_exited)(struct farhand_process *p, void *arg, const struct farhand_exit *exit);
        void (*on_closed)(struct farhand_process *p, void *arg); /* no output will come any more */
        /* The start failed, or the process was lost. No other event follows. */
        void (*on_failed)(struct farhand_process *p, void *arg, const struct farhand_error *error);
        /* The server no longer keeps the events from `first_seq` to `last_seq`, which came while this client was not connected:
         * `bytes` of output are missing here (0: the server does not tell how many). Without this callback, and without
         * farhand_process_collect, a process that this client started is ended, and fails; a process that it adopted fails. */
        void (*on_gap)(struct farhand_process *p, void *arg, uint64_t first_seq, uint64_t last_seq,
                       uint64_t bytes);
        /* A program is to be started below an intercepted command, or its question has ended. Questions that are open are told again
         * when the connection was lost and is back. Without this callback the questions of a process that this client has started are
         * answered with FARHAND_EXEC_DENY. */
        void (*on_exec)(struct farhand_process *p, void *arg, const struct farhand_exec *exec);
        /* A connection waits for an answer, or its question has ended. While the connection to the server is lost a question stays open: the
         * server asks again, which is not told again, and an answer that was given meanwhile is sent then. Without this callback the
         * answer is FARHAND_NETWORK_DENY. */
        void (*on_network)(struct farhand_process *p, void *arg,
                           const struct farhand_network_question *question);
        /* A server that is busy leaves some of these out. */
        void (*on_network_decision)(struct farhand_process *p, void *arg,
                                    const struct farhand_network_decision *decision);
};

struct farhand_ports {
        uint16_t from, to; /* the first and the last */
};

/* All elements of an array of these have the same size. */
struct farhand_network_rule {
        size_t size;
        enum farhand_network_action action;
        const char *host; /* a pattern; NULL: none */
        const char *cidr; /* addresses, "10.1.0.0/16"; with a host: of that host; NULL: none */
        const struct farhand_ports *ports; /* none: 80 and 443 */
        size_t port_count;
        const char *const *protocols; /* ends with NULL; NULL: any */
        const char *const *methods;   /* of HTTP; ends with NULL; NULL: any */
};
#define FARHAND_NETWORK_RULE_INIT                           \
        {                                                   \
                .size = sizeof(struct farhand_network_rule) \
        }

/* Which hosts a process may reach, through proxies that its variables name. In a sandbox there is no other network; without one nothing
 * keeps a program from going around. Patterns are a name, "*.NAME" for the names below it, "**.NAME" for these and itself, or "*". Lists
 * end with NULL; NULL is an empty list. What is denied stays denied. */
struct farhand_network {
        size_t size;
        const char *const *allow, *const *deny; /* patterns, for all ports */
        const char *const *review;              /* patterns: asked about even when they are allowed */
        /* In place of `allow` and `deny`. Together with them it is -EINVAL, and without egressV1 -EOPNOTSUPP. */
        const struct farhand_network_rule *rules;
        size_t rule_count;
        const char *
                mode; /* NULL: "full"; "limited": only to read; "observe" (egressV1): all public hosts, and on_network_decision tells */
        bool allow_local;  /* also addresses of private networks and of the server's own machine */
        bool no_socks;     /* no SOCKS proxy besides that for HTTP */
        bool use_upstream; /* go through the proxies that the server's own variables name */
        unsigned
                ask_timeout_ms; /* on_network is asked about other hosts, which may take so long; 0: they are denied at once */
};
#define FARHAND_NETWORK_INIT                           \
        {                                              \
                .size = sizeof(struct farhand_network) \
        }

struct farhand_rules_text {
        const char *name; /* for errors, and for farhand_exec.rule_name */
        const char *text; /* in the language of .rules files */
};

/* Rules decide about every program that a command starts, and about its first one (farhand-rules(1)). */
struct farhand_intercept {
        size_t size;
        const struct farhand_rules_text *rules;
        size_t rule_count;
        const char *scope;         /* NULL: "all"; or "shell", "below" */
        const char *program_names; /* NULL: "base"; or "full" */
        const char *on_prompt;     /* NULL: "ask"; or "deny" */
        const char *on_unmatched;  /* NULL: "heuristic"; "run", "ask" */
        bool report;               /* on_exec also tells of programs about which nobody was asked */
};
#define FARHAND_INTERCEPT_INIT                           \
        {                                                \
                .size = sizeof(struct farhand_intercept) \
        }

/* What a process may use; 0: as much as the server may. A limit that a server does not know, or cannot enforce, is the server's error. */
struct farhand_limits {
        size_t size;
        uint64_t wall_ms;    /* from the start on */
        uint64_t silence_ms; /* without output */
        uint64_t cpu_seconds;
        uint64_t memory_bytes;
        uint64_t open_files;
        uint64_t processes;
        uint64_t file_bytes; /* the largest file that it writes */
};
#define FARHAND_LIMITS_INIT                           \
        {                                             \
                .size = sizeof(struct farhand_limits) \
        }

enum farhand_inherit {
        FARHAND_INHERIT_ALL,
        FARHAND_INHERIT_CORE, /* HOME, PATH, SHELL, USER and their like */
        FARHAND_INHERIT_NONE,
};
/* Which variables of the server a command gets. Patterns have `*` and `?`. Lists end with NULL; NULL is an empty list. */
struct farhand_env_policy {
        size_t size;
        enum farhand_inherit inherit;
        bool with_secrets;               /* also those whose names look like secrets */
        const char *const *exclude;      /* patterns of names to leave out */
        const char *const *set;          /* "NAME=VALUE", set after that */
        const char *const *include_only; /* patterns; only these names stay, when there are any */
};
#define FARHAND_ENV_POLICY_INIT                           \
        {                                                 \
                .size = sizeof(struct farhand_env_policy) \
        }

struct farhand_command {
        size_t size;
        const char *process_id;  /* NULL: the library makes an id */
        const char *const *argv; /* ends with NULL */
        /* An absolute path on the server's machine; NULL: the working directory of the server, if the server tells it. */
        const char *cwd;
        const char *const *env; /* more variables, "NAME=VALUE"; ends with NULL; NULL: none */
        /* JSON of the member `envPolicy`; NULL: the variables of the server, except those that look like secrets. */
        const char *env_policy;
        const char *arg0;
        bool tty;
        bool stdin_open;        /* without a tty: stdin is a pipe; false: stdin is empty */
        unsigned rows, columns; /* the size of the tty; 0: 24 and 80 */
        /* JSON of the member `sandbox`. On a server that is too old to know it the process fails with -EOPNOTSUPP: nothing runs. */
        const char *sandbox;
        const char *limits; /* JSON of the member `limits` */
        /* The caller has wrapped the command in a sandbox of its own. A server may refuse that. */
        bool prepared;
        /* For argv "/PATH/bash", "-lc", SCRIPT: what the profile files of the shell set up is found out once for each scope, which is a
         * name of 1 to 256 bytes, and later commands of the scope do not run them again. NULL: they run. Without effect for other
         * commands, and on servers without shellSnapshotV2. */
        const char *snapshot_scope;
        /* NULL: programs are not intercepted. A server without execInterceptV1 is not asked: farhand_start returns -EOPNOTSUPP. */
        const struct farhand_intercept *intercept;
        /* In place of `limits` and of `env_policy`; NULL: what those say. Both at once is -EINVAL. Limits are an extension of Farhand:
         * without processControlV1 farhand_start returns -EOPNOTSUPP. */
        const struct farhand_limits *limit;
        const struct farhand_env_policy *policy;
        /* NULL: what the sandbox says about the network. A server without networkProxyLaunch is not asked: farhand_start returns
         * -EOPNOTSUPP. */
        const struct farhand_network *network;
};
#define FARHAND_COMMAND_INIT                           \
        {                                              \
                .size = sizeof(struct farhand_command) \
        }

/* Asks the server to start a command. `command` and `events` are needed only during the call; `arg` belongs to the caller. Returns
 * NULL with *ret_error when the request cannot be made. */
FARHAND_API struct farhand_process *farhand_start(struct farhand *f, const struct farhand_command *command,
                                                  const struct farhand_process_events *events, void *arg,
                                                  struct farhand_error *ret_error);
/* Takes on a process that runs already in this session: its retained output above `after_seq` and all that follows is told, and always
 * how it ended. 0: all that is retained; what is not is told by on_gap. A process may be adopted several times, and while this client
 * has it already: each of these objects is told everything. */
FARHAND_API struct farhand_process *farhand_adopt(struct farhand *f, const char *process_id,
                                                  uint64_t after_seq,
                                                  const struct farhand_process_events *events, void *arg,
                                                  struct farhand_error *ret_error);
/* Frees the struct; the process itself runs on. NULL is fine. */
FARHAND_API void farhand_process_free(struct farhand_process *p);
FARHAND_API const char *farhand_process_id(const struct farhand_process *p);
/* Returns the answer to the start as JSON: which sandbox and which limits hold, and how. NULL before on_started, and for a process that
 * was adopted. */
FARHAND_API const char *farhand_process_start_answer(const struct farhand_process *p);
/* Returns the number of the newest event that was told, for farhand_adopt(). */
FARHAND_API uint64_t farhand_process_last_seq(const struct farhand_process *p);

/* Writes to the stdin. Returns how many bytes were taken, which may be fewer than n: on_writable says when there is room again.
 * Returns -EPIPE when the stdin is closed or the process has ended. */
FARHAND_API int64_t farhand_process_write(struct farhand_process *p, const void *bytes, size_t n,
                                          struct farhand_error *ret_error);
/* Closes the stdin, after what was written is delivered. Returns -EOPNOTSUPP when this server cannot close a pipe. */
FARHAND_API int farhand_process_close_stdin(struct farhand_process *p, struct farhand_error *ret_error);
FARHAND_API int farhand_process_resize(struct farhand_process *p, unsigned rows, unsigned columns);
/* Sends a signal, by its number, to the process group. Returns -EOPNOTSUPP for a signal other than SIGINT when the server has no
 * processControlV1. */
FARHAND_API int farhand_process_signal(struct farhand_process *p, int signo);
enum farhand_scope {
        FARHAND_SCOPE_GROUP,   /* the process group */
        FARHAND_SCOPE_PROCESS, /* the process alone */
        FARHAND_SCOPE_TREE,    /* the process and all its descendants */
};
/* Does the same for a scope. A scope other than the group needs processControlV1. */
FARHAND_API int farhand_process_signal_to(struct farhand_process *p, int signo, enum farhand_scope scope);
/* Answers a question of on_exec: FARHAND_EXEC_RUN, _ESCALATE or _DENY. `reason` (may be NULL) reaches standard error of a denied program.
 * With `remember` the same file, arguments and directory get the same answer below this command from then on. Returns 0, or -errno. */
FARHAND_API int farhand_process_decide(struct farhand_process *p, const char *request_id,
                                       enum farhand_exec_decision decision, const char *reason, bool remember,
                                       struct farhand_error *ret_error);
enum farhand_remember { FARHAND_REMEMBER_NOTHING, FARHAND_REMEMBER_PROCESS, FARHAND_REMEMBER_SESSION };
struct farhand_network_answer {
        size_t size;
        enum farhand_network_action action; /* FARHAND_NETWORK_ALLOW or _DENY */
        /* For how long the same host, port and protocol get the same answer unasked; a server without egressV1 asks again. */
        enum farhand_remember remember;
        uint64_t ttl_ms; /* with `remember`: no longer than that; 0: no such limit */
        const char *
                reason; /* of a denial, for the process: at most 1,024 bytes without control characters; NULL: none */
};
#define FARHAND_NETWORK_ANSWER_INIT                           \
        {                                                     \
                .size = sizeof(struct farhand_network_answer) \
        }
/* Answers a question of on_network, in the callback or later. Returns 0; -ESRCH when the question has ended. */
FARHAND_API int farhand_process_answer_network(struct farhand_process *p, uint64_t question_id,
                                               const struct farhand_network_answer *answer,
                                               struct farhand_error *ret_error);
/* Sends SIGKILL to the process and all its descendants. */
FARHAND_API int farhand_process_terminate(struct farhand_process *p);
#define FARHAND_GRACE_MAX_MS 60000
/* Sends SIGTERM to the process group, and SIGKILL to the process and all its descendants when the process still runs after `grace_ms`
 * (at most FARHAND_GRACE_MAX_MS: else -EINVAL). Returns -EOPNOTSUPP when the server has no processControlV1. */
FARHAND_API int farhand_process_stop(struct farhand_process *p, unsigned grace_ms);

FARHAND_API bool farhand_process_has_exited(const struct farhand_process *p, struct farhand_exit *ret_exit);
/* Returns true also when the process has failed. */
FARHAND_API bool farhand_process_is_closed(const struct farhand_process *p);

/* Waits until the process is closed (all its output was told), has failed, or the time is over (-ETIMEDOUT). */
FARHAND_API int farhand_process_wait(struct farhand_process *p, int timeout_ms, struct farhand_exit *ret_exit,
                                     struct farhand_error *ret_error);

/* Keeps the output from now on, for programs that take it now and then: the first half of `cap_bytes` from the beginning and the
 * other half from the end; 0: 1 MiB. A call right after farhand_start or farhand_adopt misses no output. The callbacks are called
 * as before. */
FARHAND_API int farhand_process_collect(struct farhand_process *p, size_t cap_bytes,
                                        struct farhand_error *ret_error);

struct farhand_taken {
        /* The bytes of all streams in the order in which they came, and a NUL that is not counted. The caller frees them. */
        char *bytes;
        size_t n;
        size_t head_bytes;      /* omitted_bytes are missing behind these */
        uint64_t omitted_bytes; /* how many bytes are missing */
};
/* Takes the output that was collected since the last call, without waiting. Each byte is given once. */
FARHAND_API int farhand_process_take(struct farhand_process *p, struct farhand_taken *ret,
                                     struct farhand_error *ret_error);
/* Takes the output like farhand_process_take, but waits before: for `yield_ms` (-1: as long as it takes), or until the process has
 * exited and its output has ended, or until 50 ms after its exit. Returns 1 while the process runs, 0 when it has exited. Of a
 * process that failed, a first call gives the output, a second call the error. */
FARHAND_API int farhand_process_yield(struct farhand_process *p, int yield_ms, struct farhand_taken *ret,
                                      struct farhand_error *ret_error);

/* The output of a process of the session so far, and its state. A snapshot takes no output away from other readers. */
struct farhand_snapshot {
        char *out, *err; /* a NUL that is not counted follows the bytes; what a tty shows is in `out` */
        size_t out_bytes, err_bytes;
        /* How many bytes are missing between the beginning and the end of each stream. */
        uint64_t out_omitted_bytes, err_omitted_bytes;
        /* Output is missing. From servers without processControlV1 the number of missing bytes may be unknown. */
        bool is_truncated;
        bool has_exited, is_closed;
        struct farhand_exit exit; /* set when has_exited */
        uint64_t next_seq;        /* the number of the next event; next_seq - 1 is for farhand_adopt */
};
/* Exactly one of `snapshot` and `error` is not NULL. The strings that the callback leaves in the struct are freed. */
typedef void (*farhand_on_snapshot)(struct farhand *f, void *arg, struct farhand_snapshot *snapshot,
                                    const struct farhand_error *error);
/* Asks for a snapshot with at most `max_bytes` of each stream, half of them from the beginning if the server keeps that. */
FARHAND_API int farhand_snapshot_begin(struct farhand *f, const char *process_id, size_t max_bytes,
                                       farhand_on_snapshot on_snapshot, void *arg,
                                       struct farhand_error *ret_error);
/* As farhand_snapshot_begin, but waits for the answer. */
FARHAND_API int farhand_snapshot(struct farhand *f, const char *process_id, size_t max_bytes, int timeout_ms,
                                 struct farhand_snapshot *ret, struct farhand_error *ret_error);
FARHAND_API void farhand_snapshot_release(struct farhand_snapshot *snapshot); /* frees its strings */

struct farhand_output {
        char *out, *err; /* to be freed by the caller; a NUL that is not counted follows the bytes */
        size_t out_bytes, err_bytes;
        struct farhand_exit exit;
};
/* Runs a command: writes the input, closes the stdin, waits until the process is closed, and collects its output: at most
 * `max_bytes` of each stream; more output is -EMSGSIZE. Without a tty the stdin is a pipe when there is input, or when the command
 * asks for one; what a tty shows is in `out`. *ret is written only on success. */
FARHAND_API int farhand_communicate(struct farhand *f, const struct farhand_command *command,
                                    const void *input, size_t input_bytes, size_t max_bytes, int timeout_ms,
                                    struct farhand_output *ret, struct farhand_error *ret_error);

/* ---- processes by their ids, also of other sessions ----
 *
 * These functions wait for the answer. Those on processes of another session leave that session with its client. Which sessions and
 * processes a client may see is the server's to say. Without processControlV1 they return -EOPNOTSUPP, but where they say otherwise. */

struct farhand_target {
        size_t size;
        const char *process_id;
        const char *session_id; /* as the lists below tell it; NULL: this session */
};
#define FARHAND_TARGET_INIT                           \
        {                                             \
                .size = sizeof(struct farhand_target) \
        }

/* Sends a signal. A process of this session that does not exist is no error. SIGINT to a group of this session needs no
 * processControlV1. */
FARHAND_API int farhand_target_signal(struct farhand *f, const struct farhand_target *target, int signo,
                                      enum farhand_scope scope, struct farhand_error *ret_error);
/* Ends a process like farhand_process_stop; with a negative `grace_ms` like farhand_process_terminate, which needs no processControlV1
 * for a process of this session. Returns 1 when the process ran, or 0 when it has exited or does not exist. */
FARHAND_API int farhand_target_terminate(struct farhand *f, const struct farhand_target *target, int grace_ms,
                                         struct farhand_error *ret_error);
enum farhand_until {
        FARHAND_UNTIL_CLOSED, /* all output has ended as well */
        FARHAND_UNTIL_EXITED,
};
/* Waits until a process is so far, for at most `timeout_ms` (-1: as long as it takes): then it is -ETIMEDOUT. `ret_exit` may be NULL. */
FARHAND_API int farhand_target_wait(struct farhand *f, const struct farhand_target *target,
                                    enum farhand_until until, int timeout_ms, struct farhand_exit *ret_exit,
                                    struct farhand_error *ret_error);

/* Answers a question of a process like farhand_process_decide. */
FARHAND_API int farhand_target_decide(struct farhand *f, const struct farhand_target *target,
                                      const char *request_id, enum farhand_exec_decision decision,
                                      const char *reason, bool remember, struct farhand_error *ret_error);

/* What a command in a sandbox seems to have been refused. */
struct farhand_refused {
        const char *operation; /* "write", "connect", "systemCall", "unknown" */
        const char *path;      /* NULL: not told */
        const char *address;   /* HOST or HOST:PORT of a connect; NULL: not told */
        const char *
                source; /* "output": a guess from what the command printed; "signal": the kernel has killed it for it */
};
/* What the server knows of a process. Later versions may add members. */
struct farhand_report {
        bool has_exited, is_closed;
        uint64_t next_seq;        /* the number of the next event */
        struct farhand_exit exit; /* set when has_exited, as all that follows */
        bool has_usage;           /* the next three are told */
        uint64_t user_ms, system_ms, max_rss_bytes;
        bool is_intercepted; /* the next three are told: how many starts of programs were decided how */
        uint64_t run, escalated, denied;
        const struct farhand_refused *refused;
        size_t refused_count;
};
struct farhand_report_options {
        size_t size;
        /* What is waited for, and for how long; 0: not at all, -1: as long as it takes. */
        enum farhand_until until;
        int timeout_ms;
        int drain_ms; /* FARHAND_UNTIL_CLOSED: wait at most so long after the exit; negative: no such limit */
};
#define FARHAND_REPORT_OPTIONS_INIT                                           \
        {                                                                     \
                .size = sizeof(struct farhand_report_options), .drain_ms = -1 \
        }
/* Calls `on_report` once with what the server knows of a process, also when the time is over before what was waited for has come. What the
 * callback gets is valid during the call. `options` may be NULL: at once. */
FARHAND_API int farhand_target_report(struct farhand *f, const struct farhand_target *target,
                                      const struct farhand_report_options *options,
                                      void (*on_report)(void *arg, const struct farhand_report *report),
                                      void *arg, struct farhand_error *ret_error);

/* How far a process is. */
struct farhand_progress {
        size_t size;
        uint64_t next_seq; /* next_seq - 1 is the number to go on with */
        bool has_exited, is_closed;
        struct farhand_exit exit; /* set when has_exited */
        /* Output that is no longer kept: the numbers of its first and last event, and its bytes. All 0: nothing is missing, or a server
         * without processControlV1 does not tell. */
        uint64_t gap_first_seq, gap_last_seq, gap_bytes;
};
#define FARHAND_PROGRESS_INIT                           \
        {                                               \
                .size = sizeof(struct farhand_progress) \
        }
/* Reads the output that the server keeps above the number `after_seq`, about `max_bytes` of it (0: 1 MiB), and waits for some for at most
 * `wait_ms` when there is none. Calls `on_output` for each piece. Reading takes nothing away from others. For a process of this session
 * no processControlV1 is needed. `ret` is a struct with its size. */
FARHAND_API int farhand_target_read(struct farhand *f, const struct farhand_target *target,
                                    uint64_t after_seq, size_t max_bytes, unsigned wait_ms,
                                    void (*on_output)(void *arg, uint64_t seq, enum farhand_stream stream,
                                                      const void *bytes, size_t n),
                                    void *arg, struct farhand_progress *ret, struct farhand_error *ret_error);
/* Does farhand_snapshot for a process of this session or of another. For this session no processControlV1 is needed. */
FARHAND_API int farhand_target_snapshot(struct farhand *f, const struct farhand_target *target,
                                        size_t max_bytes, int timeout_ms, struct farhand_snapshot *ret,
                                        struct farhand_error *ret_error);

struct farhand_process_query {
        size_t size;
        const char *process_id; /* only this one; NULL: all */
        const char *session_id; /* processes of this session; NULL: of the client's own */
        bool all_sessions;      /* processes of all sessions that this client may see */
};
#define FARHAND_PROCESS_QUERY_INIT                           \
        {                                                    \
                .size = sizeof(struct farhand_process_query) \
        }

/* A process in a list. Later versions may add members. */
struct farhand_process_info {
        const char *process_id;
        const char *session_id;  /* NULL: the client's own */
        const char *const *argv; /* ends with NULL */
        const char *cwd;         /* NULL: not told */
        bool tty;
        int64_t pid;                        /* -1: not known yet */
        int64_t started_ms, last_output_ms; /* since 1970; 0: not yet */
        bool is_running, is_closed;
        struct farhand_exit exit; /* set when the process does not run any more */
        uint64_t retained_bytes;  /* output that can be read */
        uint64_t dropped_bytes;   /* output that is no longer kept */
        uint64_t next_seq;        /* the number of the next event */
        const char *sandbox_type; /* "none", "linuxSeccomp"; NULL: not told */
};
/* Calls `on_process` for each process, in the order of their starts. `query` may be NULL: those of this session. What the callback gets
 * is valid during the call. A process whose id has a NUL is left out: no function could name it. */
FARHAND_API int farhand_list_processes(struct farhand *f, const struct farhand_process_query *query,
                                       void (*on_process)(void *arg, const struct farhand_process_info *info),
                                       void *arg, struct farhand_error *ret_error);

/* A session in a list. Later versions may add members. */
struct farhand_session_info {
        const char *session_id;  /* shortened where it is not for this client to resume */
        const char *client_name; /* NULL: not told */
        bool is_attached;        /* the session has a connection */
        int64_t created_ms;      /* since 1970 */
        int64_t expires_ms; /* when the session ends unless somebody attaches to it; 0: it has a connection */
        uint64_t processes; /* how many, with closed ones that are still readable */
};
/* Calls `on_session` for each session that this client may see, in no order. What the callback gets is valid during the call. */
FARHAND_API int farhand_list_sessions(struct farhand *f,
                                      void (*on_session)(void *arg, const struct farhand_session_info *info),
                                      void *arg, struct farhand_error *ret_error);

/* ---- the environment of the server ---- */

/* What a server tells about its machine. A member is NULL when the server does not tell it. */
struct farhand_environment {
        char *shell_name, *shell_path;
        char *cwd, *home, *temp_dir; /* paths */
        char *os;                    /* "linux" */
        char *executor_name, *executor_version;
        char *sandbox_backend; /* "namespaces", "bubblewrap", "landlock", "none" */
        char *json;            /* the whole answer of the server */
};
/* Exactly one of `environment` and `error` is not NULL. The callback owns the environment and frees it with
 * farhand_environment_free. */
typedef void (*farhand_on_environment)(struct farhand *f, void *arg, struct farhand_environment *environment,
                                       const struct farhand_error *error);
/* Exactly one of `status` and `error` is not NULL. `status` is "ready" when the server can work. */
typedef void (*farhand_on_status)(struct farhand *f, void *arg, const char *status,
                                  const struct farhand_error *error);
FARHAND_API int farhand_environment_info_begin(struct farhand *f, farhand_on_environment on_environment,
                                               void *arg, struct farhand_error *ret_error);
FARHAND_API int farhand_environment_status_begin(struct farhand *f, farhand_on_status on_status, void *arg,
                                                 struct farhand_error *ret_error);
/* These two functions ask like the two above, and wait for the answer. The caller frees the results. */
FARHAND_API int farhand_environment_info(struct farhand *f, int timeout_ms, struct farhand_environment **ret,
                                         struct farhand_error *ret_error);
FARHAND_API int farhand_environment_status(struct farhand *f, int timeout_ms, char **ret,
                                           struct farhand_error *ret_error);
FARHAND_API void farhand_environment_free(struct farhand_environment *environment); /* NULL is fine */

/* ---- what Codex keeps on the server's machine ---- */

/* Keys of TOML files: the parts of a key from the root on, ended by NULL. Only what they lead to is told. At least one is needed, and at
 * most 256 in a list are. */
struct farhand_config_query {
        size_t size;
        const char *cwd; /* the directories from the root of its project to it have layers of their own */
        const char *const *const *config;
        size_t config_count;
        const char *const *const *requirements;
        size_t requirement_count;
};
#define FARHAND_CONFIG_QUERY_INIT                           \
        {                                                   \
                .size = sizeof(struct farhand_config_query) \
        }
struct farhand_config_layer {
        const char *source;   /* for people */
        const char *base_dir; /* what relative paths in it start from */
        const char *toml;
};
/* Layers, that of the lowest precedence first. The first `system_count` are those of the system. */
struct farhand_config_stack {
        const struct farhand_config_layer *layers;
        size_t count, system_count;
};
/* Later versions may add members. A text is NULL when the server does not tell it. */
struct farhand_config {
        const char *home, *codex_home, *hostname;
        struct farhand_config_stack config, requirements;
};
/* Reads what the configuration of Codex says on the server's machine. Calls `on_config` once; what it gets is valid during the call.
 * Returns -EOPNOTSUPP when the server has no environmentConfigRead. */
FARHAND_API int farhand_config_read(struct farhand *f, const struct farhand_config_query *query,
                                    void (*on_config)(void *arg, const struct farhand_config *config),
                                    void *arg, struct farhand_error *ret_error);

/* A directory that may hold a plugin or skills. All elements of an array of these have the same size. */
struct farhand_root {
        size_t size;
        const char *id; /* the caller's own */
        const char *path;
        const char *sandbox; /* JSON: how far the root is searched; NULL: no sandbox */
};
#define FARHAND_ROOT_INIT                           \
        {                                           \
                .size = sizeof(struct farhand_root) \
        }
/* A file and its content. `path` NULL: there is none. A NUL that is not counted follows the content. */
struct farhand_found_file {
        const char *path, *content;
        size_t n;
};
struct farhand_found_skill {
        struct farhand_found_file instructions, metadata;
};
/* Later versions may add members. */
struct farhand_found_root {
        const char *id;
        const char *error; /* why the root cannot be used; NULL: it can */
        struct farhand_found_file plugin, mcp_config,
                apps_config; /* the manifest of the plugin and its files */
        const struct farhand_found_skill *skills;
        size_t skill_count;
        const struct farhand_found_file *namespace_manifests;
        size_t namespace_manifest_count;
        const char *const *warnings; /* ends with NULL */
};
/* Looks for plugins and skills of Codex below at most 128 directories. Calls `on_root` for each root, in their order, with its index; what
 * it gets is valid during the call. Returns -EOPNOTSUPP for a root with a sandbox when the server has no capabilityDiscoverySandbox: it
 * would ignore the sandbox. */
FARHAND_API int farhand_discover_roots(struct farhand *f, const struct farhand_root *roots, size_t count,
                                       void (*on_root)(void *arg, size_t index,
                                                       const struct farhand_found_root *root),
                                       void *arg, struct farhand_error *ret_error);

/* ---- HTTP, from where the server is ---- */

struct farhand_http_header {
        const char *name, *value;
        /* In a request: a variable of the server whose value is put behind `value`; NULL: none. */
        const char *value_env;
};

struct farhand_http_request {
        size_t size;
        const char *method; /* NULL: GET */
        const char *url;
        const struct farhand_http_header *headers;
        size_t header_count;
        const void *body; /* at most 64 MiB */
        size_t body_bytes;
        unsigned timeout_ms;   /* for the whole request, with redirects and the body; 0: no time limit */
        bool stop_at_redirect; /* a redirect is the answer; false: up to ten redirects are followed */
};
#define FARHAND_HTTP_REQUEST_INIT                           \
        {                                                   \
                .size = sizeof(struct farhand_http_request) \
        }

struct farhand_http_events {
        /* The answer has begun. The names of headers are in lower case. The headers are valid during the call. */
        void (*on_response)(struct farhand_http *h, void *arg, int status,
                            const struct farhand_http_header *headers, size_t header_count);
        /* The next piece of the body. A program that cannot take more uses farhand_pause. */
        void (*on_body)(struct farhand_http *h, void *arg, const void *bytes, size_t n);
        void (*on_done)(struct farhand_http *h, void *arg); /* the body is whole; no other event follows */
        /* There was no answer, or its body has broken off. No other event follows. */
        void (*on_failed)(struct farhand_http *h, void *arg, const struct farhand_error *error);
};

/* Has the server make an HTTP request. The request is never made twice: when the connection is lost, it fails with -ECONNRESET. */
FARHAND_API struct farhand_http *farhand_http_start(struct farhand *f,
                                                    const struct farhand_http_request *request,
                                                    const struct farhand_http_events *events, void *arg,
                                                    struct farhand_error *ret_error);
/* Frees the struct. The protocol cannot cancel a request: the server goes on until the request is done or its time is over, and the
 * answer is dropped. NULL is fine. */
FARHAND_API void farhand_http_free(struct farhand_http *h);

struct farhand_http_result {
        int status;
        struct farhand_http_header *headers;
        size_t header_count;
        char *body; /* a NUL that is not counted follows the bytes */
        size_t body_bytes;
};
/* Makes a request, waits, and collects the answer: at most `max_bytes` of its body; a longer body is -EMSGSIZE. *ret is written
 * only on success. */
FARHAND_API int farhand_http_fetch(struct farhand *f, const struct farhand_http_request *request,
                                   size_t max_bytes, int timeout_ms, struct farhand_http_result *ret,
                                   struct farhand_error *ret_error);
/* Frees the headers and the body. */
FARHAND_API void farhand_http_result_release(struct farhand_http_result *result);

/* ---- a server of our own ---- */

#define FARHAND_DEFAULT_LISTEN_URL "ws://127.0.0.1:0"

/* Checks the text of a URL to listen on: ws://IP:PORT, unix:PATH or stdio. Returns 0, or a negative errno with the sentence that
 * `farhand serve --listen` would print. */
FARHAND_API int farhand_listen_url_check(const char *text, struct farhand_error *ret_error);

/* A server that runs as a child of this process, for clients of any kind. The server ends after farhand_server_free(), and when
 * this process ends, by exit or by a signal. (A process that this process forked, without an exec, keeps the server alive too.)
 *
 * On ws:// every user of this machine can connect and run commands as the user of this process, unless `args` asks for a token
 * (--ws-auth); a unix socket is for that user alone. */
struct farhand_server;

struct farhand_server_options {
        size_t size;
        const char *listen;  /* NULL: FARHAND_DEFAULT_LISTEN_URL */
        const char *farhand; /* the program farhand; NULL: beside this program, or where it was installed */
        const char *const *args; /* more options of `farhand serve`; ends with NULL; NULL: none */
        const char *const *env;  /* "NAME=VALUE", added to the variables of this process; ends with NULL */
        const char *cwd;
        unsigned start_timeout_ms; /* 0: 10,000 */
};
#define FARHAND_SERVER_OPTIONS_INIT                           \
        {                                                     \
                .size = sizeof(struct farhand_server_options) \
        }

/* Starts a server and waits until it listens. Returns NULL with *ret_error when it does not; the server prints its own errors on
 * stderr. `options` may be NULL. */
FARHAND_API struct farhand_server *farhand_server_start(const struct farhand_server_options *options,
                                                        struct farhand_error *ret_error);
/* Returns the URL on which the server listens, for farhand_options::url and for other clients; NULL with `stdio`. */
FARHAND_API const char *farhand_server_url(const struct farhand_server *s);
/* Returns, with `stdio`, the descriptor on which the server speaks the protocol, one message per line. The descriptor is
 * non-blocking, and belongs to the struct. Returns -1 for other URLs. */
FARHAND_API int farhand_server_fd(const struct farhand_server *s);
/* Ends the server with all its commands; after five seconds SIGKILL ends it. NULL is fine. */
FARHAND_API void farhand_server_free(struct farhand_server *s);

/* ---- files ----
 *
 * Paths are absolute paths on the server's machine: bytes, not text. When the server does not have a method, the error has the
 * rpc_code -32601. */

/* From now on the file requests that the functions, streams and watches of this client begin carry this `sandbox`: one JSON object
 * of at most 1 MiB, which is copied. NULL: none. Streams and watches that were begun before keep what they were begun with, also
 * when a lost connection is resumed; farhand_call carries only what its params say. Whether the server obeys a sandbox is the
 * server's to say: one that cannot refuses such requests. Returns -EINVAL when the text is not one JSON object. */
FARHAND_API int farhand_use_sandbox(struct farhand *f, const char *sandbox_json,
                                    struct farhand_error *ret_error);

/* The size of a digest as text, with its NUL: "sha256:" and 64 hexadecimal digits. */
#define FARHAND_DIGEST_BYTES 72

struct farhand_metadata {
        bool is_directory, is_file; /* of a link: its target; neither: a device, a socket, … */
        bool is_symlink;
        bool has_mode; /* the server tells mode, uid, gid and links */
        uint64_t size;
        int64_t created_ms, modified_ms; /* since 1970; created 0: not told */
        uint32_t mode;                   /* permission bits, 07777 */
        uint32_t uid, gid;
        uint64_t links;
        char digest
                [FARHAND_DIGEST_BYTES]; /* with FARHAND_STAT_DIGEST: that of the content; empty: not told */
};

/* Exactly one of `metadata` and `error` is not NULL. */
typedef void (*farhand_on_stat)(struct farhand *f, void *arg, const struct farhand_metadata *metadata,
                                const struct farhand_error *error);
FARHAND_API int farhand_stat_begin(struct farhand *f, const char *path, farhand_on_stat on_stat, void *arg,
                                   struct farhand_error *ret_error);

/* The following functions on files, up to farhand_check_access, wait for the answer. */
FARHAND_API int farhand_stat(struct farhand *f, const char *path, struct farhand_metadata *ret,
                             struct farhand_error *ret_error);

enum farhand_stat_flags {
        /* Tells the digest of a regular file of at most 512 MiB. -EOPNOTSUPP when the server has no fsControlV1. */
        FARHAND_STAT_DIGEST = 1,
        /* A link anywhere in the path is an error. Servers that do not know this look only at the last name (-ELOOP). */
        FARHAND_STAT_NO_LINKS = 2,
};
FARHAND_API int farhand_stat_with(struct farhand *f, const char *path, unsigned flags,
                                  struct farhand_metadata *ret, struct farhand_error *ret_error);

struct farhand_entry {
        const char *name;           /* valid during the call */
        bool is_directory, is_file; /* of a link: its target; a link without a target is not listed */
};
/* Calls `on_entry` for each name in a directory, sorted by bytes. */
FARHAND_API int farhand_list(struct farhand *f, const char *path,
                             void (*on_entry)(void *arg, const struct farhand_entry *entry), void *arg,
                             struct farhand_error *ret_error);

enum farhand_kind { FARHAND_KIND_FILE, FARHAND_KIND_DIRECTORY, FARHAND_KIND_LINK, FARHAND_KIND_OTHER };
/* An entry of a directory with what it is. Links are not followed. Later versions may add members. */
struct farhand_scanned {
        const char *name;
        enum farhand_kind kind;
        uint64_t size;
        uint32_t mode; /* permission bits, 07777 */
        int64_t modified_ms;
        const char *target; /* the text of a link; NULL for others */
};
/* Calls `on_entry` for each name in a directory, sorted by bytes, with as many requests as it takes: what changes meanwhile is told or
 * not. What the callback gets is valid during the call. Returns -EOPNOTSUPP when the server has no fsBatchV1. */
FARHAND_API int farhand_scan(struct farhand *f, const char *path,
                             void (*on_entry)(void *arg, const struct farhand_scanned *entry), void *arg,
                             struct farhand_error *ret_error);

struct farhand_walk {
        size_t size;
        /* 0: the largest values that servers allow, 64, 10,000 and 50,000. */
        unsigned max_depth, max_directories, max_entries;
        bool follow_links; /* walk into directories that links lead to */
        bool skip_hidden;  /* do not walk into directories whose names begin with a dot */
        /* The paths are valid during the call. */
        void (*on_entry)(void *arg, const char *path, bool is_directory);
        /* The directory `path` cannot be read; the walk goes on. */
        void (*on_error)(void *arg, const char *path, const char *text);
        void *arg;
};
#define FARHAND_WALK_INIT                           \
        {                                           \
                .size = sizeof(struct farhand_walk) \
        }
/* Calls on_entry for the files and directories below a directory, breadth first. Returns 0, or 1 when a limit ended the walk. */
FARHAND_API int farhand_walk(struct farhand *f, const char *path, const struct farhand_walk *walk,
                             struct farhand_error *ret_error);
/* How the functions whose names end in _with do it. Each knows the flags that it names, and FARHAND_NO_LINKS. */
enum farhand_with {
        FARHAND_PARENTS = 1,   /* directories above that are missing, too; one that exists is no error */
        FARHAND_RECURSIVE = 2, /* a directory with all that is below it */
        FARHAND_FORCE = 4,     /* a path that does not exist is no error */
        FARHAND_NEW = 8,       /* a name that exists is an error (EEXIST) */
        /* A link anywhere in the path is an error; of a rename, among its directories. -EOPNOTSUPP when the server has no fsControlV1:
         * it would follow links. Servers refuse it together with FARHAND_RECURSIVE. */
        FARHAND_NO_LINKS = 16,
};
/* These two functions write a path to *ret, which the caller frees. */
FARHAND_API int farhand_read_link(struct farhand *f, const char *path, char **ret,
                                  struct farhand_error *ret_error);
FARHAND_API int farhand_canonicalize(struct farhand *f, const char *path, char **ret,
                                     struct farhand_error *ret_error);
FARHAND_API int farhand_make_directory(struct farhand *f, const char *path, bool with_parents,
                                       struct farhand_error *ret_error);
FARHAND_API int farhand_make_directory_with(struct farhand *f, const char *path,
                                            unsigned flags, /* FARHAND_PARENTS */
                                            struct farhand_error *ret_error);
/* Removes a file or directory. With `with_force` a path that does not exist is no error. */
FARHAND_API int farhand_remove(struct farhand *f, const char *path, bool is_recursive, bool with_force,
                               struct farhand_error *ret_error);
FARHAND_API int farhand_remove_with(struct farhand *f, const char *path,
                                    unsigned flags, /* FARHAND_RECURSIVE, FARHAND_FORCE */
                                    struct farhand_error *ret_error);
FARHAND_API int farhand_rename(struct farhand *f, const char *from, const char *to,
                               struct farhand_error *ret_error);
/* Renames like farhand_rename(), but replaces nothing: a name that exists is an error (EEXIST). */
FARHAND_API int farhand_rename_new(struct farhand *f, const char *from, const char *to,
                                   struct farhand_error *ret_error);
FARHAND_API int farhand_rename_with(struct farhand *f, const char *from, const char *to,
                                    unsigned flags, /* FARHAND_NEW */
                                    struct farhand_error *ret_error);
/* Copies a file, or with `is_recursive` a directory. The target directory is made when it does not exist. */
FARHAND_API int farhand_copy(struct farhand *f, const char *from, const char *to, bool is_recursive,
                             struct farhand_error *ret_error);
/* Makes a link whose text is `target`. */
FARHAND_API int farhand_symlink(struct farhand *f, const char *target, const char *path,
                                struct farhand_error *ret_error);
/* Sets the mode and the time of the last change. A negative value leaves the mode or the time as it is. */
FARHAND_API int farhand_set_metadata(struct farhand *f, const char *path, int mode, int64_t modified_ms,
                                     struct farhand_error *ret_error);
FARHAND_API int farhand_set_metadata_with(struct farhand *f, const char *path, int mode, int64_t modified_ms,
                                          unsigned flags, struct farhand_error *ret_error);
/* Replaces a file by a content of at most 64 MiB, as a whole where the server can: a reader sees the old content or the new. A
 * negative mode keeps the mode of a file that exists. */
FARHAND_API int farhand_write_file(struct farhand *f, const char *path, const void *bytes, size_t n, int mode,
                                   struct farhand_error *ret_error);

/* The rpc_code of the error when a file is not what the condition of a write says. Nothing was written. The member `current` of the
 * error's data is the metadata of what is there, or null. */
#define FARHAND_CONFLICT (-32020)

struct farhand_write {
        size_t size;
        int mode; /* permission bits, 07777; negative: a file that exists keeps its mode */
        /* At most one condition: the file does not exist; it has this digest ("sha256:HEX"); it has this size and time. */
        bool if_absent;
        const char *if_digest;
        bool if_unchanged;
        uint64_t if_size;
        int64_t if_modified_ms;
        bool with_parents; /* make the directories above that are missing */
        bool in_place; /* write into the file that is there; false: a reader sees the old content or the new */
        bool no_links; /* a link anywhere in the path is an error; old servers do not know this */
        /* Not NULL: get the size and the time of the new content, for the condition of a next write. UINT64_MAX and -1: not told. */
        uint64_t *ret_size;
        int64_t *ret_modified_ms;
};
#define FARHAND_WRITE_INIT                                       \
        {                                                        \
                .size = sizeof(struct farhand_write), .mode = -1 \
        }
/* Writes a file like farhand_write_file(). `options` may be NULL. Returns -EOPNOTSUPP when there is a condition, or directories are to
 * be made, and the server has no fsControlV1: it would ignore that. A conditional write whose connection is lost fails with
 * -ECONNRESET: whether the file was written is not known. */
FARHAND_API int farhand_write_file_with(struct farhand *f, const char *path, const void *bytes, size_t n,
                                        const struct farhand_write *options, struct farhand_error *ret_error);

/* Reads a file of at most `max_bytes`; a longer one is -EFBIG. *ret has a NUL behind the bytes, and is freed by the caller. */
FARHAND_API int farhand_read_file(struct farhand *f, const char *path, size_t max_bytes, char **ret,
                                  size_t *ret_bytes, struct farhand_error *ret_error);
/* Reads a file like farhand_read_file, with one request: an answer over 64 MiB cannot be had (-EMSGSIZE or a lost connection). */
FARHAND_API int farhand_read_file_with(struct farhand *f, const char *path, size_t max_bytes, unsigned flags,
                                       char **ret, size_t *ret_bytes, struct farhand_error *ret_error);
/* Tells the digest of a part of a regular file: of `length` bytes (UINT64_MAX: up to the end) from `offset` on, at most 512 MiB. It may
 * have fewer bytes, which *ret_bytes tells; `ret_bytes` may be NULL. Returns -EOPNOTSUPP when the server has no fsBatchV1. */
FARHAND_API int farhand_digest(struct farhand *f, const char *path, uint64_t offset, uint64_t length,
                               char ret_digest[FARHAND_DIGEST_BYTES], uint64_t *ret_bytes,
                               struct farhand_error *ret_error);

/* What a digest was made of. Later versions may add members. */
struct farhand_digest {
        size_t size;
        char text[FARHAND_DIGEST_BYTES];
        uint64_t bytes;      /* how many bytes of the file it is of */
        uint64_t file_bytes; /* the size of the whole file */
};
#define FARHAND_DIGEST_INIT                           \
        {                                             \
                .size = sizeof(struct farhand_digest) \
        }
/* Does farhand_digest, and tells more. `ret` is a struct with its size. */
FARHAND_API int farhand_digest_with(struct farhand *f, const char *path, uint64_t offset, uint64_t length,
                                    unsigned flags, struct farhand_digest *ret,
                                    struct farhand_error *ret_error);

/* A file that was read among others. Later versions may add members. */
struct farhand_read {
        const struct farhand_error *error; /* not NULL: the file could not be read, and nothing else is set */
        const void *bytes;
        size_t n;
        uint32_t mode; /* permission bits, 07777 */
        int64_t modified_ms;
};
/* Reads files of the directory `path`, each of at most 1 MiB, with few requests. A name is UTF-8 (else it is -EILSEQ) and one name; a
 * link is not followed. Calls `on_file` once for each name, in their order, with its index; what it gets is valid during the call.
 * Returns -EOPNOTSUPP when the server has no fsBatchV1. */
FARHAND_API int farhand_read_files(struct farhand *f, const char *path, const char *const *names,
                                   size_t count,
                                   void (*on_file)(void *arg, size_t index, const struct farhand_read *file),
                                   void *arg, struct farhand_error *ret_error);

/* All elements of an array of these have the same size. */
struct farhand_new_file {
        size_t size;
        const char *name;
        const void *bytes;
        size_t n;
        int mode;            /* negative: as farhand_write_file */
        int64_t modified_ms; /* negative: now */
};
#define FARHAND_NEW_FILE_INIT                                                          \
        {                                                                              \
                .size = sizeof(struct farhand_new_file), .mode = -1, .modified_ms = -1 \
        }
/* Writes files into the directory `path`, with few requests. A file that exists is replaced as a whole; a link is not followed. Each
 * file fails for itself: `on_failed`, which may be NULL, is called with its index. Returns 0, or 1 when some have failed; -EOPNOTSUPP
 * when the server has no fsBatchV1; after another error it is not known which files were written. */
FARHAND_API int farhand_write_files(struct farhand *f, const char *path, const struct farhand_new_file *files,
                                    size_t count,
                                    void (*on_failed)(void *arg, size_t index,
                                                      const struct farhand_error *error),
                                    void *arg, struct farhand_error *ret_error);

enum farhand_access_kind {
        FARHAND_ACCESS_READ,
        FARHAND_ACCESS_WRITE, /* also to make the file, with missing directories above it */
        FARHAND_ACCESS_REMOVE,
};
/* All elements of an array of these have the same size. */
struct farhand_access {
        size_t size;
        const char *path;
        enum farhand_access_kind kind;
};
#define FARHAND_ACCESS_INIT                           \
        {                                             \
                .size = sizeof(struct farhand_access) \
        }
/* Later versions may add members. */
struct farhand_access_result {
        bool is_allowed;
        int error_number;                    /* what trying would give, an errno; 0: allowed, or not told */
        const struct farhand_denial *denial; /* NULL: the permission profile is not the reason */
};
/* Asks whether something could be done with the sandbox of farhand_use_sandbox(). It changes nothing, and promises nothing about later.
 * Calls `on_result` once for each element, in their order, with its index; what it gets is valid during the call. Returns -EOPNOTSUPP
 * when the server has no fsAccessV1. */
FARHAND_API int farhand_check_access(struct farhand *f, const struct farhand_access *wanted, size_t count,
                                     void (*on_result)(void *arg, size_t index,
                                                       const struct farhand_access_result *result),
                                     void *arg, struct farhand_error *ret_error);

enum farhand_change { FARHAND_CREATED, FARHAND_MODIFIED, FARHAND_REMOVED, FARHAND_RENAMED };

struct farhand_watch_events {
        void (*on_started)(struct farhand_watch *w, void *arg); /* later changes are told from now on */
        /* `from` is the former path for FARHAND_RENAMED, otherwise NULL. After the watched path itself is removed, no change
         * follows. The paths are valid during the call. */
        void (*on_change)(struct farhand_watch *w, void *arg, enum farhand_change kind, const char *path,
                          const char *from);
        /* Changes were lost, so the program must look at the files again. This is also called when a lost connection is back. */
        void (*on_overflow)(struct farhand_watch *w, void *arg);
        /* The watch could not be made, or not be made again. No other event follows. */
        void (*on_failed)(struct farhand_watch *w, void *arg, const struct farhand_error *error);
};
/* Watches a file, or a directory and the names in it; with `is_recursive` also all directories below. */
FARHAND_API struct farhand_watch *farhand_watch_start(struct farhand *f, const char *path, bool is_recursive,
                                                      const struct farhand_watch_events *events, void *arg,
                                                      struct farhand_error *ret_error);
FARHAND_API void farhand_watch_free(struct farhand_watch *w); /* ends the watch; NULL is fine */

/* Waits for paths that are not there. A client has one such wait at a time. */
struct farhand_missing;
struct farhand_missing_events {
        /* What the server does: false: there is nothing to wait for, because one of the paths is there already, or because of a sandbox.
         * Then no other event follows. */
        void (*on_started)(struct farhand_missing *m, void *arg, bool is_watching);
        /* One of the paths has appeared, or `present` has changed or is gone, or a lost connection is back: look again. No other event
         * follows. */
        void (*on_changed)(struct farhand_missing *m, void *arg);
        void (*on_failed)(struct farhand_missing *m, void *arg, const struct farhand_error *error);
};
/* Tells once when one of the paths `missing` (a list that ends with NULL) appears, or when `present` (NULL: none) changes or goes. Returns
 * NULL with *ret_error: -EBUSY while another such wait is not freed, -EOPNOTSUPP when the server has no fsWatchMissing. */
FARHAND_API struct farhand_missing *farhand_missing_start(struct farhand *f, const char *const *missing,
                                                          const char *present,
                                                          const struct farhand_missing_events *events,
                                                          void *arg, struct farhand_error *ret_error);
FARHAND_API void farhand_missing_free(struct farhand_missing *m); /* NULL is fine */

/* A file that is read or written as a stream, in constant memory and with several requests under way. Only farhand_file_wait waits:
 * a program with a loop of its own calls farhand_step, and calls a function that returned -EAGAIN again.
 *
 * When a lost connection is back, the stream goes on: blocks without an answer are asked for or written again. Reading fails with
 * -ESTALE when the file was changed meanwhile. A stream that has failed can be begun again at an offset.
 *
 * For servers that cannot read or write blocks, one request carries the whole content, of at most 64 MiB. */
enum farhand_file_mode {
        FARHAND_FILE_READ,
        FARHAND_FILE_REPLACE, /* the file is created or emptied */
        FARHAND_FILE_RESUME,  /* the file is created or kept, and written from `offset` on */
};
struct farhand_file_options {
        size_t size;
        enum farhand_file_mode mode;
        uint64_t offset;    /* where reading or writing begins; FARHAND_FILE_REPLACE: 0 */
        unsigned window;    /* how many blocks are under way at once, at most 32; 0: 6 */
        size_t block_bytes; /* at most 1 MiB; 0: 256 KiB */
        /* Called at most once in each step. The first `done_bytes` of the file have come or are confirmed as written; `total_bytes`
         * is the size of a file that is read, or UINT64_MAX when it is unknown. The callback must not free a file on which
         * farhand_file_wait waits. */
        void (*on_progress)(struct farhand_file *file, void *arg, uint64_t done_bytes, uint64_t total_bytes);
        void *arg;
        /* Writing: farhand_file_finish is done when the content is on the disk. -EOPNOTSUPP when the server has no fsControlV1. */
        bool sync;
        /* A path with a link in it is refused, at its end as well. A server without fsControlV1 follows links all the same. */
        bool refuse_links;
        /* Writing: as long as the stream is open nobody else opens the file with this option: that fails with the errno EAGAIN of the server. After a
         * lost connection somebody else may have it: then the stream fails. A server without fsControlV1 ignores this. */
        bool lock;
};
#define FARHAND_FILE_OPTIONS_INIT                           \
        {                                                   \
                .size = sizeof(struct farhand_file_options) \
        }

/* Begins to open a file. The functions below return an error when the file cannot be opened. Returns NULL when the options are
 * bad. */
FARHAND_API struct farhand_file *farhand_file_open(struct farhand *f, const char *path,
                                                   const struct farhand_file_options *options,
                                                   struct farhand_error *ret_error);
/* Frees the stream; the server closes the file. Bytes that were written without farhand_file_finish may or may not be in the file.
 * NULL is fine. */
FARHAND_API void farhand_file_free(struct farhand_file *file);
/* Copies the next bytes of the file. Returns how many bytes were copied; 0 at the end of the file; -EAGAIN when none have arrived
 * yet. */
FARHAND_API int64_t farhand_file_read(struct farhand_file *file, void *buf, size_t n,
                                      struct farhand_error *ret_error);
/* Writes the next bytes of the file. Returns how many bytes were taken, or -EAGAIN when the window is full. */
FARHAND_API int64_t farhand_file_write(struct farhand_file *file, const void *bytes, size_t n,
                                       struct farhand_error *ret_error);
/* Called after the last write. Returns 0 when everything is written and the file is closed, or -EAGAIN when it is not yet. */
FARHAND_API int farhand_file_finish(struct farhand_file *file, struct farhand_error *ret_error);
/* Waits until the file is open and farhand_file_read, farhand_file_write or, once it was called, farhand_file_finish does not return
 * -EAGAIN. Returns 0; -ETIMEDOUT; or why the stream has failed. */
FARHAND_API int farhand_file_wait(struct farhand_file *file, int timeout_ms, struct farhand_error *ret_error);

#ifdef __cplusplus
}
#endif
#endif
