/* slot: see slot.h. */
#include "proc/slot.h"

#include "base/slice.h"
#include "proc/spawn.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#define STACK_BYTES (16 * 1024) /* of the keeper, and again of its child; the deepest use is under 6 KiB */
#define SLOTS_SPARE 16          /* kept for the next command; more are given back */
#define REQUESTS_SPARE 4

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
        list_init(&t->spare);
        list_init(&t->requests);
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

/* Never unmapped, because slots remember where theirs was; but after a rush of starts only a few keep their pages. */
struct request *slots_request(struct slots *t)
{
        struct request *found = NULL, *r;
        size_t spare = 0;
        list_each (r, &t->requests, link) {
                if (atomic_load_explicit(&r->owner, memory_order_acquire))
                        continue;
                if (!found)
                        found = r;
                else if (r->is_used && ++spare > REQUESTS_SPARE) {
                        r->is_used = false;
                        (void)madvise((char *)r + t->guard_bytes, sizeof(*r) - t->guard_bytes, MADV_DONTNEED);
                }
        }
        if (!found) {
                found = mmap(NULL, sizeof(*r), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                if (found == MAP_FAILED)
                        return NULL;
                list_append(&t->requests, &found->link);
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
        struct slot *slot = list_first(&t->spare, struct slot, link);
        if (slot) {
                list_remove(&slot->link);
                t->spares--;
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
        slot->keeper.init_ends[0] = slot->keeper.init_ends[1] = -1;
        slot->keeper.walk_room = (struct tree_entry *)(void *)map;
        slot->keeper.child_stack = map + t->walk_bytes + t->guard_bytes + STACK_BYTES;
        return slot;
}

void slot_free(struct slots *t, struct slot *slot)
{
        slot_drop_strings(slot);
        slot_forget_pid(t, slot);
        if (list_is_linked(&slot->link) && !slot->is_spare)
                (void)map_remove(&t->by_number, key_number(&slot->keeper.number));
        list_remove(&slot->link);
        if (t->spares == SLOTS_SPARE) {
                munmap(mapping_of(t, slot), t->bytes);
                return;
        }
        list_prepend(&t->spare, &slot->link);
        t->spares++;
}

/* Makes the three lists over `bytes`. The server is trusted; a bug in it must still not become ours. */
int slot_unpack(struct keeper_order *o, const struct spawn_order *order, char *bytes, char **pointers)
{
        const uint32_t counts[] = { order->argc, order->envc, order->candidatec };
        char *const *lists[ARRAY_LEN(counts)];
        char *end = bytes + order->bytes;
        if (order->bytes == 0 || end[-1] != 0 || order->argc == 0)
                return -EBADMSG;

        o->cwd = bytes;
        bytes += strlen(bytes) + 1;
        for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
                lists[i] = pointers;
                for (uint32_t k = 0; k < counts[i]; k++) {
                        if (bytes >= end)
                                return -EBADMSG;
                        *pointers++ = bytes;
                        bytes += strlen(bytes) + 1;
                }
                *pointers++ = NULL;
        }
        o->argv = lists[0];
        o->env = lists[1];
        o->candidates = lists[2];
        return bytes == end ? 0 : -EBADMSG;
}

int slot_take_request(struct slot *slot, const struct spawn_order *order, struct request *r)
{
        atomic_store_explicit(&r->owner, slot, memory_order_relaxed);
        slot->request = r;
        slot->keeper.strings_owner = &r->owner;
        return slot_unpack(&slot->keeper.order, order, r->bytes, r->pointers);
}

/* The pointers come first in the mapping, because of their alignment. */
int slot_take_memfd(struct slot *slot, const struct spawn_order *order, int fd)
{
        size_t strings = (size_t)order->argc + order->envc + order->candidatec + 3;
        if (order->bytes > SPAWN_REQUEST_MAX || strings > SPAWN_REQUEST_MAX)
                return -E2BIG;
        size_t pointer_bytes = strings * sizeof(char *), n = pointer_bytes + order->bytes;

        char *map = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (map == MAP_FAILED)
                return -errno;
        slot->keeper.strings = map;
        slot->keeper.strings_bytes = n;

        for (size_t at = 0; at < order->bytes;) {
                ssize_t r = pread(fd, map + pointer_bytes + at, order->bytes - at, (off_t)at);
                if (r < 0 && errno == EINTR)
                        continue;
                if (r <= 0)
                        return r < 0 ? -errno : -EBADMSG;
                at += (size_t)r;
        }
        return slot_unpack(&slot->keeper.order, order, map + pointer_bytes, (char **)(void *)map);
}

void slot_drop_strings(struct slot *slot)
{
        if (slot->keeper.strings)
                munmap(slot->keeper.strings, slot->keeper.strings_bytes);
        slot->keeper.strings = NULL;
        /* Another slot's by now, unless the keeper was killed before it could let go. */
        void *mine = slot;
        if (slot->request)
                (void)atomic_compare_exchange_strong(&slot->request->owner, &mine, NULL);
        slot->request = NULL;
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
        slot->is_spare = slot->is_orphaned = true;
        list_append(&t->live, &slot->link);
}

void slot_forget_pid(struct slots *t, struct slot *slot)
{
        if (slot->pid > 0 && list_is_linked(&slot->link))
                (void)map_remove(&t->by_pid, key_pid(&slot->pid));
        slot->pid = -1;
}
