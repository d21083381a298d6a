/* watch_batch: merges the changes of one watch, and writes them as notifications. */
#include "watch/watch_batch.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/uri.h"
#include "conn/conn.h"

/* A notification gets no more events when it has this many bytes. */
#define SEND_BYTES (64 * KIB)
/* How many first halves are searched for the one that belongs to a second half: the two halves of a rename come close together. */
#define HALVES_SEARCHED 64

static const char *const kind_names[] = {
        [WATCH_CREATED] = "created",
        [WATCH_MODIFIED] = "modified",
        [WATCH_REMOVED] = "removed",
        [WATCH_RENAMED] = "renamed",
};

void watch_batch_init(struct watch_batch *b)
{
        *b = (struct watch_batch){ 0 };
        list_init(&b->changes);
        map_init(&b->latest);
}

static struct slice change_path(const struct watch_change *c)
{
        return slice_from(c->path, c->path_n);
}

static size_t change_size(const struct watch_change *c)
{
        return sizeof(*c) + c->path_n + (c->from ? strlen(c->from) : 0);
}

static void drop(struct watch_batch *b, struct watch_change *c)
{
        list_remove(&c->link);
        b->count--;
        b->bytes -= change_size(c);
        b->halves -= c->is_half;
        free(c->from);
        free(c);
}

void watch_batch_release(struct watch_batch *b)
{
        struct watch_change *c;
        list_each (c, &b->changes, link) {
                drop(b, c);
        }
        watch_batch_stop_merging(b);
}

void watch_batch_stop_merging(struct watch_batch *b)
{
        map_release(&b->latest);
        map_init(&b->latest);
}

bool watch_batch_is_empty(const struct watch_batch *b)
{
        return b->count == 0 && !b->has_overflowed;
}

void watch_batch_overflow(struct watch_batch *b)
{
        b->has_overflowed = true;
}

/* Removes a change from the map. The key there is the path inside the change, so the entry of the map must not outlive the
 * change. */
static void forget_latest(struct watch_batch *b, const struct watch_change *c)
{
        if (map_find(&b->latest, change_path(c)) == c)
                (void)map_remove(&b->latest, change_path(c));
}

static struct watch_change *append(struct watch_batch *b, enum watch_kind kind, struct slice path, char *from)
{
        struct watch_change *c = mem_zalloc(sizeof(*c) + path.n + 1);
        c->kind = kind;
        c->from = from;
        c->path_n = path.n;
        memcpy(c->path, path.p, path.n);
        list_append(&b->changes, &c->link);
        b->count++;
        b->bytes += change_size(c);
        (void)map_remove(&b->latest, path);
        map_put(&b->latest, change_path(c), c);
        return c;
}

static void keep_bounds(struct watch_batch *b)
{
        if (b->count <= LIMIT_WATCH_EVENTS && b->bytes <= LIMIT_WATCH_EVENT_BYTES)
                return;
        watch_batch_release(b);
        watch_batch_overflow(b);
}

/* Returns whether the last change of this path already says what the new one says. */
static bool is_covered(const struct watch_batch *b, enum watch_kind kind, struct slice path)
{
        const struct watch_change *last = map_find(&b->latest, path);
        if (!last)
                return false;
        bool is_there = last->kind != WATCH_REMOVED;
        switch (kind) {
        case WATCH_MODIFIED:
                return is_there;
        case WATCH_CREATED:
                return is_there && last->kind != WATCH_MODIFIED;
        case WATCH_REMOVED:
                return !is_there;
        case WATCH_RENAMED:
                return false;
        }
        return false;
}

void watch_batch_add(struct watch_batch *b, enum watch_kind kind, struct slice path)
{
        if (is_covered(b, kind, path))
                return;
        (void)append(b, kind, path, NULL);
        keep_bounds(b);
}

void watch_batch_moved_from(struct watch_batch *b, struct slice path, uint32_t cookie, uint64_t now_ms)
{
        struct watch_change *c = append(b, WATCH_REMOVED, path, NULL);
        c->is_half = true;
        c->cookie = cookie;
        c->at_ms = now_ms;
        b->halves++;
        keep_bounds(b);
}

static struct watch_change *find_half(const struct watch_batch *b, uint32_t cookie)
{
        size_t left = MIN(b->halves, (size_t)HALVES_SEARCHED);
        for (struct list *l = b->changes.prev; l != &b->changes && left > 0; l = l->prev) {
                struct watch_change *c = list_entry(l, struct watch_change, link);
                if (c->is_half && c->cookie == cookie)
                        return c;
                left -= c->is_half;
        }
        return NULL;
}

static bool is_at_or_below(struct slice path, struct slice top)
{
        return path.n >= top.n && memcmp(path.p, top.p, top.n) == 0 &&
               (path.n == top.n || path.p[top.n] == '/' || (top.n > 0 && top.p[top.n - 1] == '/'));
}

/* Returns whether the path of the first half, or a directory above it, has changed after that half. Then the path may name another
 * file now. */
static bool has_changed_meaning(const struct watch_batch *b, const struct watch_change *half)
{
        for (const struct list *l = half->link.next; l != &b->changes; l = l->next) {
                const struct watch_change *c = list_entry(l, struct watch_change, link);
                if (is_at_or_below(change_path(half), change_path(c)) ||
                    (c->from && is_at_or_below(change_path(half), slice_from_str(c->from))))
                        return true;
        }
        return false;
}

bool watch_batch_moved_to(struct watch_batch *b, struct slice path, uint32_t cookie)
{
        struct watch_change *half = find_half(b, cookie);
        if (!half || has_changed_meaning(b, half))
                return false;
        char *from = slice_dup(change_path(half));
        forget_latest(b, half);
        drop(b, half);
        (void)append(b, WATCH_RENAMED, path, from);
        keep_bounds(b);
        return true;
}

bool watch_batch_has_young_half(const struct watch_batch *b, uint64_t now_ms, uint64_t ms)
{
        const struct watch_change *c;
        if (b->halves == 0)
                return false;
        list_each (c, &b->changes, link) {
                if (c->is_half && now_ms - c->at_ms < ms)
                        return true;
        }
        return false;
}

/* --- sending notifications ---------------------------------------------------------------------------------------- */

static void write_uri(struct jsonw *w, const char *key, struct slice path)
{
        _buf_ struct buf uri = BUF_INIT(SIZE_MAX / 4);
        must(uri_from_path(&uri, path) == 0);
        jsonw_member_string(w, key, buf_slice(&uri));
}

static void write_change(struct jsonw *w, const struct watch_change *c)
{
        jsonw_object(w);
        write_uri(w, "path", change_path(c));
        jsonw_member_str(w, "kind", kind_names[c->kind]);
        if (c->from)
                write_uri(w, "fromPath", slice_from_str(c->from));
        jsonw_object_end(w);
}

/* Returns the most bytes that a change can take in JSON: each byte of a path takes up to three (percent-encoding), the rest less
 * than 128. */
static size_t wire_size(const struct watch_change *c)
{
        return 3 * (c->path_n + (c->from ? strlen(c->from) : 0)) + 128;
}

/* Sends one notification with as many changes as fit. */
static void send_some(struct watch_batch *b, struct conn *conn, const char *watch_id)
{
        size_t room = MIN((size_t)SEND_BYTES, conn->out.max_message), used = 512;
        struct watch_change *c;
        struct jsonw w;
        conn_notify_begin(conn, "fs/changed", 1024, &w);
        jsonw_member_str(&w, "watchId", watch_id);
        jsonw_key(&w, "events");
        jsonw_array(&w);
        while ((c = list_first(&b->changes, struct watch_change, link))) {
                used += wire_size(c);
                if (used > room && used - wire_size(c) > 512)
                        break; /* this change goes into the next notification */
                if (used > room)
                        b->has_overflowed = true; /* this change alone is larger than the client accepts */
                else
                        write_change(&w, c);
                forget_latest(b, c);
                drop(b, c);
        }
        jsonw_array_end(&w);
        /* `overflow` is sent with the last changes, so that a client that then looks at the files again gets no older changes
         * afterwards. */
        bool tells_overflow = b->has_overflowed && b->count == 0;
        jsonw_member_bool(&w, "overflow", tells_overflow);
        if (tells_overflow)
                b->has_overflowed = false;
        conn_notify_end(conn, &w);
}

/* Sending may end the connection, which frees this batch. So the connection is checked before each use of the batch. */
void watch_batch_send(struct watch_batch *b, struct conn *c, const char *watch_id)
{
        while (conn_is_usable(c) && !watch_batch_is_empty(b))
                send_some(b, c, watch_id);
}
