/* stub_book: see stub_book.h. */
#include "server/stub_book.h"

#include "base/mem.h"
#include "sandbox/stub.h"

#include <limits.h>
#include <stdio.h>

struct stub_entry {
        size_t users;
        int slot; /* of the journal; negative: none */
        size_t n;
        char path[];
};

void stub_book_init(struct stub_book *b)
{
        pthread_mutex_init(&b->lock, NULL);
        map_init(&b->entries);
}

void stub_book_release(struct stub_book *b)
{
        /* Of commands whose farewell the pool did not take any more. The journal still has them. */
        struct stub_entry *e;
        for (size_t pos = 0; (e = map_next(&b->entries, &pos));)
                free(e);
        map_release(&b->entries);
        pthread_mutex_destroy(&b->lock);
}

static struct stub_entry *entry_new(struct journal *j, struct slice path)
{
        struct stub_entry *e = mem_zalloc(sizeof(*e) + path.n + 1);
        e->n = path.n;
        memcpy(e->path, path.p, path.n);
        char *slash = strrchr(e->path, '/');
        *slash = 0;
        e->slot = j ? journal_add(j, slash == e->path ? "/" : e->path, slash + 1) : -1;
        *slash = '/';
        return e;
}

void stub_book_enter(struct stub_book *b, struct journal *j, const struct plan *plan,
                     struct stub_entries *ret)
{
        *ret = (struct stub_entries){ 0 };
        if (plan->stub_count == 0)
                return;
        ret->list = mem_alloc(plan->stub_count * sizeof(struct stub_entry *));
        pthread_mutex_lock(&b->lock);
        for (size_t i = 0; i < plan->stub_count; i++) {
                struct slice path = plan->stubs[i].path;
                struct stub_entry *e = map_find(&b->entries, path);
                if (!e) {
                        e = entry_new(j, path);
                        map_put(&b->entries, slice_from(e->path, e->n), e);
                }
                e->users++;
                ret->list[ret->count++] = e;
        }
        pthread_mutex_unlock(&b->lock);
}

void stub_book_strike(struct stub_book *b, struct journal *j, struct stub_entries *e)
{
        pthread_mutex_lock(&b->lock);
        for (size_t i = 0; i < e->count; i++) {
                struct stub_entry *one = e->list[i];
                if (--one->users > 0)
                        continue;
                if (j && one->slot >= 0)
                        journal_remove(j, one->slot);
                map_remove(&b->entries, slice_from(one->path, one->n));
                free(one);
        }
        pthread_mutex_unlock(&b->lock);
        free(e->list);
        *e = (struct stub_entries){ 0 };
}

void stub_book_sweep(const char *directory, const char *name)
{
        char path[PATH_MAX];
        bool is_root = directory[1] == 0;
        int n = snprintf(path, sizeof(path), "%s/%s", is_root ? "" : directory, name);
        if (n > 0 && n < (int)sizeof(path))
                stub_sweep(path);
}
