/* arena: memory of one request, released as a whole.
 *
 * Regular blocks double from 4 KiB to 1 MiB. An allocation that does not fit into the next regular block gets a block of
 * its own. That block is linked behind the newest one, so that the room left in the newest block is not lost.
 */
#include "base/arena.h"

#include "base/mem.h"

#include <stdarg.h>

/* The smallest and the largest regular block. */
#define FIRST_BLOCK_BYTES ((size_t)4 << 10)
#define LAST_BLOCK_BYTES ((size_t)1 << 20)
#define ALIGNMENT ((size_t)16)

struct arena_block {
        _Alignas(16) struct arena_block *older;
        size_t size; /* bytes of a regular block with its head; 0: the block of a single allocation */
};
static_assert(sizeof(struct arena_block) % 16 == 0, "what follows the head must be aligned");

static void release(struct arena *a, void (*free_block)(void *p))
{
        while (a->blocks) {
                struct arena_block *older = a->blocks->older;
                free_block(a->blocks);
                a->blocks = older;
        }
        *a = ARENA_INIT;
}

void arena_release(struct arena *a)
{
        release(a, free);
}

void arena_release_slowly(struct arena *a)
{
        release(a, mem_free_slowly);
}

/* An empty allocation takes room too, so that its address is unique. */
static size_t rounded(size_t n)
{
        must(!ckd_add(&n, MAX(n, 1), ALIGNMENT - 1));
        return n & ~(ALIGNMENT - 1);
}

static size_t room_of(const struct arena *a)
{
        return a->next ? (size_t)(a->end - a->next) : 0;
}

static void *own_block(struct arena *a, size_t n)
{
        size_t size;
        must(!ckd_add(&size, n, sizeof(struct arena_block)));

        struct arena_block *b = mem_alloc(size);
        a->bytes += size;
        b->size = 0;
        if (a->blocks) {
                b->older = a->blocks->older;
                a->blocks->older = b;
        } else {
                b->older = NULL;
                a->blocks = b;
        }
        return b + 1;
}

static void add_regular_block(struct arena *a, size_t size)
{
        struct arena_block *b = mem_alloc(size);

        a->bytes += size;
        *b = (struct arena_block){ .older = a->blocks, .size = size };
        a->blocks = b;
        a->next = (char *)(b + 1);
        a->end = (char *)b + size;
}

void *arena_alloc(struct arena *a, size_t n)
{
        n = rounded(n);

        if (n > room_of(a)) {
                size_t size = a->blocks ? MIN(a->blocks->size * 2, LAST_BLOCK_BYTES) : 0;
                size = MAX(size, FIRST_BLOCK_BYTES);
                if (n > size - sizeof(struct arena_block))
                        return own_block(a, n);
                add_regular_block(a, size);
        }

        void *p = a->next;
        a->next += n;
        return p;
}

void *arena_zalloc(struct arena *a, size_t n)
{
        return memset(arena_alloc(a, n), 0, n);
}

char *arena_dup(struct arena *a, struct slice s)
{
        size_t size;
        must(!ckd_add(&size, s.n, 1));

        char *copy = arena_alloc(a, size);
        if (s.n > 0)
                memcpy(copy, s.p, s.n);
        copy[s.n] = '\0';
        return copy;
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
        va_list ap;

        /* Prints into the free room first: most texts are short, and one pass is enough for them. */
        size_t room = room_of(a);
        va_start(ap, fmt);
        int n = vsnprintf(a->next, room, fmt, ap);
        va_end(ap);
        must(n >= 0);

        char *text = arena_alloc(a, (size_t)n + 1);
        if ((size_t)n < room)
                return text; /* the room is a multiple of the alignment, so `text` is where it was printed */

        va_start(ap, fmt);
        (void)vsnprintf(text, (size_t)n + 1, fmt,
                        ap); /* arguments that are the same as before give the same length */
        va_end(ap);
        return text;
}

void *arena_grow(struct arena *a, void *p, size_t old_n, size_t new_n)
{
        if (!p)
                return arena_alloc(a, new_n);

        size_t old_size = rounded(old_n), new_size = rounded(new_n);
        if (new_size <= old_size)
                return p;

        /* Nothing of another block can end at a->next: the head of the newest block lies between. */
        if ((char *)p + old_size == a->next && new_size - old_size <= room_of(a)) {
                a->next += new_size - old_size;
                return p;
        }

        void *copy = arena_alloc(a, new_n);
        return memcpy(copy, p, old_n);
}

void *arena_room(struct arena *a, void *list, size_t count, size_t *room, size_t size)
{
        if (count < *room)
                return list;
        size_t more = MAX(*room * 2, (size_t)16);
        list = arena_grow(a, list, *room * size, more * size);
        *room = more;
        return list;
}
