/* config: what the operator chose: the configuration file first, flags over it, then checked as a whole.
 *
 * Pure but for reading the file and the secret files. Strings are owned by the struct.
 */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "base/log.h"
#include "sandbox/backend.h"
#include "server/auth.h"

enum listen_kind { LISTEN_WS, LISTEN_UNIX, LISTEN_STDIO };

struct listen_url {
        enum listen_kind kind;
        char *host; /* LISTEN_WS: a literal address, IPv6 without brackets */
        uint16_t port;
        char *path; /* LISTEN_UNIX: absolute */
};

struct config {
        char *listen; /* as written */
        struct listen_url listen_url;
        bool insecure_no_auth;
        uint64_t concurrent_requests; /* accepted for compatibility */
        struct auth_options auth_options;
        struct auth auth;

        uint64_t shutdown_grace_period_ms;
        uint64_t max_message_bytes;
        uint64_t max_processes_per_session;
        uint64_t retained_output_bytes_per_process;
        uint64_t retained_output_bytes_total;
        bool allow_server_scope;
        bool allow_direct_exec;
        bool allow_prepared_exec;
        uint64_t detached_session_ttl_ms;
        uint64_t max_detached_session_ttl_ms;
        uint64_t exited_process_retention_ms;
        uint64_t max_connections;
        uint64_t max_sessions;
        uint64_t output_chunk_bytes;
        uint64_t ping_interval_ms;
        uint64_t pong_timeout_ms;
        uint64_t tcp_user_timeout_ms;
        enum backend sandbox_backend; /* BACKEND_AUTO: the first that works */
        enum log_level log_level;
        enum log_format log_format;
};

void config_init(struct config *c); /* the defaults */
void config_release(struct config *c);

/* Reads a TOML file over what is there. Unknown keys, wrong types and values out of range are refused with
 * "FILE: line N: …". */
NODISCARD int config_read_file(struct config *c, const char *path, struct err *err);

/* After file and flags: parses the URL, loads secrets, refuses what must not be combined. err->text is complete. */
NODISCARD int config_check(struct config *c, struct err *err);

/* The URL of --listen. Texts of PROTOCOL.md 1.1. */
NODISCARD int listen_url_parse(const char *text, struct listen_url *ret, struct err *err);
void listen_url_release(struct listen_url *u);
bool listen_url_is_loopback(const struct listen_url *u); /* unix and stdio count as such */
