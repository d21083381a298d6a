/* environment_url_test: which URLs an environment may have, and which error other URLs give. */
#include "env/environment_url.h"

#include "unit.h"

#include <errno.h>

static void accepts(const char *text, const char *expect, enum environment_kind kind)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const char *url = NULL;
        enum environment_kind got = ENVIRONMENT_LOCAL;

        if (environment_url_check(&a, slice_from_str(text), &url, &got, &err) < 0)
                fail_msg("%s: %s", text, err.text);
        eq_str(url, expect);
        eq_int(got, kind);
}

static void refuses(struct slice text, const char *expect)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const char *url = "untouched";
        enum environment_kind kind = ENVIRONMENT_LOCAL;

        eq_int(environment_url_check(&a, text, &url, &kind, &err), -EINVAL);
        eq_str(err.text, expect);
        eq_str(url, "untouched");
}

TEST(urls_of_servers_are_accepted_without_the_blanks_around_them)
{
        static const char *const urls[] = {
                "ws://127.0.0.1:8765",
                "ws://h",
                "wss://devbox.example:9000/a/b?c=d",
                "ws://[::1]:1",
                "ws://[fe80::1]/",
                "ws://[fe80::1%eth0]:5",
                "ws://a_b-c.d:65535",
                "ws://h?q",
                "unix:/run/s",
                "unix:/run/user/1000/farhand.sock",
        };
        for (size_t i = 0; i < ARRAY_LEN(urls); i++)
                accepts(urls[i], urls[i], ENVIRONMENT_URL);
        accepts(" \t ws://127.0.0.1:8765\r\n", "ws://127.0.0.1:8765", ENVIRONMENT_URL);
        accepts("ssh://me@host:22/", "ssh://me@host:22/", ENVIRONMENT_SSH);
}

TEST(other_urls_are_refused_with_the_reason)
{
        static const struct {
                const char *text, *why;
        } rows[] = {
                { "ws://", "it has no host" },
                { "wss:///path", "it has no host" },
                { "ws://:80", "it has no host" },
                { "ws://h:", "its port is not a number from 1 to 65535" },
                { "ws://h:0", "its port is not a number from 1 to 65535" },
                { "ws://h:65536", "its port is not a number from 1 to 65535" },
                { "ws://h:8a", "its port is not a number from 1 to 65535" },
                { "ws://[::1]x", "its port is not a number from 1 to 65535" },
                { "ws://[::1", "its host is neither a name nor an address" },
                { "ws://[h]", "its host is neither a name nor an address" },
                { "ws://-h", "its host is neither a name nor an address" },
                { "ws://a%b", "its host is neither a name nor an address" },
                { "ws://h/a#b", "it has a fragment" },
                { "ws://h h", "it has characters that are not printable ASCII" },
                { "unix:", "expected unix:/ABSOLUTE/PATH" },
                { "unix:run/s", "expected unix:/ABSOLUTE/PATH" },
                { "ssh://", "it has no host" },
                { "ssh://-oProxyCommand=x", "its host is neither a name nor an address" },
                { "ssh://me@-h", "its host is neither a name nor an address" },
                { "ssh://h/path", "nothing may follow host and port" },
                { "ssh://h?q", "nothing may follow host and port" },
                { "ssh://h:99999", "its port is not a number from 1 to 65535" },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                char expect[256];
                (void)snprintf(expect, sizeof(expect), "environment url `%s` is invalid: %s", rows[i].text,
                               rows[i].why);
                refuses(slice_from_str(rows[i].text), expect);
        }
        static const char user[] = "its user has other characters than letters, digits and `._-+`, or begins "
                                   "with a dash";
        static const char *const users[] = { "ssh://-l@h", "ssh://@h", "ssh://a:b@h", "ssh://a@b@h" };
        for (size_t i = 0; i < ARRAY_LEN(users); i++) {
                char expect[256];
                (void)snprintf(expect, sizeof(expect), "environment url `%s` is invalid: %s", users[i], user);
                refuses(slice_from_str(users[i]), expect);
        }
        refuses(S(" \n"), "environment url cannot be empty");
        refuses(S("http://127.0.0.1:8765"),
                "environment url `http://127.0.0.1:8765` must use ws:// or wss://");
        refuses(S("WS://h"), "environment url `WS://h` must use ws:// or wss://");
        refuses(S("none"), "environment url `none` must use ws:// or wss://");
        refuses(S("\x1b[2Jx"), "environment url `\\x1b[2Jx` must use ws:// or wss://");
        refuses(S("ws://h\r\nHost: x"),
                "environment url `ws://h\\x0d\\x0aHost: x` is invalid: it has characters "
                "that are not printable ASCII");
        refuses(S("ws://h\0x"),
                "environment url `ws://h\\x00x` is invalid: it has characters that are not printable ASCII");
        refuses(S("wss://me:secret@h"), "environment url is invalid: it has a user or a password; use "
                                        "token_file or token_env");
}

TEST(the_path_of_a_socket_may_not_be_too_long)
{
        char url[5 + 108 + 1];

        memset(url, 'x', sizeof(url));
        memcpy(url, "unix:/", 6);
        url[5 + 107] = '\0';
        accepts(url, url, ENVIRONMENT_URL);
        url[5 + 107] = 'x';
        url[5 + 108] = '\0';
        char expect[256];
        (void)snprintf(expect, sizeof(expect),
                       "environment url `%s` is invalid: the path of a unix socket has at most 107 bytes",
                       url);
        refuses(slice_from_str(url), expect);
}
