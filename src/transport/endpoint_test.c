/* endpoint_test: which URLs of servers are accepted, with which parts, and which are refused. */
#include "transport/endpoint.h"

#include "unit.h"

static void accepts(const char *text, enum endpoint_kind kind, const char *host, uint16_t port,
                    const char *path)
{
        struct endpoint e;
        struct err err = ERR_INIT;
        print_message("%s\n", text);
        eq_int(endpoint_parse(text, &e, &err), 0);
        eq_int(e.kind, kind);
        if (host)
                eq_str(e.host, host);
        eq_int(e.port, port);
        eq_str(e.path, path);
        endpoint_release(&e);
}

static void refuses(const char *text)
{
        struct endpoint e;
        struct err err = ERR_INIT;
        print_message("%s\n", text);
        ok(endpoint_parse(text, &e, &err) < 0);
        ok(err.text[0] != '\0');
}

TEST(urls_of_servers_are_taken_apart)
{
        accepts("ws://127.0.0.1:4500", ENDPOINT_TCP, "127.0.0.1", 4500, "/");
        accepts("ws://host", ENDPOINT_TCP, "host", 80, "/");
        accepts("ws://[::1]", ENDPOINT_TCP, "::1", 80, "/");
        accepts("ws://devbox:1/", ENDPOINT_TCP, "devbox", 1, "/");
        accepts("ws://[::1]:65535/a/b?c=d", ENDPOINT_TCP, "::1", 65535, "/a/b?c=d");
        accepts("ws://[fe80::1%eth0]:5", ENDPOINT_TCP, "fe80::1%eth0", 5, "/");
        accepts("wss://example.org", ENDPOINT_TLS, "example.org", 443, "/");
        accepts("wss://example.org:8443?x", ENDPOINT_TLS, "example.org", 8443, "/?x");
        accepts("ssh://far", ENDPOINT_SSH, "far", 0, "/");
        accepts("ssh://me@[::1]:2222/", ENDPOINT_SSH, "::1", 2222, "/");
        accepts("unix:/run/user/0/farhand", ENDPOINT_UNIX, NULL, 0, "/run/user/0/farhand");
}

TEST(other_urls_are_refused_with_a_reason)
{
        static const char *const bad[] = {
                "",
                "http://x:1",
                "ws:/x:1",
                "ws://",
                "ws://:1",
                "ws://h:0",
                "ws://h:65536",
                "ws://h:1x",
                "ws://h:",
                "ws://u@h:1",
                "wss://u:p@h",
                "ws://[::1%]:1",
                "ws://[::1%a b]:1",
                "ws://[%eth0]:1",
                "ws://[::1:1",
                "ws://[::1]x:1",
                "ws://h h:1",
                "ws://h\r\nX: y:1",
                "ws://h:1/a b",
                "ws://h:1/#",
                "ws://h:1/\r\nX",
                "ws://h:1/\xc3\xa9",
                "unix:",
                "unix:relative",
                "ws://a%b:1",
                "ssh://",
                "ssh://-oProxyCommand=x",
                "ssh://me:word@far",
                "ssh://far/path",
                "ssh://far:0",
                "ssh://[fe80::1%eth0]",
        };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                refuses(bad[i]);
        char longer[400] = "unix:/";
        memset(longer + strlen(longer), 'a', 200);
        refuses(longer);
        memcpy(longer, "ws://aa", 7);
        memcpy(longer + 300, ":1", 3);
        memset(longer + 7, 'a', 293);
        refuses(longer);
}
