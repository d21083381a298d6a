/* config_test: tests the defaults, the keys of a file, the URLs of --listen, and the settings that must not be combined. */
#include "core/config.h"

#include "base/fd.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/un.h>
#include <unistd.h>

#define _config_ CLEANUP(config_release)

static int read_text(struct config *c, struct slice text, char *ret_path, struct err *err)
{
        char path[] = "/tmp/farhand-unit-XXXXXX";
        _close_ int fd = mkostemp(path, O_CLOEXEC);

        ok(fd >= 0);
        eq_int(fd_write_all(fd, text), 0);
        int r = config_read_file(c, path, err);
        (void)unlink(path);
        memcpy(ret_path, path, sizeof(path));
        return r;
}

static void reads(struct config *c, struct slice text)
{
        struct err err = ERR_INIT;
        char path[64];

        if (read_text(c, text, path, &err) < 0)
                fail_msg("%s", err.text);
}

/* Checks that a file with this text is refused with the error `expect`, written without "FILE: ". */
static void refuses(struct slice text, const char *expect)
{
        _config_ struct config c;
        struct err err = ERR_INIT;
        char path[64];

        config_init(&c);
        ok(read_text(&c, text, path, &err) < 0);
        ok(err.code < 0);
        _free_ char *whole = mem_printf("%s: %s", path, expect);
        eq_str(err.text, whole);
}

/* Returns the error, or "" when the configuration is good. The text is valid until the next call. */
static const char *check_error(struct config *c)
{
        static struct err err;

        err = ERR_INIT;
        ok((config_check(c, &err) < 0) == (err.text[0] != '\0'));
        return err.text;
}

static void set(char **target, const char *value)
{
        free(*target);
        *target = mem_strdup(value);
}

TEST(the_defaults_are_the_documented_ones)
{
        _config_ struct config c;

        config_init(&c);
        eq_str(c.conn.listen, "ws://127.0.0.1:0");
        eq_u64(c.concurrent_requests, 1);
        ok(!c.insecure_no_auth);
        ok(!c.conn.allow_other_namespaces);
        ok(!c.auth_options.mode && !c.auth_options.has_max_clock_skew_seconds);
        eq_u64(c.shutdown_grace_period_ms, 500);
        eq_u64(c.conn.max_message_bytes, 134217728);
        eq_u64(c.max_processes_per_session, 1024);
        eq_u64(c.max_finished_processes_per_session, 4096);
        eq_u64(c.retained_output_bytes_per_process, 1048576);
        eq_u64(c.retained_output_bytes_total, 1073741824);
        ok(c.allow_server_scope && c.allow_direct_exec && c.allow_prepared_exec);
        eq_u64(c.detached_session_ttl_ms, 30000);
        eq_u64(c.max_detached_session_ttl_ms, 86400000);
        eq_u64(c.exited_process_retention_ms, 30000);
        eq_u64(c.conn.max_connections, 16384);
        eq_u64(c.max_sessions, 16384);
        eq_u64(c.output_chunk_bytes, 65536);
        eq_u64(c.conn.ping_interval_ms, 20000);
        eq_u64(c.conn.pong_timeout_ms, 60000);
        eq_u64(c.conn.tcp_user_timeout_ms, 20000);
        eq_int(c.log_level, LOG_WARN);
        eq_int(c.log_format, LOG_TEXT);
        eq_int(c.sandbox_backend, BACKEND_AUTO);
        eq_str(check_error(&c), "");
}

TEST(a_file_can_say_everything)
{
        _config_ struct config c;

        config_init(&c);
        reads(&c, S("listen = 'stdio'\nconcurrent_requests = 4\ninsecure_no_auth = true\n"
                    "allow_other_namespaces = true\n"
                    "ws_auth = 'signed-bearer-token'\nws_token_file = 'a'\nws_admin_token_file = "
                    "'f'\nws_token_sha256 = 'b'\n"
                    "ws_shared_secret_file = 'c'\nws_issuer = 'd'\nws_audience = 'e'\n"
                    "ws_max_clock_skew_seconds = 0\n"
                    "shutdown_grace_period_ms = 1\nmax_message_bytes = 65536\nmax_processes_per_session = 3\n"
                    "max_finished_processes_per_session = 15\n"
                    "retained_output_bytes_per_process = 4096\nretained_output_bytes_total = 5000\n"
                    "allow_server_scope = false\nallow_direct_exec = false\nallow_prepared_exec = false\n"
                    "detached_session_ttl_ms = 6\nmax_detached_session_ttl_ms = 7\n"
                    "exited_process_retention_ms = 8\nmax_connections = 9\nmax_sessions = 10\n"
                    "output_chunk_bytes = 4_096\nping_interval_ms = 0x3e8\npong_timeout_ms = 13\n"
                    "tcp_user_timeout_ms = 14\nsandbox_backend = \"landlock\"\nlog_level = "
                    "\"debug\"\nlog_format = \"json\" # the end\n"));
        eq_str(c.conn.listen, "stdio");
        eq_u64(c.concurrent_requests, 4);
        ok(c.insecure_no_auth);
        ok(c.conn.allow_other_namespaces);
        eq_str(c.auth_options.mode, "signed-bearer-token");
        eq_str(c.auth_options.token_file, "a");
        eq_str(c.auth_options.admin_token_file, "f");
        eq_str(c.auth_options.token_sha256, "b");
        eq_str(c.auth_options.shared_secret_file, "c");
        eq_str(c.auth_options.issuer, "d");
        eq_str(c.auth_options.audience, "e");
        ok(c.auth_options.has_max_clock_skew_seconds);
        eq_u64(c.auth_options.max_clock_skew_seconds, 0);
        eq_u64(c.shutdown_grace_period_ms, 1);
        eq_u64(c.conn.max_message_bytes, 65536);
        eq_u64(c.max_processes_per_session, 3);
        eq_u64(c.max_finished_processes_per_session, 15);
        eq_u64(c.retained_output_bytes_per_process, 4096);
        eq_u64(c.retained_output_bytes_total, 5000);
        ok(!c.allow_server_scope && !c.allow_direct_exec && !c.allow_prepared_exec);
        eq_u64(c.detached_session_ttl_ms, 6);
        eq_u64(c.max_detached_session_ttl_ms, 7);
        eq_u64(c.exited_process_retention_ms, 8);
        eq_u64(c.conn.max_connections, 9);
        eq_u64(c.max_sessions, 10);
        eq_u64(c.output_chunk_bytes, 4096);
        eq_u64(c.conn.ping_interval_ms, 1000);
        eq_u64(c.conn.pong_timeout_ms, 13);
        eq_u64(c.conn.tcp_user_timeout_ms, 14);
        eq_int(c.log_level, LOG_DEBUG);
        eq_int(c.log_format, LOG_JSON);
        eq_int(c.sandbox_backend, BACKEND_LANDLOCK);
}

TEST(a_file_changes_only_what_it_names)
{
        _config_ struct config c;

        config_init(&c);
        reads(&c, S("# nothing\n"));
        reads(&c, S("max_sessions = 5\n"));
        eq_str(c.conn.listen, "ws://127.0.0.1:0");
        eq_u64(c.max_sessions, 5);
        eq_u64(c.conn.max_connections, 16384);
}

TEST(unknown_keys_and_tables_are_refused_with_their_line)
{
        refuses(S("# comment\nlog_level = 'info'\nno_such_key = 1\n"), "line 3: unknown key `no_such_key`");
        refuses(S("[server]\nlisten = 'stdio'\n"), "line 1: unknown table `server`");
        refuses(S("\n[[server]]\n"), "line 2: unknown key `server`");
        refuses(S("listen.url = 'stdio'\n"), "line 1: `listen` must be a string");
        refuses(S("Listen = 'stdio'\n"), "line 1: unknown key `Listen`");
        refuses(S("'' = 1\n"), "line 1: unknown key ``");
        refuses(S("\"a\\u001b[31m\" = 1\n"), "line 1: unknown key `a\\x1b[31m`");
}

TEST(wrong_types_are_refused_with_their_line)
{
        refuses(S("\n\nmax_sessions = '5'\n"), "line 3: `max_sessions` must be an integer");
        refuses(S("max_sessions = 1.5\n"), "line 1: `max_sessions` must be an integer");
        refuses(S("max_sessions = true\n"), "line 1: `max_sessions` must be an integer");
        refuses(S("max_sessions = [1]\n"), "line 1: `max_sessions` must be an integer");
        refuses(S("[max_sessions]\n"), "line 1: `max_sessions` must be an integer");
        refuses(S("allow_server_scope = 1\n"), "line 1: `allow_server_scope` must be true or false");
        refuses(S("allow_direct_exec = 'yes'\n"), "line 1: `allow_direct_exec` must be true or false");
        refuses(S("listen = 5\n"), "line 1: `listen` must be a string");
        refuses(S("listen = ['stdio']\n"), "line 1: `listen` must be a string");
        refuses(S("log_level = 3\n"),
                "line 1: `log_level` must be `debug`, `info`, `warn`, `error` or `off`");
}

TEST(values_out_of_range_are_refused_with_the_range)
{
        refuses(S("max_message_bytes = 65535\n"),
                "line 1: `max_message_bytes` must be between 65536 and 2147483647");
        refuses(S("max_message_bytes = 2147483648\n"),
                "line 1: `max_message_bytes` must be between 65536 and 2147483647");
        refuses(S("output_chunk_bytes = 4095\n"),
                "line 1: `output_chunk_bytes` must be between 4096 and 1048576");
        refuses(S("output_chunk_bytes = 1048577\n"),
                "line 1: `output_chunk_bytes` must be between 4096 and 1048576");
        refuses(S("ping_interval_ms = 49\n"),
                "line 1: `ping_interval_ms` must be 0 or between 50 and 315360000000");
        refuses(S("ping_interval_ms = -1\n"),
                "line 1: `ping_interval_ms` must be 0 or between 50 and 315360000000");
        refuses(S("detached_session_ttl_ms = -1\n"),
                "line 1: `detached_session_ttl_ms` must be between 0 and 315360000000");
        refuses(S("detached_session_ttl_ms = 9223372036854775807\n"),
                "line 1: `detached_session_ttl_ms` must be between 0 and 315360000000");
        refuses(S("retained_output_bytes_per_process = 4095\n"),
                "line 1: `retained_output_bytes_per_process` must be between 4096 and 1125899906842624");
        refuses(S("tcp_user_timeout_ms = 2147483648\n"),
                "line 1: `tcp_user_timeout_ms` must be between 0 and 2147483647");
        refuses(S("max_sessions = 0\n"), "line 1: `max_sessions` must be between 1 and 1048576");
        refuses(S("concurrent_requests = 0\n"),
                "line 1: `concurrent_requests` must be between 1 and 9223372036854775807");
        refuses(S("ws_max_clock_skew_seconds = 86401\n"),
                "line 1: `ws_max_clock_skew_seconds` must be between 0 and 86400");
        refuses(S("log_level = 'loud'\n"),
                "line 1: `log_level` must be `debug`, `info`, `warn`, `error` or `off`");
        refuses(S("sandbox_backend = 'bwrap'\n"),
                "line 1: `sandbox_backend` must be `auto`, `namespaces`, `bubblewrap` or `landlock`");
        refuses(S("log_format = 'xml'\n"), "line 1: `log_format` must be `text` or `json`");
        refuses(S("ws_auth = 'password'\n"),
                "line 1: `ws_auth` must be `capability-token` or `signed-bearer-token`");
}

TEST(the_ends_of_a_range_belong_to_it)
{
        _config_ struct config c;

        config_init(&c);
        reads(&c, S("max_message_bytes = 2147483647\noutput_chunk_bytes = 1048576\nping_interval_ms = 50\n"));
        eq_u64(c.conn.max_message_bytes, INT32_MAX);
        reads(&c, S("ping_interval_ms = 0\npong_timeout_ms = 0\ntcp_user_timeout_ms = 0\n"));
        eq_u64(c.conn.ping_interval_ms, 0);
}

TEST(an_error_of_syntax_names_file_and_line)
{
        static const struct slice bad[] = {
                S("max_sessions =\n"),
                S("max_sessions = 1\nmax_sessions = 2\n"),
                S("max_sessions = 99999999999999999999\n"),
                S("listen = 'open\n"),
                S("[x\n"),
                S("\0\n"),
                S("listen = \"stdio\\u0000\"\n"),
                S("\xff\n"),
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _config_ struct config c;
                struct err err = ERR_INIT;
                char path[64];

                config_init(&c);
                ok(read_text(&c, bad[i], path, &err) < 0);
                _free_ char *start = mem_printf("%s: line ", path);
                ok(slice_starts(slice_from_str(err.text), slice_from_str(start)));
                ok(strstr(err.text, ", column ") != NULL);
        }
}

TEST(the_error_of_an_unreadable_file_has_the_text_of_the_system)
{
        _config_ struct config c;
        struct err err = ERR_INIT;

        config_init(&c);
        eq_int(config_read_file(&c, "/nonexistent", &err), -ENOENT);
        eq_str(err.text,
               "failed to read configuration file /nonexistent: No such file or directory (os error 2)");
        eq_int(config_read_file(&c, "/tmp", &err), -EISDIR);
        eq_int(config_read_file(&c, "/dev/zero", &err), -EFBIG);
}

/* --- the URL of --listen --- */

/* Returns "KIND HOST PORT PATH", or the error. */
static char *url_text(const char *text)
{
        _config_ struct config c;
        struct err err = ERR_INIT;

        config_init(&c);
        free(c.conn.listen);
        c.conn.listen = mem_strdup(text);
        c.insecure_no_auth = true;
        if (config_check(&c, &err) < 0)
                return mem_strdup(err.text);
        const struct listen_url *u = &c.conn.listen_url;
        if (u->kind == LISTEN_STDIO)
                return mem_strdup("stdio");
        if (u->kind == LISTEN_UNIX)
                return mem_printf("unix %s", u->path);
        return mem_printf("ws %s %u%s", u->host, u->port, listen_url_is_loopback(u) ? " loopback" : "");
}

TEST(listen_urls_are_addresses_paths_or_stdio)
{
        static const struct {
                const char *url, *expect;
        } table[] = {
                { "stdio", "stdio" },
                { "stdio://", "stdio" },
                { "unix:/run/x.sock", "unix /run/x.sock" },
                { "ws://127.0.0.1:0", "ws 127.0.0.1 0 loopback" },
                { "ws://127.0.0.1:0/", "ws 127.0.0.1 0 loopback" },
                { "ws://127.255.0.9:00080", "ws 127.255.0.9 80 loopback" },
                { "ws://128.0.0.1:65535", "ws 128.0.0.1 65535" },
                { "ws://0.0.0.0:1", "ws 0.0.0.0 1" },
                { "ws://192.0.2.1:1", "ws 192.0.2.1 1" },
                { "ws://[::1]:8080", "ws ::1 8080 loopback" },
                { "ws://[0:0:0:0:0:0:0:1]:1/", "ws 0:0:0:0:0:0:0:1 1 loopback" },
                { "ws://[::ffff:127.0.0.1]:1", "ws ::ffff:127.0.0.1 1 loopback" },
                { "ws://[::ffff:192.0.2.1]:1", "ws ::ffff:192.0.2.1 1" },
                { "ws://[::127.0.0.1]:1", "ws ::127.0.0.1 1" },
                { "ws://[::]:1", "ws :: 1" },
                { "ws://[2001:db8::1]:1", "ws 2001:db8::1 1" },
        };
        for (size_t i = 0; i < ARRAY_LEN(table); i++) {
                _free_ char *got = url_text(table[i].url);
                eq_str(got, table[i].expect);
        }
}

TEST(other_schemes_are_unsupported)
{
        static const char *const bad[] = {
                "",        "http://x", "wss:/127.0.0.1:0", "127.0.0.1:0",    "WS://127.0.0.1:0",
                "stdio:",  "stdio:/",  "stdio:///",        "Stdio",          " stdio",
                "unix//x", "ws:",      "ws:/127.0.0.1:0",  "tcp://1.2.3.4:1"
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _free_ char *got = url_text(bad[i]);
                _free_ char *expect = mem_printf(
                        "unsupported --listen URL `%s`; expected `ws://IP:PORT` or `stdio` (or `unix:PATH`)",
                        bad[i]);
                eq_str(got, expect);
        }
}

TEST(a_websocket_url_needs_a_literal_address_and_a_port_and_nothing_else)
{
        static const char *const bad[] = {
                "ws://",
                "ws://:80",
                "ws:///",
                "ws://localhost:0",
                "ws://127.0.0.1",
                "ws://127.0.0.1:",
                "ws://127.0.0.1:/",
                "ws://127.0.0.1:x",
                "ws://127.0.0.1:-1",
                "ws://127.0.0.1:+1",
                "ws://127.0.0.1: 1",
                "ws://127.0.0.1:65536",
                "ws://127.0.0.1:99999999999999999999",
                "ws://127.0.0.1:0:0",
                "ws://127.0.0.1:0//",
                "ws://127.0.0.1:0/x",
                "ws://127.0.0.1:0?x",
                "ws://127.0.0.1/:0",
                "ws://x@127.0.0.1:0",
                "ws://1.2.3:0",
                "ws://2130706433:0",
                "ws://127.0.0.01:0",
                "ws://0x7f.0.0.1:0",
                "ws://[127.0.0.1]:0",
                "ws://::1:0",
                "ws://[::1:0",
                "ws://[::1]",
                "ws://[::1]0",
                "ws://[::1%lo]:0",
                "ws://[]:0",
                "ws://[",
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                _free_ char *got = url_text(bad[i]);
                _free_ char *expect =
                        mem_printf("invalid websocket --listen URL `%s`; expected `ws://IP:PORT`", bad[i]);
                /* slice_starts, because a hint follows when the host is a name. */
                ok(slice_starts(slice_from_str(got), slice_from_str(expect)));
        }
}

TEST(a_unix_path_is_made_absolute_and_must_fit)
{
        char longest[sizeof(((struct sockaddr_un *)NULL)->sun_path)];
        memset(longest, 'x', sizeof(longest) - 1);
        longest[0] = '/';
        longest[sizeof(longest) - 1] = '\0';

        _free_ char *cwd = getcwd(NULL, 0);
        _free_ char *relative = url_text("unix:a/sock");
        _free_ char *relative_expect = mem_printf("unix %s/a/sock", cwd);
        eq_str(relative, relative_expect);

        _free_ char *fits = mem_printf("unix:%s", longest);
        _free_ char *fits_got = url_text(fits), *fits_expect = mem_printf("unix %s", longest);
        eq_str(fits_got, fits_expect);

        _free_ char *over = mem_printf("unix:%sx", longest);
        _free_ char *over_got = url_text(over);
        ok(strstr(over_got, "the path of a unix socket has at most 107 bytes") != NULL);

        _free_ char *empty = url_text("unix:");
        eq_str(empty, "invalid unix --listen URL `unix:`; expected `unix:PATH`");
}

/* --- settings that depend on each other --- */

TEST(an_open_listener_beyond_loopback_needs_the_override)
{
        static const char *const open[] = { "ws://0.0.0.0:0", "ws://192.0.2.1:0", "ws://[::]:0" };
        for (size_t i = 0; i < ARRAY_LEN(open); i++) {
                _config_ struct config c;

                config_init(&c);
                set(&c.conn.listen, open[i]);
                const char *text = check_error(&c);
                ok(strstr(text, "--ws-auth") && strstr(text, "--insecure-no-auth") && strstr(text, open[i]));
                c.insecure_no_auth = true;
                eq_str(check_error(&c), "");
        }
}

TEST(authentication_opens_a_listener_beyond_loopback)
{
        _config_ struct config c;

        config_init(&c);
        set(&c.conn.listen, "ws://0.0.0.0:0");
        set(&c.auth_options.mode, "capability-token");
        set(&c.auth_options.token_sha256, "0000000000000000000000000000000000000000000000000000000000000000");
        eq_str(check_error(&c), "");
        eq_int(c.conn.auth.mode, AUTH_CAPABILITY_TOKEN);
        eq_str(c.conn.listen_url.host, "0.0.0.0");
}

TEST(authentication_is_for_websockets_on_tcp_or_unix)
{
        _config_ struct config c;

        config_init(&c);
        set(&c.auth_options.mode, "capability-token");
        set(&c.auth_options.token_sha256, "0000000000000000000000000000000000000000000000000000000000000000");
        set(&c.conn.listen, "stdio");
        eq_str(check_error(&c), "WebSocket auth requires a WebSocket listener, not stdio");
        set(&c.conn.listen, "unix:/tmp/x");
        eq_str(check_error(&c), "");
}

TEST(a_bad_url_and_bad_authentication_stop_the_check)
{
        _config_ struct config c;

        config_init(&c);
        set(&c.conn.listen, "http://x");
        ok(strstr(check_error(&c), "unsupported --listen URL `http://x`"));
        set(&c.conn.listen, "stdio");
        eq_str(check_error(&c), "");
        set(&c.auth_options.issuer, "i");
        ok(strstr(check_error(&c), "websocket auth flags require"));
}
