/* discover: searches one root of capabilityRoots/discoverV1 (docs/PROTOCOL.md) for plugins and skills. */
#include "codex/discover.h"
#include "base/mem.h"
#include "base/uri.h"
#include "files/answer.h"
#include "files/files_internal.h"
#include "proto/fs.h"

static void write_file(struct jsonw *w, const struct found_file *f)
{
        jsonw_object(w);
        jsonw_key(w, "path");
        fs_write_uri(w, f->path);
        jsonw_member_string(w, "contents", f->contents);
        jsonw_object_end(w);
}

static void write_optional_file(struct jsonw *w, const char *key, bool has, const struct found_file *f)
{
        jsonw_key(w, key);
        if (has)
                write_file(w, f);
        else
                jsonw_null(w);
}

static void write_plugin(struct jsonw *w, const struct discovery *found)
{
        jsonw_key(w, "plugin");
        if (!found->has_manifest) {
                jsonw_null(w);
                return;
        }
        jsonw_object(w);
        write_optional_file(w, "manifest", true, &found->manifest);
        write_optional_file(w, "mcpConfig", found->has_mcp_config, &found->mcp_config);
        write_optional_file(w, "appsConfig", found->has_apps_config, &found->apps_config);
        jsonw_object_end(w);
}

static void write_skills(struct jsonw *w, const struct discovery *found)
{
        jsonw_key(w, "skills");
        jsonw_array(w);
        for (size_t i = 0; i < found->skill_count; i++) {
                const struct found_skill *skill = &found->skills[i];
                jsonw_object(w);
                write_optional_file(w, "instructions", true, &skill->instructions);
                write_optional_file(w, "metadata", skill->has_metadata, &skill->metadata);
                jsonw_object_end(w);
        }
        jsonw_array_end(w);
}

static void write_root(struct jsonw *w, const struct discover_root *root, const struct discovery *found)
{
        jsonw_object(w);
        jsonw_member_string(w, "id", root->id);
        jsonw_key(w, "path");
        if (root->foreign.p)
                jsonw_string(w, root->foreign);
        else
                fs_write_uri(w, root->path);
        write_plugin(w, found);
        write_skills(w, found);
        jsonw_key(w, "namespaceManifests");
        jsonw_array(w);
        for (size_t i = 0; i < found->namespace_count; i++)
                write_file(w, &found->namespace_manifests[i]);
        jsonw_array_end(w);
        jsonw_key(w, "warnings");
        jsonw_array(w);
        for (size_t i = 0; i < found->warning_count; i++)
                jsonw_str(w, found->warnings[i]);
        jsonw_array_end(w);
        jsonw_member_str(w, "error", found->error);
        jsonw_object_end(w);
}

static enum manifest_says read_manifest(struct arena *a, struct slice manifest, struct slice member,
                                        struct slice *ret_string)
{
        struct json_doc doc;
        struct json_error ignored;
        if (json_parse(a, manifest, &doc, &ignored) < 0)
                return MANIFEST_NOTHING;
        const struct json *v = json_get(&doc, json_root(&doc), member);
        if (v && v->type == JSON_OBJECT)
                return MANIFEST_OBJECT;
        if (!v || v->type != JSON_STRING)
                return MANIFEST_NOTHING;
        *ret_string = json_string(a, &doc, v);
        return MANIFEST_STRING;
}

static const char *foreign_error(struct arena *a, struct slice uri)
{
        return arena_printf(a, "failed to inspect capability root %.*s: '%.*s' is invalid on 'linux'",
                            SLICE(uri), SLICE(uri));
}

/* Searches one root per call, so that its contents are freed once they are written. */
int run_discover_root(struct file_request *r, struct jsonw *w, UNUSED struct err *err)
{
        const struct discover_root *root = r->params;
        _arena_ struct arena a = ARENA_INIT;
        struct discovery found = { 0 };
        if (root->foreign.p)
                found.error = foreign_error(&a, root->foreign);
        else
                fsop_discover(&a, root->path.p, read_manifest, &found);
        write_root(w, root, &found);
        return 0;
}

void fs_write_root_failure(struct jsonw *w, const struct discover_root *root, const char *why)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf uri = BUF_INIT(SIZE_MAX / 4);
        struct discovery found = { 0 };
        if (root->foreign.p) { /* a URI that is no path here gives the same error as in run_discover_root */
                found.error = foreign_error(&a, root->foreign);
        } else {
                must(uri_from_path(&uri, root->path) == 0);
                found.error = arena_printf(&a, "failed to inspect capability root %.*s: %s",
                                           SLICE(buf_slice(&uri)), why);
        }
        write_root(w, root, &found);
}
