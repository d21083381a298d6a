/* denied_line_test: the path or the address that an error message names is found. */
#include "unit.h"

#include "denial/denied_line.h"

TEST(a_line_tells_what_was_refused_as_far_as_it_does)
{
        static const struct {
                const char *line, *operation, *path;
        } rows[] = {
                { "touch: cannot touch '/ro/x y': Read-only file system", "write", "/ro/x y" },
                { "touch: cannot touch \xe2\x80\x98/ro/\xc3\x99x\xe2\x80\x99: Permission denied", "unknown",
                  "/ro/\xc3\x99x" },
                { "/bin/sh: 1: cannot create /ro/x: Permission denied", "unknown", "/ro/x" },
                { "bash: line 1: /ro/a b: Operation not permitted", "unknown", "/ro/a b" },
                { "PermissionError: [Errno 13] Permission denied: '/ro/x'", "unknown", "/ro/x" },
                { "mv: cannot move '/w/a' to '/ro/b': Read-only file system", "write", "/ro/b" },
                { "open \"/ro/x\": read-only file system", "write", "/ro/x" },
                { "rm: cannot remove `/ro/x': Read-only file system", "write", "/ro/x" },
                { "error: Permission denied /ro/x", "unknown", "/ro/x" },
                { "touch: cannot touch 'x': Read-only file system", "write", NULL },
                { "/bin/true: seccomp", "unknown", NULL },
                { "permission denied '/unclosed", "unknown", NULL },
                { "x \xe2\x80\x98/a\xe2\x80\x99 \xe2\x80\x98/b: permission denied", "unknown", "/a" },
                { "connect: Network is unreachable", "connect", NULL },
                { "all is well in '/x'", NULL, NULL },
                { "", NULL, NULL },
        };
        struct denied_scan s;
        denied_scan_init(&s, true);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct denied_line line;
                bool is = denied_line_read(&s, slice_from_str(rows[i].line), &line);
                eq_int(is, rows[i].operation != NULL);
                if (!is)
                        continue;
                eq_str(line.operation, rows[i].operation);
                eq_int(line.path.p != NULL, rows[i].path != NULL);
                if (rows[i].path)
                        eq_slice(line.path, slice_from_str(rows[i].path));
        }
}

/* Checks what is read from a line. `address` is HOST or HOST PORT. */
static void reads(const char *text, const char *operation, const char *name, const char *address)
{
        struct denied_scan s;
        struct denied_line line;
        char got[64] = "";
        denied_scan_init_lines(&s, true);
        ok(denied_line_read(&s, slice_from_str(text), &line));
        if (line.host.p)
                (void)snprintf(got, sizeof(got), "%.*s%s%.*s", SLICE(line.host), line.port.p ? " " : "",
                               SLICE(line.port));
        eq_str(line.operation, operation);
        eq_slice(line.name, slice_from_str(name ? name : ""));
        eq_str(got, address ? address : "");
}

TEST(a_relative_name_is_found_where_programs_put_it)
{
        static const struct {
                const char *line, *operation, *name;
        } rows[] = {
                { "touch: cannot touch 'a b': Read-only file system", "write", "a b" },
                { "mkdir: cannot create directory \xe2\x80\x98"
                  "d\xe2\x80\x99: Read-only file system",
                  "write", "d" },
                { "mv: cannot move 'a' to 'b': Read-only file system", "write", "b" },
                { "OSError: [Errno 30] Read-only file system: 'a'", "write", "a" },
                { "Error: EROFS: read-only file system, open 'a/b'", "write", "a/b" },
                { "cp: cannot open 'a' for reading: Permission denied", "unknown", "a" },
                { "rm: cannot remove `a': Read-only file system", "write", "a" },
                { "cat: secret: Permission denied", "unknown", "secret" },
                { "cat: ../secret: Permission denied", "unknown", "../secret" },
                { "bash: line 1: f: Read-only file system", "write", "f" },
                { "sh: 1: cannot create a b: Read-only file system", "write", "a b" },
                { "sh: 1: .: cannot open ./f: Permission denied", "unknown", "./f" },
                { "tar: f: Cannot open: Read-only file system", "write", "f" },
                { "error: could not lock config file .git/config: Read-only file system", "write",
                  ".git/config" },
                { "open go.mod: read-only file system", "write", "go.mod" },
                /* No name can be told from the other words. */
                { "f: Read-only file system", "write", NULL },
                { "tool: some words about it: Read-only file system", "write", NULL },
                { "can't do it, don't ask: Permission denied", "unknown", NULL },
                { "message: \"Read-only file system\" }", "write", NULL },
                { "PermissionError: [Errno 1] Operation not permitted", "unknown", NULL },
                { "Read-only file system", "write", NULL },
                { ": Read-only file system", "write", NULL },
                { "'': Read-only file system", "write", NULL },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                reads(rows[i].line, rows[i].operation, rows[i].name, NULL);
}

TEST(an_address_is_found_where_programs_put_it)
{
        static const struct {
                const char *line, *address;
        } rows[] = {
                { "bash: line 1: /dev/tcp/192.0.2.1/80: Network is unreachable", "192.0.2.1 80" },
                { "bash: line 1: /dev/udp/::1/53: Network is unreachable", "::1 53" },
                { "bash: connect: Network is unreachable", NULL },
                { "curl: (7) Failed to connect to 192.0.2.1 port 80 after 0 ms: Couldn't connect to server",
                  "192.0.2.1 80" },
                { "curl: (7) Couldn't connect to server", NULL },
                { "curl: (6) Could not resolve host: example.com", "example.com" },
                { "fatal: unable to access 'https://h.example/x/': Could not resolve host: h.example",
                  "h.example" },
                { "ssh: connect to host db port 22: Network is unreachable", "db 22" },
                { "ssh: Could not resolve hostname db: Temporary failure in name resolution", "db" },
                { "wget: unable to resolve host address \xe2\x80\x98"
                  "a.example\xe2\x80\x99",
                  "a.example" },
                { "Connecting to 192.0.2.1:80... failed: Network is unreachable.", "192.0.2.1:80" },
                { "dial tcp 192.0.2.1:443: connect: network is unreachable", "192.0.2.1:443" },
                { "bash: line 1: example.com: Temporary failure in name resolution", "example.com" },
                { "socket.gaierror: [Errno -3] Temporary failure in name resolution", NULL },
                { "could not connect to server: Network is unreachable", NULL },
                { "ssh: socket: Operation not permitted", NULL },
                { "connect to : Network is unreachable", NULL },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                reads(rows[i].line, "connect", NULL, rows[i].address);
}

TEST(words_of_a_change_are_told_from_others)
{
        static const struct {
                const char *line;
                bool says_write;
        } rows[] = {
                { "sh: 1: cannot create x: Permission denied", true },
                { "rm: cannot remove '/create': Permission denied", true },
                { "cat: /create/x: Permission denied", false },
                { "cat: create: Permission denied", false },
                { "x: Read-only file system", true },
        };
        struct denied_scan s;
        struct denied_line line;
        denied_scan_init_lines(&s, false);
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                ok(denied_line_read(&s, slice_from_str(rows[i].line), &line));
                eq_int(line.says_write, rows[i].says_write);
        }
}
