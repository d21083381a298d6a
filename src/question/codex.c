/* codex: what Codex keeps on the server's machine: its configuration, and the plugins and skills below directories. */
#include "question/question.h"

#include "client/error.h"
#include "client/member.h"

#include <errno.h>

#define KEYS_MAX 256  /* in one list of a question */
#define ROOTS_MAX 128 /* in one question */

/* What one text of the program takes at most in the request. */
static size_t room_of(const char *text)
{
        return jsonw_string_max(slice_from_str(text)) + 16;
}

/* ---- configuration ---- */

static int write_keys(struct question *q, const char *member, const char *const *const *keys, size_t count,
                      struct farhand_error *ret_error)
{
        if (count > KEYS_MAX)
                return error_set(ret_error, -EINVAL, "at most %d keys can be asked for", KEYS_MAX);
        jsonw_key(&q->w, member);
        jsonw_array(&q->w);
        for (size_t i = 0; i < count; i++) {
                jsonw_array(&q->w);
                for (const char *const *part = keys[i]; part && *part; part++) {
                        question_make_room(q, room_of(*part));
                        jsonw_str(&q->w, *part);
                }
                jsonw_array_end(&q->w);
        }
        jsonw_array_end(&q->w);
        return 0;
}

/* Reads layers into the arena. Returns false when they make no sense: a client that left one out would read another configuration. */
static bool read_stack(struct question *q, struct slice key, struct farhand_config_stack *ret)
{
        const struct json *stack = json_get(&q->doc, question_root(q), key);
        const struct json *list = json_get(&q->doc, stack, S("layers"));
        uint64_t system_count;
        if (!list || list->type != JSON_ARRAY ||
            !member_u64(&q->doc, stack, S("cloudInsertionIndex"), &system_count))
                return false;
        struct farhand_config_layer *layers =
                arena_alloc(&q->arena, (json_count(&q->doc, list) + 1) * sizeof(*layers));
        *ret = (struct farhand_config_stack){ .layers = layers };
        json_each (it, &q->doc, list) {
                struct farhand_config_layer layer = {
                        .source = member_text(&q->arena, &q->doc, it, S("source")),
                        .base_dir = member_path(&q->arena, &q->doc, it, S("baseDir")),
                        .toml = member_text(&q->arena, &q->doc, it, S("toml")),
                };
                if (!layer.source || !layer.base_dir || !layer.toml)
                        return false;
                layers[ret->count++] = layer;
        }
        ret->system_count = (size_t)system_count;
        return system_count <= ret->count;
}

int farhand_config_read(struct farhand *f, const struct farhand_config_query *given,
                        void (*on_config)(void *arg, const struct farhand_config *config), void *arg,
                        struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        struct farhand_config_query query = { 0 };
        struct farhand_config config;
        memcpy(&query, given, MIN(given->size, sizeof(query)));
        if (!query.cwd || query.config_count + query.requirement_count == 0)
                return error_set(ret_error, -EINVAL, "a directory and at least one key are needed");
        int r = question_needs(f, "environmentConfigRead", "this server has no environmentConfigRead",
                               ret_error);
        if (r < 0)
                return r;
        question_begin(&q, f, "environmentConfig/read", FARHAND_REPEAT);
        r = question_path(&q, "cwd", query.cwd, ret_error);
        if (r == 0)
                r = write_keys(&q, "configPaths", query.config, query.config_count, ret_error);
        if (r == 0)
                r = write_keys(&q, "requirementsPaths", query.requirements, query.requirement_count,
                               ret_error);
        r = r < 0 ? r : question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *root = question_root(&q);
        config =
                (struct farhand_config){ .home = member_path(&q.arena, &q.doc, root, S("userHomeDir")),
                                         .codex_home = member_path(&q.arena, &q.doc, root, S("codexHomeDir")),
                                         .hostname = member_text(&q.arena, &q.doc, root, S("hostname")) };
        if (!read_stack(&q, S("config"), &config.config) ||
            !read_stack(&q, S("requirements"), &config.requirements))
                return error_set(ret_error, -EPROTO, "the server's answer has layers that make no sense");
        on_config(arg, &config);
        return 0;
}

/* ---- plugins and skills ---- */

static const struct farhand_root *root_at(const struct farhand_root *roots, size_t i)
{
        return (const struct farhand_root *)(const void *)((const char *)roots + i * roots->size);
}

static int check_roots(const struct farhand *f, const struct farhand_root *roots, size_t count,
                       struct farhand_error *ret_error)
{
        if (count > ROOTS_MAX)
                return error_set(ret_error, -EINVAL, "at most %d roots can be searched at once", ROOTS_MAX);
        for (size_t i = 0; i < count; i++) {
                const struct farhand_root *root = root_at(roots, i);
                if (roots->size < sizeof(*roots) || roots->size % sizeof(size_t) != 0 ||
                    root->size != roots->size)
                        return error_set(ret_error, -EINVAL,
                                         "struct farhand_root has no size, or not always the same");
                if (!root->id || !root->path || root->path[0] != '/')
                        return error_set(ret_error, -EINVAL, "a root has no id or no absolute path");
                int r = root->sandbox ? question_needs(f, "capabilityDiscoverySandbox",
                                                       "this server searches roots without a sandbox only",
                                                       ret_error)
                                      : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

static void write_root(struct question *q, const struct farhand_root *root)
{
        question_make_room(q, room_of(root->id) + room_of(root->path) +
                                      (root->sandbox ? strlen(root->sandbox) : 0) + 64);
        jsonw_object(&q->w);
        jsonw_member_str(&q->w, "id", root->id);
        (void)question_path(q, "path", root->path,
                            NULL); /* cannot fail: check_roots has checked that the path is absolute */
        client_sandbox_write(&q->w, root->sandbox);
        jsonw_object_end(&q->w);
}

static struct farhand_found_file file_of(struct question *q, const struct json *object)
{
        struct slice content = member_string(&q->arena, &q->doc, object, S("contents"));
        struct farhand_found_file file = { .path = member_path(&q->arena, &q->doc, object, S("path")) };
        if (!file.path || !content.p)
                return (struct farhand_found_file){ 0 };
        file.content = arena_dup(&q->arena, content);
        file.n = content.n;
        return file;
}

/* Returns a member that is an array, and how much room its elements need; NULL when there is none. */
static const struct json *array_of(struct question *q, const struct json *object, struct slice key,
                                   size_t *ret_max)
{
        const struct json *array = json_get(&q->doc, object, key);
        bool is_array = array && array->type == JSON_ARRAY;
        *ret_max = is_array ? json_count(&q->doc, array) + 1 : 1;
        return is_array ? array : NULL;
}

static void read_skills(struct question *q, const struct json *object, struct farhand_found_root *ret)
{
        size_t max;
        const struct json *array = array_of(q, object, S("skills"), &max);
        struct farhand_found_skill *skills = arena_alloc(&q->arena, max * sizeof(*skills));
        ret->skills = skills;
        if (array) {
                json_each (it, &q->doc, array) {
                        struct farhand_found_skill skill = {
                                .instructions = file_of(q, json_get(&q->doc, it, S("instructions"))),
                                .metadata = file_of(q, json_get(&q->doc, it, S("metadata")))
                        };
                        if (skill.instructions.path)
                                skills[ret->skill_count++] = skill;
                }
        }
}

static void read_manifests(struct question *q, const struct json *object, struct farhand_found_root *ret)
{
        size_t max;
        const struct json *array = array_of(q, object, S("namespaceManifests"), &max);
        struct farhand_found_file *files = arena_alloc(&q->arena, max * sizeof(*files));
        ret->namespace_manifests = files;
        if (array) {
                json_each (it, &q->doc, array) {
                        struct farhand_found_file file = file_of(q, it);
                        if (file.path)
                                files[ret->namespace_manifest_count++] = file;
                }
        }
}

static void read_warnings(struct question *q, const struct json *object, struct farhand_found_root *ret)
{
        size_t max, n = 0;
        const struct json *array = array_of(q, object, S("warnings"), &max);
        const char **warnings = arena_alloc(&q->arena, max * sizeof(*warnings));
        if (array) {
                json_each (it, &q->doc, array) {
                        struct slice text = it->type == JSON_STRING ? json_string(&q->arena, &q->doc, it)
                                                                    : (struct slice){ 0 };
                        if (text.p && !slice_has_nul(text))
                                warnings[n++] = arena_dup(&q->arena, text);
                }
        }
        warnings[n] = NULL;
        ret->warnings = warnings;
}

static void read_root(struct question *q, const struct json *o, const char *id,
                      struct farhand_found_root *ret)
{
        const struct json *plugin = json_get(&q->doc, o, S("plugin"));
        *ret = (struct farhand_found_root){
                .id = id,
                .error = member_text(&q->arena, &q->doc, o, S("error")),
                .plugin = file_of(q, json_get(&q->doc, plugin, S("manifest"))),
                .mcp_config = file_of(q, json_get(&q->doc, plugin, S("mcpConfig"))),
                .apps_config = file_of(q, json_get(&q->doc, plugin, S("appsConfig"))),
        };
        read_skills(q, o, ret);
        read_manifests(q, o, ret);
        read_warnings(q, o, ret);
}

int farhand_discover_roots(struct farhand *f, const struct farhand_root *roots, size_t count,
                           void (*on_root)(void *arg, size_t index, const struct farhand_found_root *root),
                           void *arg, struct farhand_error *ret_error)
{
        _question_ struct question q = QUESTION_INIT;
        int r = check_roots(f, roots, count, ret_error);
        if (r < 0 || count == 0)
                return r;
        question_begin(&q, f, "capabilityRoots/discoverV1", FARHAND_REPEAT);
        jsonw_key(&q.w, "roots");
        jsonw_array(&q.w);
        for (size_t i = 0; i < count; i++)
                write_root(&q, root_at(roots, i));
        jsonw_array_end(&q.w);
        r = question_ask(&q, ret_error);
        if (r < 0)
                return r;
        const struct json *found = question_array(&q, S("roots"), ret_error);
        if (!found)
                return -EPROTO;
        if (json_count(&q.doc, found) != count)
                return error_set(ret_error, -EPROTO, "the server did not answer for each root");
        size_t i = 0;
        json_each (it, &q.doc, found) {
                struct farhand_found_root root;
                read_root(&q, it, root_at(roots, i)->id, &root);
                on_root(arg, i++, &root);
        }
        return 0;
}
