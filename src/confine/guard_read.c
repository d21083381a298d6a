/* guard_read: handles events of inotify and notifies the owners of the sandboxes that the events concern. */
#include "confine/guard_internal.h"
#include "sandbox/image.h"

#include "base/born.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define READ_BYTES (64 * 1024)

/* Is the file at `path` still the one that the operation found? A file that was made again may have the old inode number, but it
 * has a later birth time. */
static bool is_as_it_was(const char *path, const struct image_op *op, bool must_be_sure)
{
        struct statx st;
        if (statx(AT_FDCWD, path, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_INO | STATX_BTIME, &st) < 0)
                return false;
        if (makedev(st.stx_dev_major, st.stx_dev_minor) != op->dev || st.stx_ino != op->ino)
                return false;
        return op->born ? statx_born(&st) == op->born : !must_be_sure;
}

bool guard_is_intact(const struct image *i, bool must_be_sure)
{
        const struct image_op *ops = image_at(i, i->ops);
        for (uint32_t n = 0; n < i->op_count; n++) {
                if (!ops[n].is_guarded || ops[n].may_be_missing)
                        continue;
                char path[PATH_MAX];
                int length = snprintf(path, sizeof(path), "/%s", (const char *)image_at(i, ops[n].path));
                if (length >= (int)sizeof(path) || !is_as_it_was(path, &ops[n], must_be_sure))
                        return false;
        }
        return true;
}

/* ---- handling events ---- */

/* Records an event of a hold. Only a broken mask kills the command at once; after other events the owner decides. */
static void hold_take_event(struct guard *g, struct guard_hold *h, enum guard_event event)
{
        if (event == GUARD_BROKEN)
                guard_kill(h);
        if (!list_is_linked(&h->to_tell)) {
                h->event = event;
                list_append(&g->to_tell, &h->to_tell);
        }
        h->event = MAX(h->event, event);
}

/* Records for every hold that events were lost, because each hold may be affected. */
static void all_take_lost(struct guard *g)
{
        const struct watched_name *name;
        struct guarded_name *n;
        for (size_t pos = 0; (name = map_next(&g->names, &pos));)
                list_each (n, &name->guarded, in_name)
                        hold_take_event(g, n->hold, GUARD_LOST);
}

/* Returns what an event means for a name. A removed placeholder may have belonged to another command that has ended; the keeper
 * of this command notices when its own mask is detached (masks.h). No command renames a placeholder. */
static enum guard_event event_kind(const struct guarded_name *n, const struct inotify_event *e)
{
        return n->is_placeholder && !(e->mask & IN_MOVED_FROM) ? GUARD_PLACEHOLDER : GUARD_BROKEN;
}

static void event_take(struct guard *g, const struct inotify_event *e)
{
        if (e->mask & IN_Q_OVERFLOW) {
                all_take_lost(g);
                return;
        }
        size_t length = strnlen(e->name, e->len);
        if (length == 0 || length > NAME_MAX)
                return;
        char room[GUARD_KEY_MAX];
        const struct watched_name *name =
                map_find(&g->names, guard_key(e->wd, slice_from(e->name, length), room));
        struct guarded_name *n;
        if (name)
                list_each (n, &name->guarded, in_name)
                        if (!n->may_go || (e->mask & IN_MOVED_TO))
                                hold_take_event(g, n->hold, event_kind(n, e));
}

/* Reads events once and handles them. Returns the number of bytes that were read; 0 when no event is queued. */
static size_t events_read(struct guard *g, size_t *count)
{
        _Alignas(struct inotify_event) char room[READ_BYTES];
        ssize_t n = read(g->fd, room, sizeof(room));
        for (ssize_t at = 0; at < n;) {
                const struct inotify_event *e = (const void *)(room + at);
                event_take(g, e);
                ++*count;
                at += (ssize_t)(sizeof(*e) + e->len);
        }
        return n > 0 ? (size_t)n : 0;
}

size_t guard_take_events(struct guard *g)
{
        int queued = 0;
        size_t count = 0;
        (void)ioctl(g->fd, FIONREAD, &queued);
        for (size_t done = 0, n; done < (size_t)MAX(queued, 1); done += n) {
                n = events_read(g, &count);
                if (n == 0)
                        break;
        }
        return count;
}

/* ---- notifying the owners ---- */

void guard_read(struct guard *g, void (*told)(void *owner, enum guard_event event))
{
        eventfd_t ignored;
        if (g->has_thread)
                (void)eventfd_read(g->told_fd, &ignored); /* before the list is read: no event is missed */
        struct list now = LIST_INIT(now);
        struct guard_hold *h;
        pthread_mutex_lock(&g->lock);
        (void)guard_take_events(g);
        while ((h = list_first(&g->to_tell, struct guard_hold, to_tell))) {
                list_remove(&h->to_tell);
                list_append(&now, &h->to_tell); /* later events are for the next call */
        }
        while ((h = list_first(&now, struct guard_hold, to_tell))) {
                list_remove(&h->to_tell);
                void *owner = h->owner;
                enum guard_event event = h->event;
                pthread_mutex_unlock(&g->lock); /* the callback may release this hold or others */
                if (owner)
                        told(owner, event);
                pthread_mutex_lock(&g->lock);
        }
        pthread_mutex_unlock(&g->lock);
}
