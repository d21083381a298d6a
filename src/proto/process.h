/* process: params of the process methods (docs/PROTOCOL.md). Plain data; slices live as long as the request. */
#pragma once

#include "policy/env.h"
#include "proto/decode.h"
#include "proto/intercept.h"
#include "proto/network.h"
#include "proto/sandbox.h"

/* The limits of process/start (docs/PROTOCOL.md); a limit that was not given is 0. */
struct process_limits {
        uint64_t wall_ms, silence_ms, cpu_seconds, memory_bytes, open_files, processes, file_bytes;
};

/* The member shellSnapshot, and the other members that must be equal for two starts to share a snapshot, as they were sent. */
struct shell_snapshot_request {
        struct slice scope, shell_name, shell_path;
        struct slice policy, sandbox; /* as JSON text; p == NULL: none */
};

struct process_start {
        struct slice process_id;
        struct slice *argv;
        size_t argc;
        struct slice cwd;    /* an absolute path, NUL-terminated */
        struct env_var *env; /* policy/env.h */
        size_t env_count;
        bool is_tty;
        bool has_stdin_pipe;
        struct slice arg0; /* p == NULL: none */
        bool has_env_policy;
        struct env_policy env_policy;
        bool has_sandbox;
        struct sandbox_context sandbox;
        bool is_prepared;    /* member `kind`: the client has applied its policy already */
        uint16_t rows, cols; /* the size of the terminal; 0: the default */
        bool has_limits;
        struct process_limits limits;
        bool has_snapshot;
        struct shell_snapshot_request snapshot;
        bool has_intercept;
        struct process_intercept intercept;
        bool must_enforce_network; /* enforceManagedNetwork */
        bool has_network;          /* networkProxy was given */
        struct process_network network;
        /* Set by the server: the only file that is executed; argv[0] names it. p == NULL: what argv[0] names. */
        struct slice program;
};
NODISCARD params_decode process_start_decode;
/* Makes the managed network the only one of the sandbox, if that is wanted. process_start_decode has called it; to be called again when
 * the start got its sandbox later. Returns NULL, or why the start is refused (-32602). */
NODISCARD const char *process_start_enforce_network(struct process_start *in);

struct process_read {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        bool has_after_seq, has_max_bytes, has_wait_ms;
        uint64_t after_seq; /* 0 when absent */
        uint64_t max_bytes;
        uint64_t wait_ms; /* 0 when absent; at most LIMIT_WAIT_MS */
};
NODISCARD params_decode process_read_decode;

struct process_write {
        struct slice process_id;
        struct slice bytes;    /* decoded */
        struct slice write_id; /* p == NULL: none; the oldest clients send none */
};
NODISCARD params_decode process_write_decode;

enum signal_scope { SCOPE_GROUP, SCOPE_PROCESS, SCOPE_TREE };

struct process_signal {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        int signo;
        enum signal_scope scope;
};
NODISCARD params_decode process_signal_decode;

struct process_terminate {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        bool has_mode;
        bool is_graceful;
        uint64_t timeout_ms; /* with is_graceful: the time until the kill */
};
NODISCARD params_decode process_terminate_decode;
