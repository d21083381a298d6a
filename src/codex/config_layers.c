/* config_layers: reads the configuration files of Codex that apply to a directory. */
#include "codex/config_layers.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"
#include "fsop/fsop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <unistd.h>

/* Keys that a project may not set, because they would send the user's prompts or API keys to another server. */
static const struct slice not_for_projects[] = {
        S("model_provider"),
        S("model_providers"),
        S("notify"),
        S("otel"),
        S("profile"),
        S("profiles"),
        S("openai_base_url"),
        S("chatgpt_base_url"),
        S("experimental_realtime_ws_base_url"),
        S("apps_mcp_product_sku"),
};

struct layer_reader {
        struct arena *arena;
        size_t left; /* how many more bytes may be read: parsed, they take a hundred times as much memory */
        struct err *err;
};

static struct layer_reader layer_reader_new(struct arena *a, struct err *err)
{
        return (struct layer_reader){ .arena = a, .left = LIMIT_CONFIG_BYTES, .err = err };
}

/* Reads and parses a file. *ret is NULL when the file does not exist. */
static int read_file(struct layer_reader *rd, const char *path, const struct toml **ret)
{
        struct arena *a = rd->arena;
        struct err *err = rd->err;
        _buf_ struct buf text = BUF_INIT(LIMIT_CONFIG_BYTES);
        _close_ int fd = -1;
        struct stat st;

        *ret = NULL;
        int r = fsop_open_regular(path, true, &fd, &st, err);
        if (r == -ENOENT)
                return 0;
        if (r == 0)
                r = fd_read_rest(fd, rd->left, &text);
        rd->left -= text.n;
        if (r == -EFBIG)
                (void)err_set(err, 0, r, "with the files before it, it has more than %d bytes",
                              LIMIT_CONFIG_BYTES);
        else if (r < 0 && !err->code)
                (void)fsop_fail(err, r);
        if (r == 0) {
                *ret = toml_parse(a, slice_from(arena_dup(a, buf_slice(&text)), text.n), err);
                r = *ret ? 0 : err->code ? err->code : -EINVAL;
        }
        return r < 0 ? err_wrap(err, "%s", path) : 0;
}

static void add(struct arena *a, struct config_layers *l, const struct config_layer *layer)
{
        if (!layer->table)
                return;
        l->list = arena_grow(a, l->list, l->count * sizeof(*l->list), (l->count + 1) * sizeof(*l->list));
        l->list[l->count++] = *layer;
}

static int read_layer(struct layer_reader *rd, const char *kind, const char *directory, const char *name,
                      struct config_layer *ret)
{
        const char *path = arena_printf(rd->arena, "%s/%s", directory, name);

        *ret = (struct config_layer){
                .source = kind ? arena_printf(rd->arena, "%s (%s)", kind, path) : path,
                .directory = directory,
        };
        return read_file(rd, path, &ret->table);
}

/* ---- the layers of a project */

/* Returns the value of the key in the layer of highest precedence that has it, or NULL. */
static const struct toml *strongest(const struct config_layer *const *layers, size_t count, struct slice key)
{
        for (size_t i = count; i-- > 0;) {
                const struct toml *found = layers[i]->table ? toml_find(layers[i]->table, key) : NULL;
                if (found)
                        return found;
        }
        return NULL;
}

enum trust { TRUST_UNSAID, TRUST_YES, TRUST_NO };

static enum trust trust_of(const struct config_layer *const *layers, size_t count, struct slice directory)
{
        for (size_t i = count; i-- > 0;) {
                const struct toml *t = layers[i]->table ? toml_find(layers[i]->table, S("projects")) : NULL;
                t = t && t->type == TOML_TABLE ? toml_find(t, directory) : NULL;
                t = t && t->type == TOML_TABLE ? toml_find(t, S("trust_level")) : NULL;
                if (t && t->type == TOML_STRING)
                        return slice_eq(t->string, S("trusted")) ? TRUST_YES : TRUST_NO;
        }
        return TRUST_UNSAID;
}

static bool has_entry(struct slice directory, struct slice name)
{
        char path[PATH_MAX];
        struct stat st;

        if (name.n == 0 || slice_has_nul(name) || directory.n + 1 + name.n >= sizeof(path))
                return false;
        (void)snprintf(path, sizeof(path), "%.*s/%.*s", SLICE(directory), SLICE(name));
        return lstat(path, &st) == 0;
}

static bool has_marker(struct slice directory, const struct toml *markers)
{
        if (!markers || markers->type != TOML_ARRAY)
                return has_entry(directory, S(".git"));
        for (const struct toml *m = markers->first; m; m = m->next)
                if (m->type == TOML_STRING && has_entry(directory, m->string))
                        return true;
        return false;
}

static int check_markers(const struct toml *markers, struct err *err)
{
        size_t n = 0;

        for (const struct toml *m = markers && markers->type == TOML_ARRAY ? markers->first : NULL; m;
             m = m->next)
                n++;
        return n <= LIMIT_CONFIG_MARKERS
                       ? 0
                       : err_set(err, 0, -E2BIG, "project_root_markers has more than %d names",
                                 LIMIT_CONFIG_MARKERS);
}

/* Returns the length of the part of the path that is the project's root: the nearest directory with a marker, else the whole path.
 * For "/" it is 0. */
static size_t root_length(struct slice cwd, const struct toml *markers)
{
        for (struct slice at = cwd;;) {
                if (has_marker(at, markers))
                        return at.n;
                if (at.n == 0)
                        return cwd.n;
                while (at.p[--at.n] != '/')
                        ;
        }
}

static const struct toml *without_forbidden(struct arena *a, const struct toml *table)
{
        struct toml *kept = arena_new(a, struct toml), **end = &kept->first;

        *kept = *table;
        kept->first = NULL;
        for (const struct toml *m = table->first; m; m = m->next) {
                bool is_forbidden = false;
                for (size_t i = 0; i < ARRAY_LEN(not_for_projects); i++)
                        is_forbidden = is_forbidden || slice_eq(m->key, not_for_projects[i]);
                if (is_forbidden)
                        continue;
                struct toml *copy = arena_new(a, struct toml);
                *copy = *m;
                copy->next = NULL;
                *end = copy;
                end = &copy->next;
        }
        return kept;
}

static int add_project(struct layer_reader *rd, const struct config_place *place, struct slice directory,
                       struct config_layers *ret)
{
        const char *codex = arena_printf(rd->arena, "%.*s/.codex", SLICE(directory));
        struct config_layer layer;

        if (strcmp(codex, place->home) == 0) /* read already as the user's layer */
                return 0;
        int r = read_layer(rd, "project", codex, "config.toml", &layer);
        if (r == -ENOTDIR) /* .codex is not a directory */
                return 0;
        if (r == 0 && layer.table) {
                layer.table = without_forbidden(rd->arena, layer.table);
                add(rd->arena, ret, &layer);
        }
        return r;
}

static int add_projects(struct layer_reader *rd, const struct config_place *place,
                        const struct config_layer *const *others, size_t count, struct config_layers *ret)
{
        struct slice cwd = slice_from_str(place->cwd);

        if (cwd.n == 1) /* "/" becomes "", so that a slash can follow as after any other directory */
                cwd.n = 0;
        const struct toml *markers = strongest(others, count, S("project_root_markers"));
        if (check_markers(markers, rd->err) < 0)
                return -E2BIG;
        size_t root = root_length(cwd, markers);
        enum trust root_trust = trust_of(others, count, root ? slice_from(cwd.p, root) : S("/"));

        for (size_t n = root; n <= cwd.n; n++) {
                if (n < cwd.n && cwd.p[n] != '/')
                        continue;
                enum trust own = trust_of(others, count, n ? slice_from(cwd.p, n) : S("/"));
                bool is_trusted = (own == TRUST_UNSAID ? root_trust : own) == TRUST_YES;
                int r = is_trusted ? add_project(rd, place, slice_from(cwd.p, n), ret) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- all layers */

int fsop_config_layers(struct arena *a, const struct config_place *place, struct config_layers *ret,
                       struct err *err)
{
        struct config_layer system, user, managed;
        const struct config_layer *const others[] = { &system, &user, &managed };
        struct layer_reader rd = layer_reader_new(a, err);

        *ret = (struct config_layers){ 0 };
        int r = read_layer(&rd, "system", place->system, "config.toml", &system);
        if (r == 0)
                r = read_layer(&rd, "user", place->home, "config.toml", &user);
        if (r == 0)
                r = read_layer(&rd, "legacy managed_config.toml", place->system, "managed_config.toml",
                               &managed);
        if (r < 0)
                return r;
        system.is_system = true;
        add(a, ret, &system);
        add(a, ret, &user);
        r = add_projects(&rd, place, others, ARRAY_LEN(others), ret);
        add(a, ret, &managed);
        return r;
}

int fsop_requirement_layers(struct arena *a, const struct config_place *place, struct config_layers *ret,
                            struct err *err)
{
        struct config_layer layer;
        struct layer_reader rd = layer_reader_new(a, err);

        *ret = (struct config_layers){ 0 };
        int r = read_layer(&rd, NULL, place->system, "requirements.toml", &layer);
        layer.is_system = true;
        add(a, ret, &layer);
        return r;
}
