/* rows_trees: directories and trees: listed, walked, copied, removed. The content of answers is checked once; later answers are
 * only counted. */
#include "base/mem.h"
#include "machine_files.h"
#include "procinfo.h"
#include "rows_files.h"

#include <errno.h>
#include <sys/stat.h>

static int prepare_tree(const char *dir, const struct tree *tree, struct err *err)
{
        _free_ char *root = mem_printf("%s/" TREE_IN, dir);
        return mkdir(root, 0755) < 0 ? files_failed(err, root) : tree_make(root, tree, err);
}

static int prepare_flat(const char *dir, UNUSED size_t bytes, struct err *err)
{
        return prepare_tree(dir, &tree_flat, err);
}

static int prepare_walked(const char *dir, UNUSED size_t bytes, struct err *err)
{
        return prepare_tree(dir, &tree_walked, err);
}

static int prepare_copied(const char *dir, UNUSED size_t bytes, struct err *err)
{
        return prepare_tree(dir, &tree_copied, err);
}

/* --- listings ----------------------------------------------------------------------------------------------------- */

static size_t occurrences(struct slice text, struct slice word)
{
        size_t n = 0;
        for (const char *p = text.p; (p = memmem(p, (size_t)(text.p + text.n - p), word.p, word.n));
             p += word.n)
                n++;
        return n;
}

/* Checks the first answer: it must contain `word` once for each entry. Later answers must have as many bytes. */
static int listing_check(struct client *c, struct slice request, struct slice word, size_t entries,
                         size_t *ret_bytes, struct err *err)
{
        struct slice message;
        int r = client_send_prepared(c, request, err);
        if (r == 0)
                r = client_next(c, &message, err);
        if (r < 0)
                return r;
        size_t n = occurrences(message, word);
        if (n != entries || message_has(message, S("\"truncated\":true")))
                return err_set(err, 0, -EPROTO, "%zu entries, not %zu: %.*s", n, entries,
                               (int)MIN(message.n, 200), message.p);
        *ret_bytes = message.n;
        return 0;
}

static int listing(struct turn *t, struct slice request, struct slice word, size_t entries, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        struct family family;
        size_t bytes = 0, n = 0;
        int r = family_find(t->server->pid, &family, err);
        if (r == 0)
                r = client_open_session(&c, t, CLIENT_ROOM_LARGE, err);
        if (r == 0)
                r = listing_check(&c, request, word, entries, &bytes, err);
        double cpu = r == 0 ? family_cpu_s(&family) : 0;
        for (; r == 0 && turn_goes_on(t, n); n++) {
                uint64_t start = now_ns();
                r = ask(&c, request, bytes, err);
                samples_add(&t->into[0], us_since(start));
        }
        if (r == 0)
                samples_add(&t->into[1], (family_cpu_s(&family) - cpu) * 1e6 / (double)n);
        return r;
}

static int list(struct turn *t, struct err *err)
{
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX);
        char first[TREE_PATH_MAX];
        tree_dir(first, 0);
        _free_ char *path = mem_printf(TREE_IN "/%s", first);
        request_prepare(&request, t, "fs/readDirectory", "path", path, "");
        return listing(t, buf_slice(&request), S("\"fileName\":"), tree_flat.files, err);
}

static int walk(struct turn *t, struct err *err)
{
        _buf_ struct buf request = BUF_INIT(REQUEST_MAX);
        request_prepare(&request, t, "fs/walk", "path", TREE_IN,
                        ",\"options\":{\"maxDepth\":64,\"maxDirectories\":10000,\"maxEntries\":50000,"
                        "\"followDirectorySymlinks\":false}");
        return listing(t, buf_slice(&request), S("\"kind\":"), tree_walked.dirs * (1 + tree_walked.files),
                       err);
}

/* --- copy and remove ---------------------------------------------------------------------------------------------- */

static int copy_and_remove(struct turn *t, struct client *c, struct slice copy, struct slice remove,
                           const char *check, struct err *err)
{
        uint64_t start = now_ns();
        int r = ask(c, copy, 0, err);
        samples_add(&t->into[0], us_since(start));
        if (r == 0 && check)
                r = tree_check(check, &tree_copied, err);
        start = now_ns();
        if (r == 0)
                r = ask(c, remove, 0, err);
        samples_add(&t->into[1], us_since(start));
        struct stat st;
        if (r == 0 && check && stat(check, &st) == 0)
                r = err_set(err, 0, -EPROTO, "%s was not removed", check);
        return r;
}

static int tree(struct turn *t, struct err *err)
{
        _client_ struct client c = CLIENT_INIT;
        _buf_ struct buf copy = BUF_INIT(REQUEST_MAX), remove = BUF_INIT(REQUEST_MAX),
                         more = BUF_INIT(REQUEST_MAX);
        const char *to = t->server->who == WHO_OURS ? TREE_COPY "-farhand" : TREE_COPY "-reference";
        _free_ char *path = mem_printf("%s/%s", t->dir, to);
        must(buf_append(&more, S(",\"recursive\":true,\"destinationPath\":\"")) == 0);
        uri_append(&more, t, to);
        must(buf_append(&more, S("\"")) == 0);
        request_prepare(&copy, t, "fs/copy", "sourcePath", TREE_IN, more.p);
        request_prepare(&remove, t, "fs/remove", "path", to, ",\"recursive\":true");

        int r = client_open_session(&c, t, CLIENT_ROOM_SMALL, err);
        for (size_t n = 0; r == 0 && turn_goes_on(t, n); n++)
                r = copy_and_remove(t, &c, buf_slice(&copy), buf_slice(&remove),
                                    t->is_first && n == 0 ? path : NULL, err);
        return r;
}

#define CPU_EACH                                                               \
        {                                                                      \
                .name = "cpu", .title = "- CPU of the server", .unit = UNIT_US \
        }
#define FASTER                                                         \
        {                                                              \
                GOAL_REFERENCE, 1 / 1.5, "1.5 x faster than reference" \
        }

const struct row rows_trees[] = {
        { .name = "read-directory",
          .budget_ms = 150,
          .prepare = prepare_flat,
          .server = list,
          .machine = machine_list,
          .metrics = { { "latency", "readDirectory, 10,000 entries", UNIT_US, .goals = { FASTER } },
                       CPU_EACH } },
        { .name = "walk",
          .budget_ms = 150,
          .prepare = prepare_walked,
          .server = walk,
          .machine = machine_walk,
          .metrics = { { "latency", "walk, 10,100 entries", UNIT_US, .goals = { FASTER } }, CPU_EACH } },
        { .name = "tree",
          .budget_ms = 200,
          .prepare = prepare_copied,
          .server = tree,
          .machine = machine_tree,
          .metrics = { { "copy", "copy of a tree of 2,000 files", UNIT_US, .goals = { FASTER } },
                       { "remove", "remove of it", UNIT_US, .goals = { FASTER } } } },
        { 0 },
};
