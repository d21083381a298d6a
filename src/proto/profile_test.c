/* profile_test: both forms of a profile, the error texts for mistakes, and the vectors of stored profiles. */
#include "proto/profile.h"

#include "proto/rig_internal.h"

#define MANAGED(entries)                                                           \
        "{'type':'managed','file_system':{'type':'restricted','entries':[" entries \
        "]},'network':'restricted'}"
#define AT(path, access) "{'path':{'type':'path','path':'" path "'},'access':'" access "'}"

/* Decodes a stored profile. Returns the profile in normal form, or the error text. */
static const char *decode_stored_text(struct arena *a, const char *text)
{
        struct profile p;
        struct err err = ERR_INIT;
        struct json_doc doc;
        const struct json *value = test_parse(a, slice_from_str(text), &doc);
        int r = profile_decode_stored(a, &doc, value, &p, &err);

        eq_int(r, err.code);
        eq_int(err.client_code, r < 0 ? RPC_INVALID_PARAMS : 0);
        return r < 0 ? arena_printf(a, "%s", err.text) : rig_profile_text(a, &p);
}

static const char *wire_in(struct arena *a, const char *text, enum profile_form form, int *ret_rpc)
{
        struct profile p;
        struct err err = ERR_INIT;
        struct json_doc doc;
        const struct json *value = test_parse(a, slice_from_str(text), &doc);
        struct decoder d = { .arena = a, .doc = &doc, .err = &err };

        profile_decode_wire(&d, value, form, &p);
        *ret_rpc = err.client_code;
        return d.has_failed ? arena_printf(a, "%s", err.text) : rig_profile_text(a, &p);
}

static const char *decode_wire_text(struct arena *a, const char *text)
{
        int ignored;

        return wire_in(a, text, PROFILE_FORM_WIRE, &ignored);
}

/* Returns the text with " in place of '. */
static const char *quoted(struct arena *a, const char *text)
{
        char *copy = arena_dup(a, slice_from_str(text));

        for (char *p = copy; *p; p++)
                *p = *p == '\'' ? '"' : *p;
        return copy;
}

/* --- vectors ------------------------------------------------------------------------------------------------------ */

/* Our error texts for the vectors that are refused. The reference answers all of them with "did not match any variant". */
static const struct {
        const char *name, *text;
} complaints[] = {
        { "glob_depth_zero",
          "file_system: glob_scan_max_depth: invalid value: integer `0`, expected a nonzero usize" },
        { "glob_depth_string", "file_system: glob_scan_max_depth: invalid type: string \"3\", expected u64" },
        { "glob_depth_negative", "file_system: glob_scan_max_depth: invalid number" },
        { "path_file_uri", "file_system: entries[1]: path: path: path is not absolute: file:///a/b" },
        { "path_relative", "file_system: entries[1]: path: path: path is not absolute: a/b" },
        { "path_tilde", "file_system: entries[1]: path: path: path is not absolute: ~/x" },
        { "path_empty", "file_system: entries[1]: path: path: path is not absolute: " },
        { "external_no_network", "missing field `network`" },
        { "managed_no_network", "missing field `network`" },
        { "managed_no_entries", "file_system: missing field `entries`" },
        { "managed_camel", "missing field `file_system`" },
        { "type_unknown",
          "type: unknown variant `bogus`, expected one of `managed`, `disabled`, `external`" },
        { "type_uppercase",
          "type: unknown variant `Managed`, expected one of `managed`, `disabled`, `external`" },
        { "legacy_unknown_field", "unknown field `bogus`" },
        { "legacy_mixed_entries_and_read", "file_system: unknown field `read`" },
        { "legacy_camel", "unknown field `fileSystem`" },
        { "legacy_relative_read", "file_system: read[0]: path is not absolute: r" },
        { "legacy_string_network",
          "network: invalid type: string \"enabled\", expected struct NetworkPermissions" },
};

static const char *complaint_of(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(complaints); i++) {
                if (slice_eq(name, slice_from_str(complaints[i].name)))
                        return complaints[i].text;
        }
        return NULL;
}

TEST(stored_profiles_of_the_vectors_take_their_normal_form)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 << 20);
        struct json_doc doc;
        const struct json *cases =
                json_get(&doc, test_vectors(&a, "canonical.json", &text, &doc), S("cases"));
        size_t count = 0, refused = 0;

        json_each (it, &doc, cases) {
                const struct json *output = json_get(&doc, it, S("output"));
                struct slice name = test_string(&a, &doc, it, "name");
                struct profile p = { 0 };
                struct err err = ERR_INIT;

                count++;
                int r = profile_decode_stored(&a, &doc, json_get(&doc, it, S("input")), &p, &err);
                if (output) {
                        eq_str(err.text, "");
                        eq_int(r, 0);
                        eq_slice(slice_from_str(rig_profile_text(&a, &p)), test_text(&a, &doc, output));
                } else {
                        refused++;
                        eq_int(r, -EINVAL);
                        eq_str(err.text, complaint_of(name));
                }
        }
        eq_u64(count, 52);
        eq_u64(refused, ARRAY_LEN(complaints));
}

/* --- beyond the vectors ------------------------------------------------------------------------------------------- */

TEST(a_mistake_in_a_stored_profile_is_called_by_its_place)
{
        _arena_ struct arena a = ARENA_INIT;
        static const struct {
                const char *text, *complaint;
        } rows[] = {
                { "5", "invalid type: number, expected struct PermissionProfile" },
                { "null", "invalid type: null, expected struct PermissionProfile" },
                { "{'type':null}", "type: invalid type: null, expected string or map" },
                { "{'type':'managed','file_system':5,'network':'restricted'}",
                  "file_system: invalid type: number, expected struct ManagedFileSystemPermissions" },
                { MANAGED(AT("/a", "read") "," AT("/b", "READ")),
                  "file_system: entries[1]: access: unknown variant `READ`, expected one of `read`, `write`, "
                  "`deny`, `none`" },
                { MANAGED("{'path':{'type':'x'},'access':'read'}"),
                  "file_system: entries[0]: path: type: unknown variant `x`, expected one of `path`, "
                  "`glob_pattern`, `special`" },
                { MANAGED("{'path':{'type':'special','value':{'kind':'root','subpath':5}},'access':'read'}"),
                  "file_system: entries[0]: path: value: subpath: invalid type: number, expected a string" },
                { MANAGED("{'path':{'type':'special','value':{'kind':'project_roots','subpath':'a\\u0000b'}},"
                          "'access':'read'}"),
                  "file_system: entries[0]: path: value: subpath: a path cannot hold a NUL" },
                { MANAGED("{'path':{'type':'glob_pattern','pattern':'a\\u0000'},'access':'deny'}"),
                  "file_system: entries[0]: path: pattern: a path cannot hold a NUL" },
                { "{'network':{'enabled':1}}", "network: enabled: invalid type: number, expected a boolean" },
                { "{'network':{'on':true}}", "network: unknown field `on`" },
                { "{'file_system':{'entries':[],'x':1}}", "file_system: unknown field `x`" },
                { "{'file_system':{'glob_scan_max_depth':1}}",
                  "file_system: unknown field `glob_scan_max_depth`" },
                { "{'file_system':{'write':['/a',5]}}",
                  "file_system: write[1]: invalid type: number, expected a string" },
                { "{'type':'disabled','file_system':{}}", "only a managed profile has a file_system" },
                { "{'type':'managed','file_system':{'type':'unrestricted','entries':[]},'network':'enabled'}",
                  "file_system: an unrestricted file system has no entries" },
        };

        for (size_t i = 0; i < ARRAY_LEN(rows); i++)
                eq_str(decode_stored_text(&a, rows[i].text), rows[i].complaint);
}

TEST(on_the_wire_both_spellings_of_a_path_are_one)
{
        _arena_ struct arena a = ARENA_INIT;
        const char *want = quoted(&a, MANAGED(AT("/a b", "write")));
        int rpc;

        eq_str(decode_wire_text(&a, MANAGED(AT("/a b", "write"))), want);
        eq_str(decode_wire_text(&a, MANAGED(AT("file:///a%20b", "write"))), want);
        eq_str(decode_wire_text(&a, MANAGED(AT("file:///x/..//a%20b/./", "write"))), want);
        eq_str(decode_wire_text(&a, MANAGED(AT("file:a", "write"))),
               "sandbox permission path is not absolute");
        eq_str(decode_wire_text(&a, MANAGED(AT("C:\\\\x", "write"))), "unsupported path URI scheme `c`");
        eq_str(wire_in(&a, MANAGED(AT("file:///C:/x", "write")), PROFILE_FORM_WIRE, &rpc),
               "invalid sandbox permission path URI: 'file:///C:/x' is invalid on 'linux'");
        eq_int(rpc, RPC_INVALID_PARAMS);
        eq_str(wire_in(&a, MANAGED(AT("file:///C:/x", "write")), PROFILE_FORM_WIRE_FILES, &rpc),
               "invalid sandbox permission path URI: 'file:///C:/x' is invalid on 'linux'");
        eq_int(rpc, RPC_INVALID_REQUEST);
}

TEST(a_path_that_is_not_utf8_keeps_its_bytes)
{
        _arena_ struct arena a = ARENA_INIT;
        const char *want = quoted(&a, MANAGED(AT("file:///a%FF%20b", "deny")));

        eq_str(decode_wire_text(&a, MANAGED(AT("file:///a%FF%20b", "deny"))), want);
        eq_str(decode_wire_text(&a, want), want);
        eq_str(decode_stored_text(&a, want),
               "file_system: entries[0]: path: path: path is not absolute: file:///a%FF%20b");
}

TEST(untagged_profiles_are_mapped_on_the_wire_too)
{
        _arena_ struct arena a = ARENA_INIT;

        eq_str(decode_wire_text(&a, "{'file_system':{'read':['/r'],'write':['file:///w']}}"),
               quoted(&a, MANAGED(AT("/r", "read") "," AT("/w", "write"))));
        eq_str(decode_wire_text(&a, "{'network':null}"), quoted(&a, MANAGED("")));
        eq_str(decode_wire_text(&a, "{'network':null,'other':1}"), "unknown field `other`");
        eq_str(decode_wire_text(&a, "{}"), "missing field `type`");
}

TEST(a_network_that_is_closed_beside_disabled_stays_closed_in_a_request)
{
        _arena_ struct arena a = ARENA_INIT;
        const char *closed = "{\"type\":\"disabled\",\"network\":\"restricted\"}";

        eq_str(decode_wire_text(&a, closed), closed);
        eq_str(decode_stored_text(&a, closed), "{\"type\":\"disabled\"}");
        eq_str(decode_wire_text(&a, "{'type':'disabled','network':'enabled'}"), "{\"type\":\"disabled\"}");
}

TEST(a_profile_has_a_bounded_number_of_entries)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 << 20);

        test_put(&text, S("{'file_system':{'read':['/a'"));
        for (size_t i = 0; i < PROFILE_ENTRIES_MAX - 2; i++)
                test_put(&text, S(",'/a'"));
        test_put(&text, S("],'write':['/b'"));
        size_t n = text.n;
        test_put(&text, S("]}}"));
        ok(strstr(decode_stored_text(&a, text.p), "\"managed\""));
        buf_truncate(&text, n);
        test_put(&text, S(",'/b']}}"));
        eq_str(decode_stored_text(&a, text.p), "file_system: a permission profile has at most 4096 entries");
}
