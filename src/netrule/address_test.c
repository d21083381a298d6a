/* address_test: which addresses are public, line by line; ranges; spellings. */
#include "netrule/address.h"
#include "unit.h"

#include <errno.h>
#include <netinet/in.h>

static struct net_address address(const char *text)
{
        struct net_address a;
        ok(net_address_parse(slice_from_str(text), &a));
        return a;
}

static bool is_public(const char *text)
{
        struct net_address a = address(text);
        struct sockaddr_storage storage;
        socklen_t n = net_address_to(&a, 80, &storage);
        ok(n == (storage.ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6)));
        bool result = net_is_public(&a);
        ok(net_address_is_public(&storage) == result);
        return result;
}

TEST(special_addresses_are_not_public)
{
        static const char *const first_and_last[] = {
                "0.0.0.0",
                "0.255.255.255",
                "10.0.0.0",
                "10.255.255.255",
                "100.64.0.0",
                "100.127.255.255",
                "127.0.0.0",
                "127.0.0.1",
                "127.255.255.255",
                "169.254.0.0",
                "169.254.169.254",
                "169.254.255.255",
                "172.16.0.0",
                "172.31.255.255",
                "192.0.0.0",
                "192.0.0.255",
                "192.0.2.0",
                "192.0.2.255",
                "192.168.0.0",
                "192.168.255.255",
                "198.18.0.0",
                "198.19.255.255",
                "198.51.100.0",
                "198.51.100.255",
                "203.0.113.0",
                "203.0.113.255",
                "224.0.0.0",
                "239.255.255.255",
                "240.0.0.0",
                "255.255.255.255",
                "::",
                "::1",
                "::2",
                "::8.8.8.8",
                "fc00::",
                "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
                "fe80::",
                "febf::1",
                "fec0::1",
                "ff00::",
                "ffff::1",
                "64:ff9b::",
                "64:ff9b::8.8.8.8",
                "::ffff:0:8.8.8.8",
                "5f00::1",
                "2001:1::1",
                "64:ff9b:1::1",
                "2002::",
                "2002:808:808::1",
                "2001::",
                "2001:0:ffff::1",
                "2001:db8::1",
                "3fff::1",
                "100::1",
                "::ffff:10.0.0.1",
                "::ffff:127.0.0.1",
                "::ffff:169.254.169.254",
                "::ffff:0.0.0.0",
                "::ffff:255.255.255.255",
        };
        static const char *const beside[] = {
                "1.0.0.0",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "169.255.0.0",
                "172.15.255.255",
                "172.32.0.0",
                "191.255.255.255",
                "192.0.1.0",
                "192.0.3.0",
                "192.167.255.255",
                "192.169.0.0",
                "198.17.255.255",
                "198.20.0.0",
                "198.51.99.255",
                "198.51.101.0",
                "203.0.112.255",
                "203.0.114.0",
                "223.255.255.255",
                "2606:4700::1",
                "2001:4860:4860::8888",
                "2001:200::1",
                "2003::1",
                "64:ff9a::1",
                "2a00::",
                "::ffff:8.8.8.8",
                "fbff::1",
                "::1:0:0:0",
        };
        for (size_t i = 0; i < ARRAY_LEN(first_and_last); i++)
                if (is_public(first_and_last[i]))
                        fail_msg("%s", first_and_last[i]);
        for (size_t i = 0; i < ARRAY_LEN(beside); i++)
                if (!is_public(beside[i]))
                        fail_msg("%s", beside[i]);
}

TEST(metadata_services_are_known_in_all_spellings)
{
        static const char *const known[] = {
                "169.254.169.254",          "169.254.170.2",     "168.63.129.16",
                "100.100.100.200",          "fd00:ec2::254",     "::ffff:169.254.169.254",
                "64:ff9b::169.254.169.254", "2002:a9fe:a9fe::1", "::169.254.169.254",
                "::ffff:0:169.254.169.254"
        };
        for (size_t i = 0; i < ARRAY_LEN(known); i++) {
                struct net_address a = address(known[i]);
                ok(net_is_metadata(&a));
        }
        struct net_address other = address("169.254.169.1");
        ok(!net_is_metadata(&other));
}

TEST(only_addresses_are_parsed_as_addresses)
{
        static const char *const names[] = { "",           "127.1",     "2130706433", "0x7f.0.0.1",
                                             "0177.0.0.1", "256.1.1.1", "1.2.3",      "1.2.3.4.5",
                                             "1.2.3.4 ",   "[::1]",     "::1%lo",     ":::",
                                             "1.2.3.4/8",  "a",         "1.2.3.04",   "::1.2.3.4.5" };
        struct net_address a;
        for (size_t i = 0; i < ARRAY_LEN(names); i++)
                ok(!net_address_parse(slice_from_str(names[i]), &a));
        ok(!net_address_parse(S("1.2.3.4\0"), &a));
}

TEST(ranges_are_parsed_and_hold_what_is_in_them)
{
        static const struct {
                const char *range, *shown, *inside, *outside;
        } rows[] = {
                { "10.0.0.0/8", "10.0.0.0/8", "10.255.0.1 ::ffff:10.0.0.1",
                  "11.0.0.1 ::10.0.0.1 64:ff9b::10.0.0.1" },
                { "0.0.0.0/0", "0.0.0.0/0", "8.8.8.8 255.0.0.1", "::1 2606::1" },
                { "::/0", "::/0", "2606::1 ::1", "8.8.8.8 ::ffff:8.8.8.8" },
                { "192.0.2.7", "192.0.2.7/32", "192.0.2.7", "192.0.2.6" },
                { "fd00::/8", "fd00::/8", "fdff::1", "fc00::1" },
                { "FE80::1", "fe80::1/128", "fe80::1", "fe80::2" },
                { "10.0.0.0/9", "10.0.0.0/9", "10.127.0.1", "10.128.0.1" },
        };
        static const char *const bad[] = { "",
                                           "/",
                                           "10.0.0.0/",
                                           "10.0.0.0/33",
                                           "10.0.0.1/8",
                                           "::1/127",
                                           "::/129",
                                           "10.0.0.0/+8",
                                           "10.0.0.0/8/8",
                                           "a/8",
                                           "10.0.0.0/008000",
                                           "::ffff:10.0.0.0/104",
                                           "10.0.0.0 /8" };
        for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
                struct net_cidr c;
                char shown[NET_ADDRESS_TEXT_BYTES];
                eq_int(net_cidr_parse(slice_from_str(rows[i].range), &c), 0);
                net_cidr_text(&c, shown);
                eq_str(shown, rows[i].shown);
                struct slice rest = slice_from_str(rows[i].inside);
                struct net_address a;
                while (rest.p) {
                        ok(net_address_parse(slice_split(&rest, ' '), &a));
                        ok(net_cidr_has(&c, &a));
                }
                rest = slice_from_str(rows[i].outside);
                while (rest.p) {
                        ok(net_address_parse(slice_split(&rest, ' '), &a));
                        ok(!net_cidr_has(&c, &a));
                }
        }
        for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
                struct net_cidr c;
                eq_int(net_cidr_parse(slice_from_str(bad[i]), &c), -EINVAL);
        }
}
