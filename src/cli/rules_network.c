/* rules_network: the network rule that the answer "always" to a question about a host adds. */
#include "cli/rules.h"

const char *rules_network_protocol(const char *asked)
{
        static const char *const names[] = { "http", "https_connect", "socks5_tcp", "socks5_udp" };
        static const char *const words[] = { "http", "https", "socks5_tcp", "socks5_udp" };
        size_t i = slice_find(slice_from_str(asked), names, ARRAY_LEN(names));

        return i < ARRAY_LEN(names) ? words[i] : "https"; /* a rule names one, and holds for all */
}

const char *rules_network_line(struct arena *a, const struct exec_network_addition *addition)
{
        const struct exec_rules_text none = { "", S("") };
        struct err err = ERR_INIT;
        struct slice text;

        if (exec_rules_add_network(a, &none, NULL, addition, &text, &err) < 0)
                return NULL;
        return arena_dup(a, slice_trim(text));
}
