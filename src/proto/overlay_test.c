/* overlay_test: the vectors of additional permissions and of intersections of profiles. */
#include "policy/overlay.h"

#include "policy/intersect.h"
#include "policy/legacy.h"
#include "proto/rig_internal.h"

/* Has the overlay only plain paths with read or write access? Then it is written as two lists, otherwise as entries. */
static bool is_plain(const struct overlay *o)
{
        for (size_t i = 0; i < o->count; i++) {
                const struct profile_entry *e = &o->entries[i];
                if (e->kind != TARGET_PATH || e->access == ACCESS_DENY || e->skips_missing)
                        return false;
        }
        return o->glob_depth == 0;
}

static void write_list(struct jsonw *w, const char *key, const struct overlay *o, enum access access)
{
        bool has_some = false;

        for (size_t i = 0; i < o->count; i++) {
                if (o->entries[i].access != access)
                        continue;
                if (!has_some) {
                        jsonw_key(w, key);
                        jsonw_array(w);
                        has_some = true;
                }
                rig_write_path(w, o->entries[i].text);
        }
        if (has_some)
                jsonw_array_end(w);
}

static void write_files(struct jsonw *w, const struct overlay *o)
{
        jsonw_object(w);
        if (is_plain(o)) {
                write_list(w, "read", o, ACCESS_READ);
                write_list(w, "write", o, ACCESS_WRITE);
        } else {
                jsonw_key(w, "entries");
                jsonw_array(w);
                for (size_t i = 0; i < o->count; i++)
                        rig_write_entry(w, &o->entries[i]);
                jsonw_array_end(w);
                if (o->glob_depth > 0)
                        jsonw_member_u64(w, "glob_scan_max_depth", o->glob_depth);
        }
        jsonw_object_end(w);
}

/* Returns an overlay as JSON. Both members are always written, as null where they are empty. */
static const char *overlay_text(struct arena *a, const struct overlay *o)
{
        _buf_ struct buf out = BUF_INIT(RIG_TEXT_MAX);
        struct jsonw w;

        jsonw_begin(&w, &out);
        jsonw_object(&w);
        jsonw_key(&w, "network");
        if (o->has_network_word) {
                jsonw_object(&w);
                jsonw_member_bool(&w, "enabled", o->has_network);
                jsonw_object_end(&w);
        } else {
                jsonw_null(&w);
        }
        jsonw_key(&w, "file_system");
        if (o->has_files)
                write_files(&w, o);
        else
                jsonw_null(&w);
        jsonw_object_end(&w);
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

/* Reads an overlay, which has the shape of a profile without a tag. */
static struct overlay overlay_at(const struct run *run, const char *key)
{
        const struct json *value = json_get(run->doc, run->test, slice_from_str(key));
        const struct json *network =
                json_get(run->doc, json_get(run->doc, value, S("network")), S("enabled"));
        const struct json *files = json_get(run->doc, value, S("file_system"));
        struct profile p = profile_at(run, key);

        return (struct overlay){
                .has_network_word = network && network->type != JSON_NULL,
                .has_network = p.has_network,
                .has_files = files && files->type != JSON_NULL,
                .entries = p.entries,
                .count = p.count,
                .glob_depth = p.glob_depth,
        };
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
