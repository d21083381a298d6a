/* arena: memory of one request, released as a whole.
 *
 * Decoded params, JSON tokens and temporary paths live here. Nothing is freed one by one. Pointers into an arena
 * must not outlive it. Out of memory aborts; sizes come from messages whose length is already bounded.
 */
#pragma once

#include "base/compat.h"
#include "base/slice.h"

struct arena_block;

struct arena {
        struct arena_block *blocks; /* newest first */
        char *next;                 /* the free space of the newest block reaches from here to `end` */
        char *end;
        size_t bytes; /* the sum over all blocks */
};

#define ARENA_INIT ((struct arena){ 0 })
void arena_release(struct arena *a);        /* frees all; a may be used again */
void arena_release_slowly(struct arena *a); /* frees all with mem_free_slowly */
#define _arena_ CLEANUP(arena_release)

NODISCARD void *arena_alloc(struct arena *a, size_t n); /* uninitialised, aligned to 16 */
NODISCARD void *arena_zalloc(struct arena *a, size_t n);
#define arena_new(a, type) ((type *)arena_zalloc((a), sizeof(type)))

NODISCARD char *arena_dup(struct arena *a, struct slice s); /* copy with a NUL behind it */
NODISCARD char *arena_printf(struct arena *a, const char *fmt, ...) PRINTF_LIKE(2, 3);

/* Grows the allocation `p` from `old_n` to `new_n` bytes: in place when it is the newest one and has room behind it, else by a
 * copy. `p` may be NULL. */
NODISCARD void *arena_grow(struct arena *a, void *p, size_t old_n, size_t new_n);
/* Returns a list of `count` elements with room for one more. *room is how many elements of `size` bytes fit; 0 at first. */
NODISCARD void *arena_room(struct arena *a, void *list, size_t count, size_t *room, size_t size);
