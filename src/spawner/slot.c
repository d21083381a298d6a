/* slot: maps, recycles and finds the slots of commands, and the buffers for their orders (slot.h). */
#include "spawner/slot.h"

#include "base/slice.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (16 * 1024) /* for the keeper, and as many for its child; at most 9 KiB are used */
#define SLOTS_UNUSED 16         /* kept for the next commands; more are unmapped */
#define BUFFERS_UNUSED 4

static struct slice key_number(const uint32_t *number)
{
        return slice_from(number, sizeof(*number));
}

static struct slice key_pid(const pid_t *pid)
{
        return slice_from(pid, sizeof(*pid));
}

static size_t pages(size_t page, size_t n)
{
        return (n + page - 1) / page * page;
}

void slots_init(struct slots *t)
{
        size_t page = (size_t)sysconf(_SC_PAGESIZE);
        *t = (struct slots){ .guard_bytes = page };
        t->walk_bytes = pages(page, KEEPER_WALK_MAX * sizeof(struct tree_entry));
        t->bytes = t->walk_bytes + t->guard_bytes + pages(page, 2 * STACK_BYTES);
        list_init(&t->live);
        list_init(&t->unused);
        list_init(&t->buffers);
        map_init(&t->by_number);
        map_init(&t->by_pid);
}

struct slot *slots_find(const struct slots *t, uint32_t number)
{
        return map_find(&t->by_number, key_number(&number));
}

struct slot *slots_find_pid(const struct slots *t, pid_t pid)
{
        return map_find(&t->by_pid, key_pid(&pid));
}

/* Buffers are never unmapped, because slots keep pointers to them; but after many starts at once only a few keep their pages. */
struct order_buffer *slots_buffer(struct slots *t)
{
        struct order_buffer *found = NULL, *r;
        size_t unused = 0;
        list_each (r, &t->buffers, link) {
                if (atomic_load_explicit(&r->owner, memory_order_acquire))
                        continue;
                if (!found)
                        found = r;
                else if (r->is_used && ++unused > BUFFERS_UNUSED) {
                        r->is_used = false;
                        (void)madvise((char *)r + t->guard_bytes, sizeof(*r) - t->guard_bytes, MADV_DONTNEED);
                }
        }
        if (!found) {
                found = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (found == MAP_FAILED)
                        return NULL;
                list_append(&t->buffers, &found->link);
        }
        found->is_used = true;
        return found;
}

static char *mapping_of(const struct slots *t, struct slot *slot)
{
        return (char *)(slot + 1) - t->bytes;
}

static struct slot *slot_map(const struct slots *t)
{
        char *map = mmap(NULL, t->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
                return NULL;
        if (mprotect(map + t->walk_bytes, t->guard_bytes, PROT_NONE) < 0) {
                munmap(map, t->bytes);
                return NULL;
        }
        return (struct slot *)(void *)(map + t->bytes) - 1;
}

struct slot *slot_new(struct slots *t)
{
        struct slot *slot = list_first(&t->unused, struct slot, link);
        if (slot) {
                list_remove(&slot->link);
                t->unused_count--;
        } else {
                slot = slot_map(t);
                if (!slot)
                        return NULL;
        }
        *slot = (struct slot){ .pid = -1 };
        list_init(&slot->link);
        char *map = mapping_of(t, slot);
        slot->keeper.leaf_fd = -1;
        slot->keeper.net_fd = -1;
        slot->keeper.fence_fd = -1;
        slot->keeper.order_ends[0] = slot->keeper.order_ends[1] = -1;
        slot->keeper.init_ends[0] = slot->keeper.init_ends[1] = -1;
        slot->keeper.walk_room = (struct tree_entry *)(void *)map;
        slot->keeper.child_stack = map + t->walk_bytes + t->guard_bytes + STACK_BYTES;
        return slot;
}

void slot_free(struct slots *t, struct slot *slot)
{
        slot_drop_strings(slot);
        slot_forget_pid(t, slot);
        if (list_is_linked(&slot->link) && !slot->is_prebuilt)
                (void)map_remove(&t->by_number, key_number(&slot->keeper.number));
        list_remove(&slot->link);
        if (t->unused_count == SLOTS_UNUSED) {
                munmap(mapping_of(t, slot), t->bytes);
                return;
        }
        list_prepend(&t->unused, &slot->link);
        t->unused_count++;
}

int slot_take_buffer(struct slot *slot, const struct spawn_order *order, struct order_buffer *r)
{
        atomic_store_explicit(&r->owner, slot, memory_order_relaxed);
        slot->buffer = r;
        slot->keeper.strings_owner = &r->owner;
        return keeper_order_unpack(&slot->keeper.order, &order->command, r->strings.bytes,
                                   r->strings.pointers);
}

/* The pointers come first in the mapping, because of their alignment. */
int slot_take_memfd(struct slot *slot, const struct spawn_order *order, int fd)
{
        size_t strings = (size_t)order->command.argc + order->command.envc + order->command.candidatec + 3;
        if (order->command.bytes > SPAWN_REQUEST_MAX || strings > SPAWN_REQUEST_MAX)
                return -E2BIG;
        size_t pointer_bytes = strings * sizeof(char *), n = pointer_bytes + order->command.bytes;

        char *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
                return -errno;
        slot->keeper.strings = map;
        slot->keeper.strings_bytes = n;

        for (size_t at = 0; at < order->command.bytes;) {
                ssize_t r = pread(fd, map + pointer_bytes + at, order->command.bytes - at, (off_t)at);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : -EBADMSG;
                at += (size_t)r;
        }
        return keeper_order_unpack(&slot->keeper.order, &order->command, map + pointer_bytes,
                                   (char **)(void *)map);
}

void slot_drop_strings(struct slot *slot)
{
        if (slot->keeper.strings)
                munmap(slot->keeper.strings, slot->keeper.strings_bytes);
        slot->keeper.strings = NULL;
        /* The buffer belongs to another slot by now, unless the keeper was killed before it could release the buffer. */
        void *mine = slot;
        if (slot->buffer)
                (void)atomic_compare_exchange_strong(&slot->buffer->owner, &mine, NULL);
        slot->buffer = NULL;
}

void slot_enter(struct slots *t, struct slot *slot)
{
        list_append(&t->live, &slot->link);
        map_put(&t->by_number, key_number(&slot->keeper.number), slot);
        map_put(&t->by_pid, key_pid(&slot->pid), slot);
}

void slot_enter_orphan(struct slots *t, struct slot *slot)
{
        slot->pid = -1;
        slot->is_prebuilt = slot->is_orphaned = true;
        list_append(&t->live, &slot->link);
}

void slot_forget_pid(struct slots *t, struct slot *slot)
{
        if (slot->pid > 0 && list_is_linked(&slot->link))
                (void)map_remove(&t->by_pid, key_pid(&slot->pid));
        slot->pid = -1;
}
