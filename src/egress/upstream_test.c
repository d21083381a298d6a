/* upstream_test: which proxy of the environment leads where. */
#include "egress/upstream.h"

#include "unit.h"

#include <stdlib.h>

TEST(only_proxies_that_speak_http_can_be_used)
{
        struct upstream u = upstream_read("http://proxy.test:3128/");
        ok(u.is_set && u.is_usable);
        eq_slice(u.host, S("proxy.test"));
        eq_int(u.port, 3128);
        ok(upstream_read("proxy.test").is_usable);
        eq_int(upstream_read("HTTP://[::1]").port, 80);
        static const char *const bad[] = { "https://proxy.test", "socks5://proxy.test:1080",
                                           "http://u:p@proxy.test", "http://", "http://a:0" };
        for (size_t i = 0; i < ARRAY_LEN(bad); i++)
                ok(upstream_read(bad[i]).is_set && !upstream_read(bad[i]).is_usable);
        ok(!upstream_read(NULL).is_set && !upstream_read("").is_set);
}

TEST(addresses_and_localhost_go_direct)
{
        struct net_policy p = { .uses_upstream = true };
        struct net_target t = { .protocol = NET_HTTPS_CONNECT, .host = S("a.test"), .port = 443 };
        setenv("HTTPS_PROXY", "http://s:1", 1);
        setenv("HTTP_PROXY", "http://p:2", 1);
        eq_int(upstream_for(&p, &t).port, 1);
        t.protocol = NET_HTTP;
        eq_int(upstream_for(&p, &t).port, 2);
        t.host = S("localhost");
        ok(!upstream_for(&p, &t).is_set);
        t.host = S("8.8.8.8");
        ok(!upstream_for(&p, &t).is_set);
        t.host = S("a.test");
        p.uses_upstream = false;
        ok(!upstream_for(&p, &t).is_set);
        unsetenv("HTTPS_PROXY");
        unsetenv("HTTP_PROXY");
}
