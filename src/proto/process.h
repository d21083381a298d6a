/* process: params of the process methods (PROTOCOL.md section 6). Plain data; slices live as long as the request. */
#pragma once

#include "policy/env.h"
#include "proto/decode.h"
#include "proto/sandbox.h"

/* EXTENSIONS.md, process/start: each 0 when it was not given. */
struct process_limits {
        uint64_t wall_ms, silence_ms, cpu_seconds, memory_bytes, open_files, processes, file_bytes;
};

struct process_start {
        struct slice process_id;
        struct slice *argv;
        size_t argc;
        struct slice cwd;    /* an absolute path, NUL-terminated */
        struct env_var *env; /* policy/env.h */
        size_t env_count;
        bool tty;
        bool pipe_stdin;
        struct slice arg0; /* p == NULL: none */
        bool has_env_policy;
        struct env_policy env_policy;
        bool has_sandbox;
        struct sandbox_context sandbox;
        bool is_prepared;    /* kind: the caller has applied its policy already */
        uint16_t rows, cols; /* of a terminal; 0 = the default */
        bool has_limits;
        struct process_limits limits;
};
NODISCARD int process_start_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                   void *ret, struct err *err);

struct process_read {
        struct slice process_id;
        bool has_after_seq, has_max_bytes, has_wait_ms;
        uint64_t after_seq; /* 0 when absent */
        uint64_t max_bytes;
        uint64_t wait_ms; /* 0 when absent; clamped */
};
NODISCARD int process_read_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                  void *ret, struct err *err);

struct process_write {
        struct slice process_id;
        struct slice bytes;    /* decoded */
        struct slice write_id; /* p == NULL: none (clients of April) */
};
NODISCARD int process_write_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                   void *ret, struct err *err);

enum signal_scope { SCOPE_GROUP, SCOPE_PROCESS, SCOPE_TREE };

struct process_signal {
        struct slice process_id;
        int signo;
        enum signal_scope scope;
};
NODISCARD int process_signal_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                    void *ret, struct err *err);

struct process_terminate {
        struct slice process_id;
        bool has_mode;
        bool is_graceful;
        uint64_t timeout_ms; /* graceful: until the kill */
};
NODISCARD int process_terminate_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                       void *ret, struct err *err);
