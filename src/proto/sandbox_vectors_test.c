/* sandbox_vectors_test: checks the sandbox objects of the vectors, and the decisions about access that entries alone decide. */
#include "proto/sandbox.h"

#include "base/uri.h"
#include "policy/rule_tree.h"
#include "proto/test_internal.h"
#include "unit.h"

/* Vectors that our decoder answers in another way: with the error `text`, or, when that is NULL, by accepting the object. */
static const struct {
        const char *name;
        bool is_for_files_only;
        const char *text, *why;
} differences[] = {
        { "no_wlevel", false, NULL, "the level means nothing here; a client that leaves it out is served" },
        { "legacy_pretagged", false, NULL, "profiles of older clients are mapped" },
        { "legacy_rw_roots", false, NULL, "profiles of older clients are mapped" },
        { "plain_path", false, NULL, "older clients send native paths" },
        { "cwd_plain", false, NULL, "older clients send native paths" },
        { "rel_path", false, "path is not absolute: foo",
          "native paths are taken, so this is no broken URI" },
        { "legacy_sandboxPolicy", false, NULL, "policies of older clients are mapped" },
        { "cwd_foreign", true,
          "sandbox cwd URI `file://server/share` is not valid on this exec-server host: "
          "'file://server/share' is invalid on 'linux'",
          "what cannot be understood is refused, whether it is used or not" },
        { "wsroot_foreign", true,
          "sandbox workspace root URI `file://server/share` is not valid on this exec-server host: "
          "'file://server/share' is invalid on 'linux'",
          "what cannot be understood is refused, whether it is used or not" },
};

/* Vectors for which our process sandbox grants something else. */
static const struct {
        const char *name, *why;
} other_effects[] = {
        { "no_wsroots,_project_roots_write", "without workspaceRoots a cwd that was given stands in" },
        { "empty_entries", "the reference grants its own helper programs, which ours does not have" },
};

static int difference_of(struct slice name, bool is_files)
{
        for (size_t i = 0; i < ARRAY_LEN(differences); i++) {
                if (slice_eq(name, slice_from_str(differences[i].name)) &&
                    (is_files || !differences[i].is_for_files_only))
                        return (int)i;
        }
        return -1;
}

static bool has_other_effect(struct slice name)
{
        for (size_t i = 0; i < ARRAY_LEN(other_effects); i++) {
                if (slice_eq(name, slice_from_str(other_effects[i].name)))
                        return true;
        }
        return false;
}

static struct slice canonical(struct arena *a, const struct profile *p, const struct place *place)
{
        struct err err = ERR_INIT;
        struct rules rules;

        eq_int(rules_resolve(a, p, place, &rules, &err), 0);
        return rules_canonical(a, &rules);
}

/* Returns the answer that the vector wants: the code of the error when the object itself is wrong, otherwise 0. */
static int64_t wanted_code(const struct json_doc *doc, const struct json *answer)
{
        const struct json *code = json_get(doc, answer, S("code"));
        int64_t number = 0;

        must(!code || json_i64(doc, code, &number) == 0);
        return number == RPC_INVALID_PARAMS || number == RPC_INVALID_REQUEST ? number : 0;
}

static void check_answer(struct arena *a, const struct json_doc *doc, const struct json *item,
                         enum sandbox_use use, struct sandbox_context *c)
{
        bool is_files = use == SANDBOX_FOR_FILES;
        const struct json *answer = json_get(doc, item, is_files ? S("fs_getMetadata") : S("process_start"));
        int difference = difference_of(test_string(a, doc, item, "name"), is_files);
        const char *text = arena_dup(a, test_string(a, doc, answer, "message"));
        int64_t code = wanted_code(doc, answer);
        struct err err = ERR_INIT;

        if (difference >= 0) {
                text = differences[difference].text;
                code = text ? RPC_INVALID_PARAMS : 0;
        }
        int r = sandbox_context_decode(a, doc, json_get(doc, item, S("sandbox")), use, c, &err);
        eq_str(err.text, code ? text : "");
        eq_int(err.client_code, code);
        eq_int(r, code ? -EINVAL : 0);
}

TEST(sandbox_objects_of_the_vectors_are_taken_or_refused_as_they_say)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 << 20);
        struct json_doc doc;
        const struct json *cases = json_get(&doc, test_vectors(&a, "wire.json", &text, &doc), S("cases"));
        size_t count = 0, compared = 0;

        json_each (it, &doc, cases) {
                const struct json *effective = json_get(&doc, it, S("effective_profile"));
                struct sandbox_context c = { 0 };

                count++;
                check_answer(&a, &doc, it, SANDBOX_FOR_FILES, &c);
                check_answer(&a, &doc, it, SANDBOX_FOR_PROCESS, &c);
                if (!effective || has_other_effect(test_string(&a, &doc, it, "name")))
                        continue;

                struct place place = sandbox_context_place(&c, S(TEST_W), (struct slice){ 0 });
                struct profile p;
                struct err err = ERR_INIT;
                eq_int(profile_decode_stored(&a, &doc, effective, &p, &err), 0);
                eq_slice(canonical(&a, &c.profile, &place), canonical(&a, &p, &place));
                compared++;
        }
        eq_u64(count, 47);
        eq_u64(compared, 19);
}

/* --- decisions about access --------------------------------------------------------------------------------------- */

static bool has_part(struct slice path, const char *const *names)
{
        while (path.p) {
                struct slice part = slice_split(&path, '/');
                for (size_t i = 0; names[i]; i++) {
                        if (slice_eq(part, slice_from_str(names[i])))
                                return true;
                }
        }
        return false;
}

/* Does the result depend on links, .git files or missing names? Such vectors need a real file system. */
static bool asks_the_disk(struct arena *a, const struct json_doc *doc, const struct json *item)
{
        struct slice name = test_string(a, doc, item, "name");
        const struct json *files = json_get(doc, item, S("files"));

        if (slice_starts(name, S("missing_")) || slice_starts(name, S("git")))
                return true;
        json_each (it, doc, files) {
                if (!slice_eq(test_string(a, doc, it, "type"), S("file")) &&
                    !slice_eq(test_string(a, doc, it, "type"), S("dir")))
                        return true;
        }
        return false;
}

/* Finds the access that an operation needs. Returns false for operations that also need access to the parent directory. */
static bool access_for(struct slice op, enum access *ret)
{
        if (slice_eq(op, S("read")) || slice_eq(op, S("list")) || slice_eq(op, S("stat")))
                *ret = ACCESS_READ;
        else if (slice_eq(op, S("write")) || slice_eq(op, S("create")) || slice_eq(op, S("mkdir")))
                *ret = ACCESS_WRITE;
        else
                return false;
        return true;
}

static struct rules rules_of(struct arena *a, const struct json_doc *doc, const struct json *item)
{
        const struct json *roots = json_get(doc, item, S("workspaceRoots"));
        struct err err = ERR_INIT;
        struct decoder d = { .arena = a, .doc = doc, .object = item, .err = &err };
        struct sandbox_context c = { .has_roots = true, .roots = arena_zalloc(a, 16 * sizeof(*c.roots)) };
        struct rules rules;

        profile_decode_wire(&d, json_get(doc, item, S("profile")), PROFILE_FORM_WIRE, &c.profile);
        decode_path_value(&d, json_get(doc, item, S("cwd")), NULL, &c.cwd);
        json_each (it, doc, roots)
                decode_path_value(&d, it, NULL, &c.roots[c.root_count++]);
        eq_str(err.text, "");

        struct slice tmpdir = test_string(a, doc, json_get(doc, item, S("env")), "TMPDIR");
        struct place place = sandbox_context_place(&c, (struct slice){ 0 }, tmpdir);
        eq_int(rules_resolve(a, &c.profile, &place, &rules, &err), 0);
        return rules;
}

static bool is_allowed(struct slice expect)
{
        return slice_eq(expect, S("allow"));
}

TEST(entries_decide_as_the_vectors_say_where_nothing_else_does)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(4 << 20);
        struct json_doc doc;
        const struct json *cases = json_get(&doc, test_vectors(&a, "access.json", &text, &doc), S("cases"));
        static const char *const others[] = { "dev", "etc", "usr", NULL }; /* devices, platform roots */
        size_t checked = 0;

        json_each (it, &doc, cases) {
                struct rules rules = rules_of(&a, &doc, it);
                const struct json *checks = json_get(&doc, it, S("checks"));

                if (rules.glob_count > 0 || asks_the_disk(&a, &doc, it))
                        continue;
                json_each (check, &doc, checks) {
                        struct slice path;
                        enum access needed;
                        if (uri_to_path(&a, test_string(&a, &doc, check, "path"), &path, NULL) != URI_OK ||
                            !access_for(test_string(&a, &doc, check, "op"), &needed) ||
                            has_part(path, rules_protected_names) || has_part(path, others))
                                continue;
                        struct rule_tree tree;
                        rule_tree_build(&a, &rules, &tree);
                        bool allows = rule_tree_access(&tree, path) >= needed;
                        if (allows != is_allowed(test_string(&a, &doc, check, "expect")))
                                fail_msg("%.*s: %.*s", SLICE(test_string(&a, &doc, it, "name")), SLICE(path));
                        checked++;
                }
        }
        eq_u64(checked, 201);
}
