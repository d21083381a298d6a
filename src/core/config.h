/* config: the configuration of the server: defaults, then the configuration file, then flags; checked as a whole at the end.
 *
 * These functions read the configuration file and the secret files and have no other effects. The struct owns its strings.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "base/log.h"
#include "conn/conns.h"
#include "sandbox/backend.h"

/* Members that the configuration file can set have the names of their keys. */
struct config {
        struct conn_options conn;
        bool insecure_no_auth;
        uint64_t concurrent_requests; /* accepted for compatibility, not used */
        struct auth_options auth_options;

        uint64_t shutdown_grace_period_ms;
        uint64_t max_processes_per_session;
        uint64_t max_finished_processes_per_session;
        uint64_t retained_output_bytes_per_process;
        uint64_t retained_output_bytes_total;
        bool allow_server_scope;
        bool allow_direct_exec;
        bool allow_prepared_exec;
        uint64_t detached_session_ttl_ms;
        uint64_t max_detached_session_ttl_ms;
        uint64_t exited_process_retention_ms;
        uint64_t max_sessions;
        uint64_t output_chunk_bytes;
        uint64_t
                exit_when_idle_sec; /* 0: never; a flag only, because it is for servers that a program starts */
        enum backend sandbox_backend; /* BACKEND_AUTO: the first backend that works */
        bool has_lifeline;
        uint64_t lifeline; /* a descriptor: the server ends when it reaches its end */
        enum log_level log_level;
        enum log_format log_format;
};

void config_init(struct config *c); /* sets the defaults */
void config_release(struct config *c);

/* Reads a TOML file; its values replace those in the struct. Unknown keys, wrong types and values out of range are refused
 * with "FILE: line N: …". */
NODISCARD int config_read_file(struct config *c, const char *path, struct err *err);

/* To be called after the file and the flags were read: parses the URL, loads secrets, and refuses settings that must not be
 * combined. err->text is a complete message. */
NODISCARD int config_check(struct config *c, struct err *err);

/* Copies from `live` to `fresh` the values that cannot change while the server runs. Calls `differs`, unless it is NULL,
 * with the name of each key whose value was different. To be called before config_check, because its checks depend on the
 * address, which is one of these values. */
void config_keep_fixed(struct config *fresh, const struct config *live, void (*differs)(const char *key));

/* `read` reads the configuration from the file and the flags again, at a SIGHUP and on a thread. The struct outlives the server. */
struct config_source {
        int (*read)(const struct config_source *source, struct config *ret, struct err *err);
};
