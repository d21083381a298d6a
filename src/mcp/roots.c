/* roots: reads the answer to roots/list. */
#include "mcp/roots.h"

#include "base/limits.h"
#include "base/uri.h"

/* Returns the path that a root names; NULL: none that can be a workspace. */
static const char *read_root(struct arena *a, const struct json_doc *d, const struct json *root)
{
        const struct json *uri = json_get(d, root, S("uri"));
        struct slice path;
        if (!uri || uri->type != JSON_STRING)
                return NULL;
        struct slice text = json_string(a, d, uri);
        if (!slice_starts(text, S("file:")) || slice_has_nul(text) || text.n > LIMIT_UNIFIED_PATH_BYTES)
                return NULL;
        if (uri_to_path(a, text, &path, NULL) != URI_OK || path.n < 2 || slice_has_nul(path))
                return NULL;
        return arena_dup(a, path);
}

const char *const *roots_read(struct arena *a, const struct json_doc *d, const struct json *result)
{
        const struct json *list = json_get(d, result, S("roots"));
        const char **paths = arena_zalloc(a, (LIMIT_MCP_ROOTS + 1) * sizeof(*paths));
        size_t count = 0;
        if (!list || list->type != JSON_ARRAY)
                return NULL;
        json_each (root, d, list) {
                const char *path = count < LIMIT_MCP_ROOTS ? read_root(a, d, root) : NULL;
                if (path)
                        paths[count++] = path;
        }
        return count > 0 ? paths : NULL;
}
