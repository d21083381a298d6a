/* network_credentials: checks what networkProxy says about credentials, with the errors of the reference server. Its errors for these
 * members, which came last into the protocol, show the value of a number. */
#include "base/limits.h"
#include "proto/network_internal.h"

#define SHOWN_BYTES 60

enum kind { KIND_STRING, KIND_STRINGS, KIND_AUTH };

static const struct {
        const char *name;
        enum kind kind;
} members[] = {
        { "env", KIND_STRINGS },
        { "patterns", KIND_STRINGS },
        { "url_prefixes", KIND_STRINGS },
        { "url_prefix_from_env", KIND_STRING },
        { "auth", KIND_AUTH },
        { "header", KIND_STRING },
        { "prefix", KIND_STRING },
};

static void fail(struct decoder *d, const struct json *v, const char *expected)
{
        struct slice raw = json_raw(d->doc, v);
        int n = (int)MIN(raw.n, (size_t)SHOWN_BYTES);

        if (v->type == JSON_NUMBER)
                decode_fail(d, "invalid type: %s `%.*s`, expected %s",
                            memchr(raw.p, '.', raw.n) ? "floating point" : "integer", n, raw.p, expected);
        else if (v->type == JSON_STRING)
                decode_fail(d, "invalid type: string \"%.*s\", expected %s", n, raw.p, expected);
        else if (v->type == JSON_TRUE || v->type == JSON_FALSE)
                decode_fail(d, "invalid type: boolean `%.*s`, expected %s", n, raw.p, expected);
        else
                decode_fail(d, "invalid type: %s, expected %s", json_type_name(v), expected);
}

static void check_string(struct decoder *d, const struct json *v)
{
        if (v->type != JSON_STRING)
                fail(d, v, "a string");
}

static void check_strings(struct decoder *d, const struct json *v, bool is_auth)
{
        static const char *const ways[] = { "bearer", "token", "basic", "header" };
        size_t ignored;

        if (v->type != JSON_ARRAY) {
                fail(d, v, "a sequence");
                return;
        }
        json_each (it, d->doc, v)
                if (is_auth)
                        decode_variant_value(d, it, ways, ARRAY_LEN(ways), &ignored);
                else
                        check_string(d, it);
}

static void check_member(struct decoder *d, struct slice name, const struct json *v)
{
        for (size_t i = 0; i < ARRAY_LEN(members); i++) {
                if (!slice_eq(name, slice_from_str(members[i].name)))
                        continue;
                if (members[i].kind == KIND_STRING)
                        check_string(d, v);
                else
                        check_strings(d, v, members[i].kind == KIND_AUTH);
                return;
        }
        decode_fail(d,
                    "unknown field `%.*s`, expected one of `env`, `patterns`, `url_prefixes`, "
                    "`url_prefix_from_env`, `auth`, "
                    "`header`, `prefix`",
                    (int)MIN(name.n, (size_t)SHOWN_BYTES), name.p);
}

static void check_provider(struct decoder *d, const struct json *v)
{
        if (v->type != JSON_OBJECT) {
                fail(d, v, "struct CredentialProviderConfig");
                return;
        }
        json_each (it, d->doc, v)
                check_member(d, json_string(d->arena, d->doc, it), it + 1);
}

static const struct json *find(const struct decoder *d, const char *key)
{
        return d->has_failed ? NULL : json_get(d->doc, d->object, slice_from_str(key));
}

bool network_credentials_decode(struct decoder *d)
{
        bool has_any = false;
        const struct json *v = find(d, "credentialMasking");

        if (v && v->type != JSON_TRUE && v->type != JSON_FALSE)
                fail(d, v, "a boolean");
        else if (v)
                has_any = v->type == JSON_TRUE;

        v = find(d, "credentialProviders");
        if (v && v->type != JSON_OBJECT) {
                fail(d, v, "a map");
        } else if (v) {
                json_each (it, d->doc, v) {
                        has_any = true;
                        check_provider(d, it + 1);
                }
        }
        return has_any;
}
