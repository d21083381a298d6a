/* placeholder_book: counts the users of each placeholder, and keeps its name in the journal until it is gone. */
#include "confine/placeholder_book.h"

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "sandbox/placeholder.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>

#define LEFTOVER_TRIES 100 /* tries in a row; after them the placeholder counts as stuck */
#define LEFTOVER_WAIT_MS 10

struct placeholder_entry {
        size_t users;
        bool is_stuck; /* the last try to remove it failed */
        int slot;      /* the slot of the journal; negative: none */
        size_t n;
        char path[];
};

void placeholder_book_init(struct placeholder_book *b)
{
        pthread_mutex_init(&b->lock, NULL);
        map_init(&b->entries);
}

void placeholder_book_release(struct placeholder_book *b)
{
        /* The entries that are left belong to commands whose end the pool did not handle any more. The journal still names them. */
        struct placeholder_entry *e;
        for (size_t pos = 0; (e = map_next(&b->entries, &pos));)
                free(e);
        map_release(&b->entries);
        pthread_mutex_destroy(&b->lock);
}

static struct placeholder_entry *entry_new(struct journal *j, struct slice path)
{
        struct placeholder_entry *e = mem_zalloc(sizeof(*e) + path.n + 1);
        e->n = path.n;
        memcpy(e->path, path.p, path.n);
        char *slash = strrchr(e->path, '/');
        *slash = 0;
        e->slot = j ? journal_add(j, slash == e->path ? "/" : e->path, slash + 1) : -1;
        *slash = '/';
        return e;
}

void placeholder_book_enter(struct placeholder_book *b, struct journal *j, const struct plan *plan,
                            struct placeholder_entries *ret)
{
        *ret = (struct placeholder_entries){ 0 };
        if (plan->placeholder_count == 0)
                return;
        ret->list = mem_alloc(plan->placeholder_count * sizeof(struct placeholder_entry *));
        pthread_mutex_lock(&b->lock);
        for (size_t i = 0; i < plan->placeholder_count; i++) {
                struct slice path = plan->placeholders[i].path;
                struct placeholder_entry *e = map_find(&b->entries, path);
                if (!e) {
                        e = entry_new(j, path);
                        map_put(&b->entries, slice_from(e->path, e->n), e);
                }
                e->users++;
                ret->list[ret->count++] = e;
        }
        pthread_mutex_unlock(&b->lock);
}

/* Forgets an entry that has no user and is gone, or for which there is no room. The caller has the lock. */
static void entry_drop(struct placeholder_book *b, struct journal *j, struct placeholder_entry *e)
{
        if (j && e->slot >= 0)
                journal_remove(j, e->slot);
        map_remove(&b->entries, slice_from(e->path, e->n));
        free(e);
}

/* ---- the end of a command ---- */

/* Removes placeholders after keeper and spawner were killed together. The socket of a killed keeper closes before its locks are
 * released, so the first tries may be too early. */
static void remove_leftovers(struct image *image)
{
        for (int i = 0; i < LEFTOVER_TRIES; i++) {
                placeholders_remove(image, false);
                if (!placeholders_have(image, PLACEHOLDER_OTHERS))
                        return;
                (void)poll(NULL, 0, LEFTOVER_WAIT_MS);
        }
}

/* Logs that a placeholder could not be removed: at debug level when commands of another user still use it, since no
 * operator has to act then. */
static void log_stuck(const struct placeholder_entry *e, int os_errno)
{
        const char *path = log_quote(slice_from(e->path, e->n));
        if (os_errno == -EBUSY)
                log_debug("a placeholder is used by another user's command", "path=%s", path);
        else
                log_warn_r(os_errno, "a placeholder cannot be removed", "path=%s", path);
}

/* Notes what became of a placeholder. Commands may be struck in another order than they ended in, so only the outcome for the last
 * user of the placeholder counts. */
static void entry_note(struct placeholder_book *b, struct placeholder_entry *e,
                       const struct image_placeholder *placeholder, bool was_left)
{
        bool was_stuck = e->is_stuck;
        if (placeholder->state == PLACEHOLDER_STUCK || (was_left && placeholder->state == PLACEHOLDER_OTHERS))
                e->is_stuck = true;
        else if (placeholder->state == PLACEHOLDER_GONE)
                e->is_stuck = false;
        if (e->is_stuck && !was_stuck)
                log_stuck(e, placeholder->os_errno);
        b->stuck = b->stuck + e->is_stuck - was_stuck;
}

void placeholder_book_strike(struct placeholder_book *b, struct journal *j, struct placeholder_entries *e,
                             struct image *image)
{
        bool was_left = e->count > 0 && placeholders_have(image, PLACEHOLDER_USED);
        if (was_left)
                remove_leftovers(image);
        pthread_mutex_lock(&b->lock);
        for (size_t i = 0; i < e->count; i++) {
                struct placeholder_entry *one = e->list[i];
                entry_note(b, one, placeholders_at(image, i), was_left);
                one->users--;
                if (one->is_stuck && b->stuck > LIMIT_STUCK_PLACEHOLDERS) {
                        one->is_stuck = false;
                        b->stuck--;
                }
                if (one->users == 0 && !one->is_stuck)
                        entry_drop(b, j, one);
        }
        pthread_mutex_unlock(&b->lock);
        free(e->list);
        *e = (struct placeholder_entries){ 0 };
}

/* ---- placeholders that could not be removed ---- */

size_t placeholder_book_stuck(struct placeholder_book *b)
{
        pthread_mutex_lock(&b->lock);
        size_t n = b->stuck;
        pthread_mutex_unlock(&b->lock);
        return n;
}

/* Copies the paths of the stuck placeholders, so that the lock is not held while these are removed: a file system may take long
 * to answer. */
static char **stuck_paths(struct placeholder_book *b, size_t *ret_count)
{
        struct placeholder_entry *e;
        pthread_mutex_lock(&b->lock);
        char **paths = mem_alloc(MAX(b->stuck, (size_t)1) * sizeof(*paths));
        *ret_count = 0;
        for (size_t pos = 0; (e = map_next(&b->entries, &pos));)
                if (e->is_stuck && e->users == 0) /* otherwise the keeper of a command removes it */
                        paths[(*ret_count)++] = mem_strdup(e->path);
        pthread_mutex_unlock(&b->lock);
        return paths;
}

static void stuck_settle(struct placeholder_book *b, struct journal *j, const char *path)
{
        pthread_mutex_lock(&b->lock);
        struct placeholder_entry *e = map_find(&b->entries, slice_from_str(path));
        if (e && e->is_stuck) {
                e->is_stuck = false;
                b->stuck--;
                if (e->users == 0) /* otherwise a new command uses it by now */
                        entry_drop(b, j, e);
        }
        pthread_mutex_unlock(&b->lock);
}

void placeholder_book_retry(struct placeholder_book *b, struct journal *j, struct preparer *preparer)
{
        struct placeholder_locks locks;
        struct err ignored = ERR_INIT;
        bool is_new;
        if (placeholder_book_stuck(b) == 0 || preparer_locks(preparer, &locks, &is_new, &ignored) < 0)
                return;
        size_t count;
        char **paths = stuck_paths(b, &count);
        for (size_t i = 0; i < count; i++) {
                if (placeholder_sweep(&locks, paths[i]) == PLACEHOLDER_GONE)
                        stuck_settle(b, j, paths[i]);
                free(paths[i]);
        }
        free(paths);
}

bool placeholder_book_sweep(void *preparer, const char *directory, const char *name)
{
        struct placeholder_locks locks;
        struct err ignored = ERR_INIT;
        bool is_new;
        char path[PATH_MAX];
        bool is_root = directory[1] == 0;
        int n = snprintf(path, sizeof(path), "%s/%s", is_root ? "" : directory, name);
        if (n < 0 || n >= (int)sizeof(path))
                return true; /* no valid path, so no placeholder: true drops it from the journal */
        return preparer_locks(preparer, &locks, &is_new, &ignored) == 0 &&
               placeholder_sweep(&locks, path) == PLACEHOLDER_GONE;
}
