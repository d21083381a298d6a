/* control: params of the methods that the reference server does not have (docs/PROTOCOL.md). */
#pragma once

#include "proto/decode.h"

struct process_close_stdin {
        struct slice process_id;
};
NODISCARD params_decode process_close_stdin_decode;

struct process_resize {
        struct slice process_id;
        uint16_t rows, cols;
};
NODISCARD params_decode process_resize_decode;

struct process_wait {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        bool waits_for_exit;     /* false: until the process is closed, with all its output read */
        uint64_t wait_ms;        /* at most LIMIT_WAIT_MS, which is also the default */
        bool has_drain_ms;
        uint64_t drain_ms; /* the longest wait after the exit */
};
NODISCARD params_decode process_wait_decode;

struct process_snapshot {
        struct slice process_id;
        struct slice session_id; /* p == NULL: the client's own session */
        bool has_max_bytes;
        uint64_t max_bytes; /* for each stream */
};
NODISCARD params_decode process_snapshot_decode;

struct process_list {
        struct slice process_id; /* p == NULL: all processes */
        struct slice session_id; /* p == NULL: the client's own session */
        bool is_server_wide;
};
NODISCARD params_decode process_list_decode;

NODISCARD params_decode session_list_decode;
