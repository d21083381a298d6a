/* overlay_test: the vectors of additional permissions and of intersections of profiles. */
#include "policy/overlay.h"

#include "policy/intersect.h"
#include "policy/legacy.h"
#include "proto/rig_internal.h"

/* Returns an overlay as JSON. Both members are always written, as null where they are empty. */
static const char *overlay_text(struct arena *a, const struct overlay *o)
{
        _buf_ struct buf out = BUF_INIT(RIG_TEXT_MAX);
        struct jsonw w;

        jsonw_begin(&w, &out);
        profile_write_overlay(&w, o);
        must(jsonw_end(&w) == 0);
        return arena_dup(a, buf_slice(&out));
}

struct run {
        struct arena *arena;
        const struct json_doc *doc;
        const struct json *test;
};

static struct profile profile_at(const struct run *run, const char *key)
{
        struct err err = ERR_INIT;
        struct profile p;

        must(profile_decode_stored(run->arena, run->doc, json_get(run->doc, run->test, slice_from_str(key)),
                                   &p, &err) == 0);
        return p;
}

static struct overlay overlay_at(const struct run *run, const char *key)
{
        const struct json *value = json_get(run->doc, run->test, slice_from_str(key));
        struct err err = ERR_INIT;
        struct overlay o;

        must(profile_decode_overlay(run->arena, run->doc, value, &o, &err) == 0);
        return o;
}

static const char *run_effective(const struct run *run)
{
        struct profile base = profile_at(run, "profile"), ret;
        struct overlay o = overlay_at(run, "additional");

        overlay_apply(run->arena, &base, &o, &ret);
        return rig_profile_text(run->arena, &ret);
}

static const char *run_normalize(const struct run *run)
{
        struct overlay o = overlay_at(run, "additional"), ret;
        struct err err = ERR_INIT;

        if (overlay_normalize(run->arena, &o, NULL, NULL, &ret, &err) < 0)
                return arena_dup(run->arena, slice_from_str(err.text));
        return overlay_text(run->arena, &ret);
}

/* Merges two overlays. The vectors of merging give only the depth of the result. */
static const char *run_merge(const struct run *run)
{
        struct overlay base = overlay_at(run, "base"), more = overlay_at(run, "additional"), ret;

        overlay_merge(run->arena, &base, &more, &ret);
        eq_u64(ret.count, 2);
        return ret.glob_depth ? arena_printf(run->arena, "%ju", (uintmax_t)ret.glob_depth) : "null";
}

static const char *run_intersect(const struct run *run)
{
        struct profile authority = profile_at(run, "authority"), requested = profile_at(run, "requested"),
                       ret;
        struct err err = ERR_INIT;

        if (profile_intersect(run->arena, &authority, &requested, NULL, NULL, &ret, &err) < 0)
                return arena_dup(run->arena, slice_from_str(err.text));
        return rig_profile_text(run->arena, &ret);
}

static const char *run_read_only(const struct run *run)
{
        struct profile p = profile_at(run, "profile"), ret;

        return profile_intersect_read_only(run->arena, &p, &ret) ? rig_profile_text(run->arena, &ret)
                                                                 : "null";
}

static const char *run_preserve_deny(const struct run *run)
{
        struct profile next = profile_at(run, "replacement"), old = profile_at(run, "existing"), ret;

        profile_replace(run->arena, &next, &old, &ret);
        return rig_profile_text(run->arena, &ret);
}

static const char *run_vector(const struct run *run)
{
        static const struct {
                const char *name;
                const char *(*fn)(const struct run *run);
        } kinds[] = {
                { "effective", run_effective },
                { "normalize", run_normalize },
                { "merge", run_merge },
                { "intersect_profiles", run_intersect },
                { "intersect_with_read_only", run_read_only },
                { "preserve_deny", run_preserve_deny },
        };
        const char *kind = rig_string(run->arena, run->doc, run->test, "kind");

        for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
                if (strcmp(kinds[i].name, kind) == 0)
                        return kinds[i].fn(run);
        }
        return "a kind that nothing runs";
}

TEST(vectors_of_overlays_and_intersections_pass)
{
        _buf_ struct buf text = BUF_INIT(RIG_TEXT_MAX);
        _arena_ struct arena a = ARENA_INIT;
        int failures = 0, count = 0;
        struct json_doc doc;

        const struct json *cases = json_get(&doc, test_vectors(&a, "overlay.json", &text, &doc), S("cases"));
        json_each (test, &doc, cases) {
                struct run run = { .arena = &a, .doc = &doc, .test = test };
                const char *want = rig_string(&a, &doc, test, "error");
                if (!*want)
                        want = rig_member(&a, &doc, test, "expect");
                if (!*want)
                        want = rig_member(&a, &doc, test, "expect_depth");
                failures += rig_differs(rig_string(&a, &doc, test, "name"), want, run_vector(&run));
                count++;
        }
        eq_int(count, 21);
        eq_int(failures, 0);
}
