/* process: params of the process methods (PROTOCOL.md section 6). Plain data; slices live as long as the request. */
#pragma once

#include "policy/env.h"
#include "proto/decode.h"

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

struct process_signal {
        struct slice process_id;
        int signo;
};
NODISCARD int process_signal_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                    void *ret, struct err *err);

struct process_terminate {
        struct slice process_id;
};
NODISCARD int process_terminate_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                       void *ret, struct err *err);
