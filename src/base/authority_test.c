/* authority_test: users, hosts and ports of URLs, good and bad. */
#include "base/authority.h"

#include "unit.h"

TEST(an_ssh_url_is_taken_apart)
{
        static const struct {
                const char *url, *user, *host;
                unsigned port;
        } rows[] = {
                { "ssh://host", NULL, "host", 0 },
                { "ssh://me@host.example:2222/", "me", "host.example", 2222 },
                { "ssh://a.b-c_d+e@[::1]:22", "a.b-c_d+e", "::1", 22 },
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct authority got;
                const char *why = authority_parse_ssh(slice_from_str(rows[i].url), &got);
                print_message("%s\n", rows[i].url);
                ok(!why);
                eq_int(got.has_user, rows[i].user != NULL);
                if (rows[i].user)
                        ok(slice_eq(got.user, slice_from_str(rows[i].user)));
                ok(slice_eq(got.host, slice_from_str(rows[i].host)));
                eq_int(got.port, rows[i].port);
        }
}

TEST(an_ssh_url_that_could_be_an_option_or_something_else_is_refused)
{
        static const char *const rows[] = {
                "ws://host",     "ssh:host",    "ssh://",     "ssh://-oProxyCommand=x",
                "ssh://me@-h",   "ssh://-l@h",  "ssh://@h",   "ssh://a:b@h",
                "ssh://a@b@h",   "ssh://a b@h", "ssh://h;id", "ssh://$(id)",
                "ssh://h/path",  "ssh://h?q",   "ssh://h#f",  "ssh://h:0",
                "ssh://h:65536", "ssh://h:",    "ssh://[h]",  "ssh://[::1",
                "ssh://a'b@h",   "ssh://h\n",
        };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct authority got;
                print_message("%s\n", rows[i]);
                ok(authority_parse_ssh(slice_from_str(rows[i]), &got) != NULL);
        }
}
