/* discover: finds and reads plugins and skills below a root.
 *
 * Files are read in a fixed order: the root's own plugin, manifests, skills. Warnings have the same order, and when the files of a
 * root are too large together, the last ones are left out.
 */
#include "codex/discover.h"

#include "base/mem.h"
#include "codex/discover_internal.h"
#include "fsop/at.h"
#include "fsop/walk.h"

#include <errno.h>

/* The most bytes of a root and a path in its manifest together; the system takes only shorter paths. */
#define DECLARED_BYTES_MAX ((size_t)64 * 1024)

/* Where the manifest of a plugin may be. The first file that can be read counts. */
static const struct slice manifest_names[] = {
        S("/.codex-plugin/plugin.json"),
        S("/.claude-plugin/plugin.json"),
        S("/.cursor-plugin/plugin.json"),
};

struct search {
        struct finder finder;
        struct discovery *ret;
        struct slice root; /* without a slash at the end: empty for "/" */
        /* The directory with the manifest of the root or of its nearest ancestor; p is NULL when there is none. */
        struct slice own;
        manifest_read read_manifest;
        size_t namespaces_room, skills_room;
};

/* A file that the walk saw. */
struct candidate {
        const char *key; /* the URI by which candidates are sorted */
        size_t rank;     /* order among candidates with the same key */
        const char *path;
};

struct candidates {
        struct candidate *items;
        size_t count, room;
};

static const char *joined(struct search *s, struct slice directory, struct slice name)
{
        return arena_printf(s->finder.arena, "%.*s%.*s", SLICE(directory), SLICE(name));
}

static bool find_manifest(struct search *s, struct slice directory, struct found_file *ret)
{
        for (size_t i = 0; i < ARRAY_LEN(manifest_names); i++)
                if (finder_find(&s->finder, joined(s, directory, manifest_names[i]), ret))
                        return true;
        return false;
}

/* Returns the path that a manifest declares, or NULL with a warning when it does not start with "./" or leads out of the root. */
static const char *declared_path(struct search *s, struct slice member, struct slice text)
{
        const char *complaint = NULL;
        _buf_ struct buf path = BUF_INIT(DECLARED_BYTES_MAX);

        if (!slice_starts(text, S("./")))
                complaint = "path must start with `./`";
        else if (text.n == 2 || text.p[2] == '/' || slice_has_nul(text) || buf_append(&path, s->root) < 0)
                complaint = "path must remain below the capability root";

        for (struct slice rest = text; !complaint && rest.n > 0;) {
                struct slice part = slice_split(&rest, '/');
                if (part.n == 0 || slice_eq(part, S(".")))
                        continue;
                if (slice_eq(part, S("..")) || buf_append_char(&path, '/') < 0 || buf_append(&path, part) < 0)
                        complaint = "path must remain below the capability root";
        }
        if (!complaint)
                return arena_dup(s->finder.arena, path.n > 0 ? buf_slice(&path) : S("/"));

        finder_warn(&s->finder, "ignoring %.*s in %s: %s", SLICE(member),
                    finder_uri(&s->finder, s->ret->manifest.path), complaint);
        return NULL;
}

/* Reads a file of the root's plugin from the path that `member` of the manifest gives, else from its usual name. */
static bool find_config(struct search *s, struct slice member, struct slice usual_name,
                        struct found_file *ret)
{
        const char *path = NULL;
        struct slice text;
        enum manifest_says says = s->read_manifest(s->finder.arena, s->ret->manifest.contents, member, &text);

        if (says == MANIFEST_OBJECT && slice_eq(member, S("mcpServers")))
                return false; /* the manifest itself contains the MCP servers */
        if (says == MANIFEST_STRING)
                path = declared_path(s, member, text);
        return finder_find(&s->finder, path ? path : joined(s, s->root, usual_name), ret);
}

static void find_plugin(struct search *s)
{
        struct discovery *d = s->ret;

        d->has_manifest = find_manifest(s, s->root, &d->manifest);
        if (!d->has_manifest)
                return;
        d->has_mcp_config = find_config(s, S("mcpServers"), S("/.mcp.json"), &d->mcp_config);
        d->has_apps_config = find_config(s, S("apps"), S("/.app.json"), &d->apps_config);
}

static int by_key(const void *x, const void *y)
{
        const struct candidate *a = x, *b = y;

        int order = strcmp(a->key, b->key);
        return order ? order : (a->rank > b->rank) - (a->rank < b->rank);
}

static void add_namespace(struct search *s, const struct found_file *file)
{
        struct discovery *d = s->ret;

        d->namespace_manifests = arena_room(s->finder.arena, d->namespace_manifests, d->namespace_count,
                                            &s->namespaces_room, sizeof(d->namespace_manifests[0]));
        d->namespace_manifests[d->namespace_count++] = *file;
}

/* Adds the manifest of the root, else of the nearest directory above it that has one. */
static void find_own_namespace(struct search *s)
{
        struct found_file file;

        if (s->ret->has_manifest) {
                s->own = s->root;
                add_namespace(s, &s->ret->manifest);
                return;
        }
        for (struct slice directory = s->root; directory.n > 0;) {
                do
                        directory.n--;
                while (directory.n > 0 && directory.p[directory.n] != '/');
                if (find_manifest(s, directory, &file)) {
                        s->own = directory;
                        add_namespace(s, &file);
                        return;
                }
        }
}

static bool ends(struct slice s, struct slice suffix)
{
        return s.n >= suffix.n && memcmp(s.p + s.n - suffix.n, suffix.p, suffix.n) == 0;
}

static void add_candidate(struct search *s, struct candidates *c, struct slice key, size_t rank,
                          struct slice path)
{
        c->items = arena_room(s->finder.arena, c->items, c->count, &c->room, sizeof(c->items[0]));
        c->items[c->count++] = (struct candidate){
                .key = finder_uri(&s->finder, key),
                .rank = rank,
                .path = path.p,
        };
}

static void sort_candidates(struct candidates *c)
{
        if (c->count > 0)
                qsort(c->items, c->count, sizeof(c->items[0]), by_key);
}

/* Adds the manifests that the walk found. Only the first in each directory is tried, even if it cannot be read. */
static void find_namespaces(struct search *s, const struct walk_result *walk)
{
        struct candidates c = { 0 };
        struct found_file file;

        for (size_t i = 0; i < walk->count; i++) {
                struct slice path = walk->items[i].path;
                for (size_t k = 0; !walk->items[i].is_directory && k < ARRAY_LEN(manifest_names); k++)
                        if (ends(path, manifest_names[k]))
                                add_candidate(s, &c, slice_from(path.p, path.n - manifest_names[k].n), k,
                                              path);
        }
        sort_candidates(&c);

        const char *own = s->own.p ? finder_uri(&s->finder, s->own) : "";
        for (size_t i = 0; i < c.count; i++) {
                bool is_first = i == 0 || strcmp(c.items[i].key, c.items[i - 1].key) != 0;
                bool is_own = strcmp(c.items[i].key, own) == 0;
                if (is_first && !is_own && finder_find(&s->finder, c.items[i].path, &file))
                        add_namespace(s, &file);
        }
}

static void find_skills(struct search *s, const struct walk_result *walk)
{
        struct discovery *d = s->ret;
        struct slice name = S("/SKILL.md");
        struct candidates c = { 0 };

        for (size_t i = 0; i < walk->count; i++)
                if (!walk->items[i].is_directory && ends(walk->items[i].path, name))
                        add_candidate(s, &c, walk->items[i].path, 0, walk->items[i].path);
        sort_candidates(&c);

        for (size_t i = 0; i < c.count; i++) {
                struct found_skill skill = { 0 };
                if (!finder_find(&s->finder, c.items[i].path, &skill.instructions))
                        continue;

                struct slice directory = skill.instructions.path;
                directory.n -= name.n;
                skill.has_metadata = finder_find(&s->finder, joined(s, directory, S("/agents/openai.yaml")),
                                                 &skill.metadata);
                d->skills = arena_room(s->finder.arena, d->skills, d->skill_count, &s->skills_room,
                                       sizeof(d->skills[0]));
                d->skills[d->skill_count++] = skill;
        }
}

/* Walks the root. Returns the reason why it cannot be used, or NULL when it can. */
static const char *root_error(struct search *s, struct walk_result *ret_walk)
{
        static const struct walk_options options = {
                .max_depth = DISCOVER_DEPTH,
                .max_directories = DISCOVER_DIRECTORIES,
                .max_entries = DISCOVER_ENTRIES,
                .follows_directory_links = true,
        };
        struct arena *a = s->finder.arena;
        const char *path = s->root.n > 0 ? arena_dup(a, s->root) : "/",
                   *uri = finder_uri(&s->finder, s->root);
        struct err err = ERR_INIT;
        struct stat st;

        if (at_stat(AT_FDCWD, path, &st, 0) < 0) {
                fsop_fail(&err, errno);
                return arena_printf(a, "failed to inspect capability root %s: %s", uri, err.text);
        }
        if (!S_ISDIR(st.st_mode))
                return arena_printf(a, "capability root %s is not a directory", uri);
        if (fsop_walk(a, path, &options, ret_walk, &err) < 0)
                return arena_printf(a, "failed to inspect capability root %s: %s", uri, err.text);
        return NULL;
}

static void report_walk(struct search *s, const struct walk_result *walk)
{
        for (size_t i = 0; i < walk->error_count; i++)
                finder_warn(&s->finder, "failed to scan capability path %s: %s",
                            finder_uri(&s->finder, walk->errors[i].path), walk->errors[i].message);
        if (walk->is_truncated)
                finder_warn(&s->finder, "capability scan reached its traversal limit (root: %s)",
                            finder_uri(&s->finder, s->root));
}

static void search_release(struct search *s)
{
        finder_release(&s->finder);
}

void fsop_discover(struct arena *a, const char *root, manifest_read read_manifest, struct discovery *ret)
{
        CLEANUP(search_release)
        struct search s = {
                .ret = ret,
                .root = slice_from_str(root),
                .read_manifest = read_manifest,
        };
        struct walk_result walk;

        *ret = (struct discovery){ 0 };
        finder_init(&s.finder, a);
        while (s.root.n > 0 && s.root.p[s.root.n - 1] == '/')
                s.root.n--;

        ret->error = root_error(&s, &walk);
        if (ret->error)
                return;
        report_walk(&s, &walk);
        find_plugin(&s);
        find_own_namespace(&s);
        find_namespaces(&s, &walk);
        find_skills(&s, &walk);
        ret->warnings = s.finder.warnings;
        ret->warning_count = s.finder.warning_count;
}
