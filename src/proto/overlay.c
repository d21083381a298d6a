/* overlay: see overlay.h. */
#include "proto/overlay.h"

#include "proto/profile.h"

int overlay_decode(struct arena *a, const struct json_doc *doc, const struct json *value, struct overlay *ret,
                   struct err *err)
{
        static const char *const names[] = { "network", "file_system" };
        struct profile_files files = { 0 };
        struct overlay o = { 0 };
        const struct json *v;
        struct decoder d;

        decode_begin(&d, a, doc, value, "AdditionalPermissionProfile", err);
        decode_own_members(&d);
        profile_refuse_others(&d, names, ARRAY_LEN(names));
        if ((v = decode_peek(&d, "network")))
                profile_decode_network(&d, v, &o.has_network_word, &o.has_network);
        if ((v = decode_peek(&d, "file_system"))) {
                profile_decode_files(&d, v, PROFILE_FORM_STORED, &files);
                o.has_files = true;
        }

        int r = decode_end(&d);
        if (r < 0)
                return r;
        o.entries = files.entries;
        o.count = files.count;
        o.glob_depth = files.glob_depth;
        *ret = o;
        return 0;
}

/* Can the two lists say it all? */
static bool is_plain(const struct overlay *o)
{
        for (size_t i = 0; i < o->count; i++) {
                const struct profile_entry *e = &o->entries[i];
                if (e->kind != TARGET_PATH || e->access == ACCESS_DENY || e->skips_missing)
                        return false;
        }
        return o->glob_depth == 0;
}

static void encode_list(struct jsonw *w, const char *key, const struct overlay *o, enum access access)
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
                profile_encode_path(w, o->entries[i].text);
        }
        if (has_some)
                jsonw_array_end(w);
}

static void encode_files(struct jsonw *w, const struct overlay *o)
{
        jsonw_object(w);
        if (is_plain(o)) {
                encode_list(w, "read", o, ACCESS_READ);
                encode_list(w, "write", o, ACCESS_WRITE);
        } else {
                jsonw_key(w, "entries");
                jsonw_array(w);
                for (size_t i = 0; i < o->count; i++)
                        profile_encode_entry(w, &o->entries[i]);
                jsonw_array_end(w);
                if (o->glob_depth > 0)
                        jsonw_member_u64(w, "glob_scan_max_depth", o->glob_depth);
        }
        jsonw_object_end(w);
}

void overlay_encode(struct jsonw *w, const struct overlay *o)
{
        jsonw_object(w);
        jsonw_key(w, "network");
        if (o->has_network_word) {
                jsonw_object(w);
                jsonw_member_bool(w, "enabled", o->has_network);
                jsonw_object_end(w);
        } else {
                jsonw_null(w);
        }
        jsonw_key(w, "file_system");
        if (o->has_files)
                encode_files(w, o);
        else
                jsonw_null(w);
        jsonw_object_end(w);
}
