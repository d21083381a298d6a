/* fs_tree: `farhand fs tree`: what is below a directory, by one request. */
#include "farfs/fs.h"

#include "base/mem.h"
#include "base/printable.h"
#include "base/uri.h"
#include "wire/json.h"

#define DEPTH_MAX 64 /* the largest depth of fs/walk */
#define ANSWER_MAX ((size_t)64 * 1024 * 1024)

struct node {
        const char *path; /* the path relative to the root */
        const char *name; /* the last part of the path */
        unsigned depth;   /* 0: the name is in the root itself */
        bool is_directory;
        bool has_sibling; /* another name follows in the same directory */
};

struct tree {
        struct fs fs;
        bool is_json, with_hidden;
        uint64_t depth;
        struct arena arena;
        struct buf text;
        struct json_doc doc;
        struct node *nodes;
        size_t count;
};

/* Orders names as a tree is shown: the names in a directory follow the directory, sorted by bytes. */
static int compare(const void *a, const void *b)
{
        const unsigned char *p = (const unsigned char *)((const struct node *)a)->path;
        const unsigned char *q = (const unsigned char *)((const struct node *)b)->path;
        while (*p && *p == *q)
                p++, q++;
        int x = *p == '/' ? 1 : *p ? *p + 2 : 0, y = *q == '/' ? 1 : *q ? *q + 2 : 0;
        return x - y;
}

static int walk(struct tree *t, const char *root, struct farhand_error *ret_error)
{
        _free_ char *path = farhand_path_json(t->fs.client, root);
        if (!path)
                return -1;
        _free_ char *params = mem_printf(
                "{\"path\":%s,\"options\":{\"maxDepth\":%ju,\"maxDirectories\":10000,\"maxEntries\":50000,"
                "\"followDirectorySymlinks\":false,\"pruneHiddenDirectories\":%s}}",
                path, (uintmax_t)t->depth - 1, t->with_hidden ? "false" : "true");
        _free_ char *result = NULL;
        struct json_error bad;
        int r = farhand_call_wait(t->fs.client, "fs/walk", params, FARHAND_REPEAT, -1, &result, ret_error);
        if (r < 0)
                return r;
        if (buf_append(&t->text, slice_from_str(result)) < 0 ||
            json_parse(&t->arena, buf_slice(&t->text), &t->doc, &bad) < 0) {
                (void)snprintf(ret_error->text, sizeof(ret_error->text), "the answer makes no sense");
                return -1;
        }
        return 0;
}

/* Returns the path of an entry relative to the root, or NULL when the entry is not below the root, or is hidden. */
static const char *below(struct tree *t, const struct json *entry, size_t root_bytes)
{
        const struct json *uri = json_get(&t->doc, entry, S("path"));
        struct slice path;
        if (!uri || uri->type != JSON_STRING ||
            uri_to_path(&t->arena, json_string(&t->arena, &t->doc, uri), &path, NULL) != URI_OK ||
            path.n <= root_bytes)
                return NULL;
        const char *rest = path.p + root_bytes;
        if (*rest == '/')
                rest++;
        return !t->with_hidden && (rest[0] == '.' || strstr(rest, "/.")) ? NULL : rest;
}

static unsigned depth_of(const char *path)
{
        unsigned n = 0;
        for (; *path; path++)
                n += *path == '/';
        return n;
}

static void make_nodes(struct tree *t, size_t root_bytes)
{
        const struct json *entries = json_get(&t->doc, json_root(&t->doc), S("entries"));
        if (!entries || entries->type != JSON_ARRAY)
                return;
        t->nodes = arena_alloc(&t->arena, (json_count(&t->doc, entries) + 1) * sizeof(*t->nodes));
        json_each (it, &t->doc, entries) {
                const struct json *kind = json_get(&t->doc, it, S("kind"));
                const char *path = below(t, it, root_bytes);
                if (!path || depth_of(path) >= DEPTH_MAX)
                        continue;
                const char *slash = strrchr(path, '/');
                t->nodes[t->count++] = (struct node){
                        .path = path,
                        .name = slash ? slash + 1 : path,
                        .depth = depth_of(path),
                        .is_directory = kind && slice_eq(json_raw(&t->doc, kind), S("directory")),
                };
        }
        qsort(t->nodes, t->count, sizeof(*t->nodes), compare);
        /* Goes from the last node to the first. `seen` says for each depth whether a later node of the same directory was seen. */
        bool seen[DEPTH_MAX + 1] = { 0 };
        for (size_t i = t->count; i-- > 0;) {
                unsigned depth = t->nodes[i].depth;
                t->nodes[i].has_sibling = seen[depth];
                seen[depth] = true;
                memset(seen + depth + 1, 0, DEPTH_MAX - depth);
        }
}

/* Prints on stderr which directories were not listed. */
static void complain(struct tree *t, const char *given)
{
        const struct json *errors = json_get(&t->doc, json_root(&t->doc), S("errors"));
        const struct json *truncated = json_get(&t->doc, json_root(&t->doc), S("truncated"));
        if (errors && errors->type == JSON_ARRAY) {
                json_each (it, &t->doc, errors) {
                        const struct json *uri = json_get(&t->doc, it, S("path"));
                        const struct json *message = json_get(&t->doc, it, S("message"));
                        struct farhand_error error = { .rpc_code = -32603 };
                        struct slice path;
                        if (!uri || uri->type != JSON_STRING || !message || message->type != JSON_STRING ||
                            uri_to_path(&t->arena, json_string(&t->arena, &t->doc, uri), &path, NULL) !=
                                    URI_OK)
                                continue;
                        (void)snprintf(error.text, sizeof(error.text), "%.*s",
                                       SLICE(json_string(&t->arena, &t->doc, message)));
                        fs_complain(&t->fs, path.p, &error);
                }
        }
        if (truncated && truncated->type == JSON_TRUE) {
                struct farhand_error error = { .text = "there is more than a server tells at once" };
                fs_complain(&t->fs, given, &error);
        }
}

static void print_json(const struct node *n, const char *root)
{
        _buf_ struct buf text = BUF_INIT(FS_JSON_MAX);
        _free_ char *path = mem_printf("%s/%s", strcmp(root, "/") == 0 ? "" : root, n->path);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "name", n->name);
        fs_json_path(&w, "path", path);
        jsonw_member_str(&w, "kind", n->is_directory ? "directory" : "file");
        jsonw_member_u64(&w, "depth", n->depth + 1);
        jsonw_object_end(&w);
        fs_json_line(&w, &text);
}

static void print_nodes(struct tree *t, const char *given, const char *root)
{
        bool goes_on[DEPTH_MAX + 1] = { 0 }; /* for each depth: whether more names follow in that directory */
        size_t directories = 0;
        if (!t->is_json) {
                fs_print_name(&t->fs, given, FS_DIRECTORY);
                putchar('\n');
        }
        for (size_t i = 0; i < t->count; i++) {
                const struct node *n = &t->nodes[i];
                directories += n->is_directory;
                if (t->is_json) {
                        print_json(n, root);
                        continue;
                }
                for (unsigned d = 0; d < n->depth; d++)
                        printf("%s", goes_on[d] ? "\u2502   " : "    ");
                printf("%s", n->has_sibling ? "\u251c\u2500\u2500 " : "\u2514\u2500\u2500 ");
                fs_print_name(&t->fs, n->name, n->is_directory ? FS_DIRECTORY : FS_FILE);
                putchar('\n');
                goes_on[n->depth] = n->has_sibling;
        }
        if (!t->is_json)
                printf("\n%zu %s, %zu %s\n", directories, directories == 1 ? "directory" : "directories",
                       t->count - directories, t->count - directories == 1 ? "file" : "files");
}

static void show(struct tree *t, const char *given)
{
        struct farhand_error error = { 0 };
        struct farhand_metadata m;
        _free_ char *root = NULL;
        const char *path = fs_path(&t->fs, given);
        if (!path)
                return;
        /* fs/walk does not follow links, not even when its own path is a link: so the path is resolved first. */
        if (farhand_canonicalize(t->fs.client, path, &root, &error) < 0 ||
            farhand_stat(t->fs.client, root, &m, &error) < 0) {
                fs_complain(&t->fs, given, &error);
                return;
        }
        if (!m.is_directory) {
                fs_complain(&t->fs, given, &(struct farhand_error){ .text = "Not a directory" });
                return;
        }
        if (walk(t, root, &error) < 0) {
                fs_complain(&t->fs, given, &error);
                return;
        }
        make_nodes(t, strlen(root));
        print_nodes(t, given, root);
        complain(t, given);
}

int fs_tree(int argc, char **argv)
{
        struct tree t = { .depth = DEPTH_MAX, .text = BUF_INIT(ANSWER_MAX) };
        const struct arg table[] = {
                REMOTE_ARGS(&t.fs.remote),
                { "level", ARG_U64, "DEPTH", "go so deep and no deeper", .letter = 'L', .target = &t.depth,
                  .min = 1, .max = DEPTH_MAX },
                { "all", ARG_FLAG, NULL, "also names that begin with a dot", .letter = 'a',
                  .target = &t.with_hidden },
                { "json", ARG_FLAG, NULL, "a JSON object per line", .target = &t.is_json },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs tree [OPTIONS] [PATH]",
                                   .about = "Show the files and directories below a directory.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_DIRECTORY };
        int rest = 0, code = fs_begin(&t.fs, &spec, argc, argv, 0, 1, &rest);
        if (code < 0)
                show(&t, rest < argc ? argv[rest] : ".");
        code = fs_end(&t.fs, code);
        buf_release(&t.text);
        arena_release(&t.arena);
        return code;
}
