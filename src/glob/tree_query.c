/* tree_query: turns a query into the groups of a tree, one for each prefix, opens the prefixes, and makes the answer
 * from a tree that was read. */
#include "glob/tree_internal.h"

#include "base/clock.h"
#include "base/fd.h"
#include "base/mem.h"
#include "policy/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- The query */

static int refuse(struct err *err, int code, const char *why)
{
        err->step = "glob scan";
        return err_set(err, 0, code, "unreadable globs: %s", why);
}

static struct glob_group *group_of(struct glob_tree *t, struct slice prefix)
{
        for (size_t i = 0; i < t->group_count; i++)
                if (slice_eq(t->groups[i].prefix, prefix))
                        return &t->groups[i];
        struct glob_group *g = &t->groups[t->group_count++];
        *g = (struct glob_group){ .tree = t, .prefix = prefix, .fd = -1 };
        return g;
}

static void group_add(struct glob_tree *t, struct glob_group *g, const struct pattern *p)
{
        size_t size = sizeof(const struct pattern *);

        g->patterns = arena_grow(&t->arena, g->patterns, g->count * size, (g->count + 1) * size);
        g->patterns[g->count++] = p;
        g->words += pattern_words(p);
}

static bool is_repeated(const struct glob_query *q, size_t at)
{
        for (size_t i = 0; i < at; i++)
                if (slice_eq(q->patterns[i], q->patterns[at]))
                        return true;
        return false;
}

int glob_tree_init(struct glob_tree *t, const struct glob_query *q, const struct glob_listener *listener,
                   struct err *err)
{
        size_t words = 0;

        *t = (struct glob_tree){ .arena = ARENA_INIT, .depth = q->depth, .listener = listener };
        map_init(&t->names);
        list_init(&t->matches);
        list_init(&t->waiting);
        if (q->count > GLOB_PATTERNS_MAX)
                return refuse(err, -E2BIG, "too many patterns");
        t->groups = arena_zalloc(&t->arena, q->count * sizeof(*t->groups));

        for (size_t i = 0; i < q->count; i++) {
                const struct pattern *p;
                if (is_repeated(q, i))
                        continue;
                err->step = "glob scan";
                int r = pattern_compile(&t->arena, q->patterns[i], &p, err);
                if (r < 0)
                        return r;
                if (slice_eq(pattern_prefix(p), S("/")))
                        return err_set(
                                err, 0, -EINVAL,
                                "unreadable glob `%.*s` cannot be safely expanded; use a pattern with a "
                                "non-root directory prefix",
                                SLICE(q->patterns[i]));
                words += pattern_words(p);
                if (words > GLOB_WORDS_MAX)
                        return refuse(err, -E2BIG, "patterns too long together");
                group_add(t, group_of(t, pattern_prefix(p)), p);
        }
        t->scratch = mem_alloc((words + 1) * sizeof(*t->scratch));
        t->room = mem_alloc(GLOB_READ_BYTES);
        return 0;
}

/* ---- Prefixes */

/* Returns the current path of a descriptor, without links. */
static int real_path(int fd, char room[static PATH_MAX])
{
        ssize_t n = readlink(fd_link(fd).text, room, PATH_MAX - 1);
        if (n < 0)
                return -errno;
        room[n] = '\0';
        return n == PATH_MAX - 1 ? -ENAMETOOLONG : room[0] != '/' ? -ESTALE : 0;
}

/* Opens a prefix. Returns 1 when the prefix has changed since it was first opened. */
static int open_prefix(struct glob_group *g, bool is_first)
{
        char real[PATH_MAX];
        struct stat st;
        _close_ int fd = open(g->prefix.p, O_PATH | O_DIRECTORY | O_CLOEXEC);

        if (fd < 0 && (errno == ENOENT || errno == ENOTDIR))
                return g->root != NULL;
        if (fd < 0 || fstat(fd, &st) < 0)
                return -errno;
        int r = real_path(fd, real);
        if (r < 0)
                return r;
        if (!is_first &&
            (!g->root || g->dev != st.st_dev || g->ino != st.st_ino || strcmp(g->real, real) != 0))
                return 1;
        if (is_first) {
                g->dev = st.st_dev;
                g->ino = st.st_ino;
                g->real = mem_strdup(real);
        }
        g->fd = TAKE_FD(fd);
        return 0;
}

int glob_tree_open(struct glob_tree *t, const atomic_bool *is_cancelled, struct err *err)
{
        bool is_first = !t->is_read;

        t->is_read = true;
        t->is_cancelled = is_cancelled;
        t->deadline_ms = clock_mono_ms() + GLOB_MS_MAX;
        t->entries = 0;
        for (size_t i = 0; i < t->group_count; i++) {
                int r = open_prefix(&t->groups[i], is_first);
                if (r > 0)
                        return 1;
                if (r < 0) {
                        err->step = "glob scan";
                        err->os_errno = -r;
                        return err_set(err, 0, r, "glob scan of %.*s: %s", SLICE(t->groups[i].prefix),
                                       errno_text(r));
                }
        }
        return 0;
}

void glob_tree_close(struct glob_tree *t)
{
        for (size_t i = 0; i < t->group_count; i++)
                t->groups[i].fd = fd_close(t->groups[i].fd);
}

/* ---- The answer */

static size_t path_bytes(const struct glob_node *n)
{
        return strlen(n->group->real) + (n->parent ? 1 : 0) + n->path_n;
}

/* Writes the path from its end to its beginning, NUL-terminated. */
static void write_path(const struct glob_node *n, char *room, size_t bytes)
{
        size_t at = bytes;

        room[at] = '\0';
        for (; n->parent; n = n->parent) {
                at -= n->name_n;
                memcpy(room + at, n->name, n->name_n);
                room[--at] = '/';
        }
        memcpy(room, n->group->real, at);
}

static int compare(const void *a, const void *b)
{
        const struct glob_match *x = a, *y = b;
        return path_compare(x->path, y->path);
}

/* Removes matches that are below another match; two prefixes, one below the other, find such matches. */
static void drop_covered(struct glob_matches *m)
{
        size_t kept = 0;
        for (size_t i = 0; i < m->count; i++)
                if (kept == 0 || !path_is_within(m->list[i].path, m->list[kept - 1].path))
                        m->list[kept++] = m->list[i];
        m->count = kept;
}

struct glob_matches *glob_tree_matches(const struct glob_tree *t)
{
        size_t bytes = sizeof(struct glob_matches) + t->match_count * sizeof(struct glob_match), i = 0;
        struct list *matches = (struct list *)&t->matches;
        struct glob_node *n;

        list_each (n, matches, match)
                bytes += path_bytes(n) + 1;

        struct glob_matches *m = mem_alloc(bytes);
        char *text = (char *)&m->list[t->match_count];
        atomic_init(&m->refs, 1);
        m->is_overfull = t->is_overfull;
        m->has_links = false;
        for (size_t g = 0; g < t->group_count; g++)
                m->has_links |= !t->groups[g].real || strcmp(t->groups[g].real, t->groups[g].prefix.p) != 0;
        m->count = t->match_count;
        list_each (n, matches, match) {
                size_t length = path_bytes(n);
                write_path(n, text, length);
                m->list[i++] = (struct glob_match){
                        .path = slice_from(text, length),
                        .dev = n->dev,
                        .ino = n->ino,
                        .is_directory = n->is_directory,
                        .is_symlink = n->is_symlink,
                        .is_unreadable = n->is_unreadable,
                };
                text += length + 1;
        }
        qsort(m->list, m->count, sizeof(m->list[0]), compare);
        drop_covered(m);
        return m;
}
