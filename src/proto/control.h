/* control: params of the methods that the reference does not have (PROTOCOL.md 14.2, EXTENSIONS.md). */
#pragma once

#include "proto/decode.h"

struct process_close_stdin {
        struct slice process_id;
};
NODISCARD int process_close_stdin_decode(struct arena *a, const struct json_doc *doc,
                                         const struct json *params, void *ret, struct err *err);

struct process_resize {
        struct slice process_id;
        uint16_t rows, cols;
};
NODISCARD int process_resize_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                    void *ret, struct err *err);

struct process_wait {
        struct slice process_id;
        bool until_exited; /* else until closed */
        uint64_t wait_ms;  /* clamped; the longest when absent */
        bool has_drain_ms;
        uint64_t drain_ms; /* after the exit */
};
NODISCARD int process_wait_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                  void *ret, struct err *err);

struct process_snapshot {
        struct slice process_id;
        bool has_max_bytes;
        uint64_t max_bytes; /* per stream */
};
NODISCARD int process_snapshot_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                      void *ret, struct err *err);

struct process_list {
        struct slice process_id; /* p == NULL: all */
        bool is_server_wide;
};
NODISCARD int process_list_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                  void *ret, struct err *err);

NODISCARD int session_list_decode(struct arena *a, const struct json_doc *doc, const struct json *params,
                                  void *ret, struct err *err);
