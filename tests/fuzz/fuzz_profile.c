/* fuzz_profile: any text as a stored profile, as the profile of a request and as a sandbox object. What is accepted is
 * written in one form, which is parsed to the same profile again; and its rules do not depend on the order of its entries.
 */
#include "base/buf.h"
#include "base/mem.h"
#include "policy/rule_tree.h"
#include "proto/profile_write.h"
#include "proto/sandbox.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct slice padded(struct arena *a, struct slice text)
{
        char *p = arena_alloc(a, text.n + BUF_PADDING);

        if (text.n > 0)
                memcpy(p, text.p, text.n);
        memset(p + text.n, '"', BUF_PADDING);
        return slice_from(p, text.n);
}

static bool decode(struct arena *a, const struct json_doc *doc, enum profile_form form, struct profile *ret)
{
        struct err err = ERR_INIT;
        struct decoder d = { .arena = a, .doc = doc, .err = &err };

        if (form == PROFILE_FORM_STORED)
                d.has_failed = profile_decode_stored(a, doc, json_root(doc), ret, &err) < 0;
        else
                profile_decode_wire(&d, json_root(doc), form, ret);
        must(d.has_failed == (err.text[0] != '\0') && d.has_failed == (err.client_code != 0));
        return !d.has_failed;
}

static struct slice encode(struct arena *a, const struct profile *p, size_t input_bytes)
{
        _buf_ struct buf out = BUF_INIT(input_bytes * 24 + 1024);
        struct jsonw w;

        jsonw_begin(&w, &out);
        profile_write(&w, p);
        must(jsonw_end(&w) == 0);
        return padded(a, buf_slice(&out));
}

/* --- what follows from a profile ---------------------------------------------------------------------------------- */

static void check_entries(const struct profile *p, enum profile_form form)
{
        must(p->count <= PROFILE_ENTRIES_MAX);
        must(p->count == 0 || (p->kind == PROFILE_MANAGED && !p->is_unrestricted));
        for (size_t i = 0; i < p->count; i++) {
                const struct profile_entry *e = &p->entries[i];
                must(!slice_has_nul(e->subpath));
                if (e->kind != TARGET_PATH)
                        continue;
                must(!slice_has_nul(e->text));
                must(form == PROFILE_FORM_STORED || !profile_path_is_foreign(e->text));
        }
}

static void check_rules(struct arena *a, const struct rules *r)
{
        struct rule_tree tree;
        rule_tree_build(a, r, &tree);
        for (size_t i = 0; i < r->count; i++) {
                must(r->list[i].path.n > 0 && r->list[i].path.p[0] == '/');
                must(rules_at(r, r->list[i].path) == &r->list[i]);
                must(rule_tree_access(&tree, r->list[i].path) == r->list[i].access);
        }
        for (size_t i = 0; i < r->glob_count; i++)
                must(r->globs[i].n > 0 && r->globs[i].p[0] == '/');
}

static void shuffle(struct profile_entry *list, size_t count, uint64_t seed)
{
        for (size_t i = count; i > 1; i--) {
                seed = seed * 6364136223846793005u + 1442695040888963407u;
                size_t other = (size_t)(seed >> 33) % i;
                struct profile_entry e = list[i - 1];
                list[i - 1] = list[other];
                list[other] = e;
        }
}

static void check_order(struct arena *a, const struct profile *p, const struct place *place)
{
        struct profile mixed = *p;
        struct err err = ERR_INIT, mixed_err = ERR_INIT;
        struct rules r, mixed_r;

        mixed.entries = arena_alloc(a, (p->count + 1) * sizeof(*p->entries));
        if (p->count > 0)
                memcpy(mixed.entries, p->entries, p->count * sizeof(*p->entries));
        shuffle(mixed.entries, p->count, p->count);

        must(profile_writes_all(p) == profile_writes_all(&mixed));
        int code = rules_resolve(a, p, place, &r, &err);
        int mixed_code = rules_resolve(a, &mixed, place, &mixed_r, &mixed_err);
        must((code < 0) == (mixed_code < 0) && (code < 0) == (err.text[0] != '\0'));
        if (code < 0)
                return;
        check_rules(a, &r);
        check_rules(a, &mixed_r);
        must(slice_eq(rules_canonical(a, &r), rules_canonical(a, &mixed_r)));
}

static void check_profile(struct arena *a, const struct json_doc *doc, enum profile_form form, size_t size)
{
        static const struct slice roots[] = { S("/w"), S("/v/{x}") };
        const struct place places[] = {
                { .cwd = S("/w/[c]"), .roots = roots, .root_count = ARRAY_LEN(roots), .tmpdir = S("/t/.") },
                { .tmpdir = S("t") },
        };
        struct profile p, again;
        struct json_error error;
        struct json_doc copy;

        if (!decode(a, doc, form, &p))
                return;
        check_entries(&p, form);
        struct slice text = encode(a, &p, size);
        must(json_parse(a, text, &copy, &error) == 0);
        must(decode(a, &copy, form, &again));
        must(slice_eq(text, encode(a, &again, size)));
        for (size_t i = 0; i < ARRAY_LEN(places); i++)
                check_order(a, &p, &places[i]);
}

static void check_context(struct arena *a, const struct json_doc *doc, enum sandbox_use use)
{
        struct err err = ERR_INIT;
        struct sandbox_context c;
        struct rules rules;

        if (sandbox_context_decode(a, doc, json_root(doc), use, &c, &err) < 0) {
                must(err.text[0] != '\0' && err.client_code != 0);
                return;
        }
        struct place place = sandbox_context_place(&c, S("/cwd"), S("/tmp"));
        must(place.cwd.p && place.cwd.p[0] == '/' && place.root_count <= SANDBOX_ROOTS_MAX);
        if (rules_resolve(a, &c.profile, &place, &rules, &err) >= 0)
                check_rules(a, &rules);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const enum profile_form forms[] = { PROFILE_FORM_STORED, PROFILE_FORM_WIRE,
                                                   PROFILE_FORM_WIRE_FILES };
        _arena_ struct arena a = ARENA_INIT;
        _free_ char *text = mem_alloc(
                size +
                BUF_PADDING); /* a copy of the exact size, so that the sanitizer reports a read beyond it */
        struct json_error error;
        struct json_doc doc;

        if (size > 0)
                memcpy(text, data, size);
        memset(text + size, '}', BUF_PADDING);
        if (json_parse(&a, slice_from(text, size), &doc, &error) < 0)
                return 0;

        for (size_t i = 0; i < ARRAY_LEN(forms); i++)
                check_profile(&a, &doc, forms[i], size);
        check_context(&a, &doc, SANDBOX_FOR_PROCESS);
        check_context(&a, &doc, SANDBOX_FOR_FILES);
        return 0;
}
