/* record: writes and reads lists of changes. */
#include "patch/record.h"

#include "base/base64.h"
#include "base/uri.h"

#include <errno.h>

#define VERSION 1

static const char *const kinds[] = { [FILE_ABSENT] = "absent",
                                     [FILE_REGULAR] = "file",
                                     [FILE_LINK] = "link",
                                     [FILE_DIRECTORY] = "directory",
                                     [FILE_OTHER] = "other" };

/* ---- writing ---- */

static void write_path(struct jsonw *w, const char *key, const char *path)
{
        _buf_ struct buf uri = BUF_INIT((size_t)256 * 1024);
        if (key)
                jsonw_key(w, key);
        if (uri_from_path(&uri, slice_from_str(path)) == 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_null(w); /* record_read refuses a record with such a path */
}

static void write_state(struct jsonw *w, const char *key, const struct file_state *s)
{
        char digest[DIGEST_TEXT_BYTES];
        jsonw_key(w, key);
        jsonw_object(w);
        jsonw_member_str(w, "kind", kinds[s->kind]);
        if (s->kind == FILE_REGULAR) {
                jsonw_member_u64(w, "size", s->size);
                jsonw_member_i64(w, "modifiedAtMs", s->modified_ms);
                jsonw_member_u64(w, "links", s->links);
                if (s->has_mode)
                        jsonw_member_u64(w, "mode", s->mode);
                if (s->has_digest) {
                        digest_write(s->digest, digest);
                        jsonw_member_str(w, "digest", digest);
                }
        }
        if (s->kind == FILE_LINK && s->target) {
                jsonw_key(w, "target");
                jsonw_base64(w, slice_from_str(s->target));
        }
        jsonw_object_end(w);
}

/* Writes the edits of one layer. Line numbers are not needed to apply them. */
static void write_edits(struct jsonw *w, const struct edits *e)
{
        jsonw_object(w);
        jsonw_member_u64(w, "oldBytes", e->old_bytes);
        jsonw_member_u64(w, "newBytes", e->new_bytes);
        jsonw_key(w, "edits");
        jsonw_array(w);
        for (size_t i = 0; i < e->count; i++) {
                jsonw_u64(w, e->list[i].offset);
                jsonw_u64(w, e->list[i].removed);
                jsonw_base64(w, e->list[i].added);
        }
        jsonw_array_end(w);
        jsonw_object_end(w);
}

/* Writes the layers from the file upwards. */
static void write_layers(struct jsonw *w, const struct content *c)
{
        if (c->kind != CONTENT_EDITS)
                return;
        write_layers(w, c->below);
        write_edits(w, c->edits);
}

static void write_content(struct jsonw *w, const char *key, const struct content *c)
{
        const struct content *base = c;
        jsonw_key(w, key);
        jsonw_object(w);
        if (c->kind == CONTENT_TEXT) {
                jsonw_key(w, "data");
                jsonw_base64(w, c->text);
        } else {
                while (base->kind == CONTENT_EDITS)
                        base = base->below;
                write_path(w, "path", base->path);
                jsonw_member_u64(w, "size", base->size);
                jsonw_key(w, "layers");
                jsonw_array(w);
                write_layers(w, c);
                jsonw_array_end(w);
        }
        jsonw_object_end(w);
}

static void write_change(struct jsonw *w, const struct change *c)
{
        jsonw_object(w);
        write_path(w, "path", c->path);
        write_state(w, "before", &c->before);
        write_state(w, "after", &c->after);
        if (c->old)
                write_content(w, "old", c->old);
        if (c->is_in_place && c->fresh && c->fresh->kind == CONTENT_TEXT)
                write_content(w, "new", c->fresh);
        if (c->temp)
                write_path(w, "temp", c->temp);
        if (c->aside)
                write_path(w, "aside", c->aside);
        jsonw_object_end(w);
}

int record_write(struct buf *out, const struct changes *c)
{
        struct jsonw w;
        jsonw_begin(&w, out);
        jsonw_object(&w);
        jsonw_member_u64(&w, "version", VERSION);
        jsonw_member_bool(&w, "isUndo", c->is_undo);
        write_path(&w, "cwd", c->cwd);
        jsonw_key(&w, "directories");
        jsonw_array(&w);
        for (size_t i = 0; i < c->directory_count; i++)
                write_path(&w, NULL, c->directories[i].path);
        jsonw_array_end(&w);
        jsonw_key(&w, "changes");
        jsonw_array(&w);
        for (size_t i = 0; i < c->count; i++)
                write_change(&w, &c->list[i]);
        jsonw_array_end(&w);
        jsonw_object_end(&w);
        return jsonw_end(&w) < 0 ? -ENOBUFS : buf_append_char(out, '\n');
}

/* ---- reading ---- */

struct source {
        struct arena *arena;
        struct json_doc doc;
};

static const char *read_path(struct source *s, const struct json *v)
{
        struct slice path;
        if (!v || v->type != JSON_STRING ||
            uri_to_path(s->arena, json_string(s->arena, &s->doc, v), &path, NULL) != URI_OK)
                return NULL;
        return path.p;
}

static bool read_bytes(struct source *s, const struct json *v, struct slice *ret)
{
        if (!v || v->type != JSON_STRING)
                return false;
        struct slice text = json_string(s->arena, &s->doc, v);
        char *bytes = arena_alloc(s->arena, base64_decoded_max(text.n) + 1);
        ssize_t n = base64_decode(bytes, text.p, text.n, NULL);
        if (n < 0)
                return false;
        bytes[n] = '\0';
        *ret = slice_from(bytes, (size_t)n);
        return true;
}

static bool read_number(struct source *s, const struct json *object, struct slice key, uint64_t *ret)
{
        const struct json *v = json_get(&s->doc, object, key);
        return v && json_u64(&s->doc, v, ret) == 0;
}

static bool read_state(struct source *s, const struct json *v, struct file_state *ret)
{
        const struct json *kind = json_get(&s->doc, v, S("kind")),
                          *digest = json_get(&s->doc, v, S("digest"));
        const struct json *time = json_get(&s->doc, v, S("modifiedAtMs"));
        const struct json *target = json_get(&s->doc, v, S("target"));
        uint64_t mode = 0;
        struct slice bytes;
        if (!kind || kind->type != JSON_STRING)
                return false;
        size_t index = slice_find(json_string(s->arena, &s->doc, kind), kinds, ARRAY_LEN(kinds));
        if (index == ARRAY_LEN(kinds))
                return false;
        *ret = (struct file_state){ .kind = (enum file_kind)index };
        if (target && (!read_bytes(s, target, &bytes) || bytes.n == 0 || slice_has_nul(bytes)))
                return false;
        ret->target = target ? bytes.p : NULL;
        if (ret->kind != FILE_REGULAR)
                return true;
        ret->has_mode = read_number(s, v, S("mode"), &mode);
        ret->mode = (uint32_t)mode & 07777;
        if (digest && digest->type == JSON_STRING)
                ret->has_digest = digest_read(json_string(s->arena, &s->doc, digest), ret->digest);
        return read_number(s, v, S("size"), &ret->size) && read_number(s, v, S("links"), &ret->links) &&
               time && json_i64(&s->doc, time, &ret->modified_ms) == 0 && (!digest || ret->has_digest);
}

/* Reads the edits of one layer. They must be in order, inside of the old text, and give the size that they say. */
static bool read_edits(struct source *s, const struct json *v, uint64_t size, struct edits *ret)
{
        const struct json *list = json_get(&s->doc, v, S("edits"));
        *ret = (struct edits){ 0 };
        if (!list || list->type != JSON_ARRAY || !read_number(s, v, S("oldBytes"), &ret->old_bytes) ||
            !read_number(s, v, S("newBytes"), &ret->new_bytes) || ret->old_bytes != size)
                return false;
        size_t count = json_count(&s->doc, list);
        if (count % 3 != 0)
                return false;
        ret->list = arena_zalloc(s->arena, count / 3 * sizeof(*ret->list) + 1);
        uint64_t at = 0, added = 0;
        const struct json *item = list + 1;
        for (; ret->count < count / 3; ret->count++, item += 3) {
                struct edit *e = &ret->list[ret->count];
                uint64_t end;
                if (item[0].type != JSON_NUMBER || item[1].type != JSON_NUMBER ||
                    json_u64(&s->doc, &item[0], &e->offset) < 0 ||
                    json_u64(&s->doc, &item[1], &e->removed) < 0 || !read_bytes(s, &item[2], &e->added) ||
                    e->offset < at || ckd_add(&end, e->offset, e->removed) || end > ret->old_bytes ||
                    ckd_add(&added, added, e->added.n))
                        return false;
                at = end;
                ret->removed_bytes += e->removed;
        }
        return ret->old_bytes - ret->removed_bytes + added == ret->new_bytes;
}

static const struct content *read_content(struct source *s, const struct json *v)
{
        const struct json *data = json_get(&s->doc, v, S("data")),
                          *layers = json_get(&s->doc, v, S("layers"));
        struct slice bytes;
        uint64_t size;
        if (data)
                return read_bytes(s, data, &bytes) ? content_from_text(s->arena, bytes) : NULL;
        const char *path = read_path(s, json_get(&s->doc, v, S("path")));
        if (!path || !layers || layers->type != JSON_ARRAY || !read_number(s, v, S("size"), &size))
                return NULL;
        const struct content *c = content_from_file(s->arena, path, size);
        json_each (it, &s->doc, layers) {
                struct edits *edits = arena_new(s->arena, struct edits);
                if (c->layers == CONTENT_LAYERS_MAX || !read_edits(s, it, c->size, edits))
                        return NULL;
                c = content_edited(s->arena, c, edits);
        }
        return c;
}

/* Returns whether a content has the size and the digest that the state says. */
static bool is_of(const struct content *c, const struct file_state *state)
{
        struct file_state found = { .kind = FILE_REGULAR };
        if (state->kind != FILE_REGULAR || c->size != state->size)
                return false;
        if (c->kind != CONTENT_TEXT || !state->has_digest)
                return true;
        state_set_content(&found, c->text);
        return memcmp(found.digest, state->digest, DIGEST_BYTES) == 0;
}

static bool read_change(struct source *s, const struct json *v, struct change *ret)
{
        const struct json *old = json_get(&s->doc, v, S("old")), *fresh = json_get(&s->doc, v, S("new"));
        const struct json *temp = json_get(&s->doc, v, S("temp")), *aside = json_get(&s->doc, v, S("aside"));
        *ret = (struct change){ .path = read_path(s, json_get(&s->doc, v, S("path"))),
                                .is_in_place = fresh != NULL };
        if (!ret->path || strcmp(ret->path, "/") == 0 ||
            !read_state(s, json_get(&s->doc, v, S("before")), &ret->before) ||
            !read_state(s, json_get(&s->doc, v, S("after")), &ret->after))
                return false;
        ret->shown = ret->path;
        ret->step = ret->after.kind == FILE_REGULAR ? STEP_WRITE : STEP_DELETE;
        ret->old = old ? read_content(s, old) : NULL;
        ret->fresh = fresh ? read_content(s, fresh) : NULL;
        ret->temp = temp ? read_path(s, temp) : NULL;
        ret->aside = aside ? read_path(s, aside) : NULL;
        if ((old && (!ret->old || !is_of(ret->old, &ret->before))) ||
            (fresh && (!ret->fresh || !is_of(ret->fresh, &ret->after))))
                return false;
        return (!temp || (ret->temp && change_is_temp_path(ret->temp, ret->path))) &&
               (!aside || (ret->aside && change_is_temp_path(ret->aside, ret->path)));
}

static bool read_lists(struct source *s, struct changes *ret)
{
        const struct json *root = json_root(&s->doc), *undo = json_get(&s->doc, root, S("isUndo"));
        const struct json *directories = json_get(&s->doc, root, S("directories"));
        const struct json *changes = json_get(&s->doc, root, S("changes"));
        uint64_t version = 0;
        *ret = (struct changes){ .cwd = read_path(s, json_get(&s->doc, root, S("cwd"))),
                                 .is_undo = undo && undo->type == JSON_TRUE };
        if (!ret->cwd || !read_number(s, root, S("version"), &version) || version != VERSION ||
            !directories || directories->type != JSON_ARRAY || !changes || changes->type != JSON_ARRAY)
                return false;
        ret->directories =
                arena_alloc(s->arena, json_count(&s->doc, directories) * sizeof(*ret->directories) + 1);
        ret->list = arena_alloc(s->arena, json_count(&s->doc, changes) * sizeof(*ret->list) + 1);
        json_each (it, &s->doc, directories) {
                const char *path = read_path(s, it);
                if (!path)
                        return false;
                ret->directories[ret->directory_count++] = (struct change_directory){ path, path };
        }
        json_each (it, &s->doc, changes)
                if (!read_change(s, it, &ret->list[ret->count++]))
                        return false;
        return true;
}

int record_read(struct arena *a, struct slice text, struct changes *ret)
{
        struct source s = { .arena = a };
        struct json_error bad;
        if (json_parse(a, text, &s.doc, &bad) < 0)
                return -EINVAL;
        return read_lists(&s, ret) ? 0 : -EINVAL;
}
