/* reach_refusal: the newest refusal of each errno, and the one that made a request fail. */
#include "reach/reach_internal.h"

#include <errno.h>

struct kept {
        int e; /* errno; 0: nothing is kept */
        enum reach_operation operation;
        struct reach_reason reason;
        size_t n;
        char path[PATH_MAX];
};

/* The errnos of refusals. */
enum { SLOT_ACCES, SLOT_ROFS, SLOT_NOENT, SLOT_BUSY, SLOT_EXIST, SLOT_NOTDIR, SLOT_ISDIR, SLOTS };

static struct kept slots[SLOTS];
static struct kept blamed;
static enum reach_operation intended;
static int noted; /* the errno that refusal_note was called with since the last refusal_settle */

static struct kept *slot_of(int e)
{
        switch (e) {
        case EACCES:
                return &slots[SLOT_ACCES];
        case EROFS:
                return &slots[SLOT_ROFS];
        case ENOENT:
                return &slots[SLOT_NOENT];
        case EBUSY:
                return &slots[SLOT_BUSY];
        case EEXIST:
                return &slots[SLOT_EXIST];
        case ENOTDIR:
                return &slots[SLOT_NOTDIR];
        case EISDIR:
                return &slots[SLOT_ISDIR];
        default:
                return NULL;
        }
}

void reach_begin(enum reach_operation operation)
{
        if (!reach_is_limited())
                return;
        for (size_t i = 0; i < SLOTS; i++)
                slots[i].e = 0;
        blamed.e = noted = 0;
        intended = operation;
}

void reach_intend(enum reach_operation operation)
{
        if (reach_is_limited())
                intended = operation;
}

enum reach_operation reach_intended(void)
{
        return intended;
}

void refusal_note(int r, enum reach_operation operation, const struct reach_reason *reason, struct slice path)
{
        struct kept *slot = slot_of(-r);
        if (!slot)
                return;
        slot->e = noted = -r;
        slot->operation = operation;
        slot->reason = *reason;
        slot->n = MIN(path.n, sizeof(slot->path));
        memcpy(slot->path, path.p, slot->n);
}

int refusal_settle(int r)
{
        struct kept *slot = r < 0 && noted != -r ? slot_of(-r) : NULL;
        if (slot)
                slot->e = 0;
        noted = 0;
        return r;
}

void reach_meant_name(int r, struct slice name)
{
        struct kept *slot = reach_is_limited() ? slot_of(-r) : NULL;
        if (!slot || slot->e != -r)
                return;
        size_t slash = slot->n > 1;
        if (slot->n + slash + name.n > sizeof(slot->path))
                return;
        if (slash)
                slot->path[slot->n++] = '/';
        memcpy(slot->path + slot->n, name.p, name.n);
        slot->n += name.n;
}

void reach_meant_instead(int r, struct slice name)
{
        struct kept *slot = reach_is_limited() ? slot_of(-r) : NULL;
        if (!slot || slot->e != -r)
                return;
        while (slot->n > 1 && slot->path[slot->n - 1] != '/')
                slot->n--;
        if (slot->n > 1)
                slot->n--;
        reach_meant_name(r, name);
}

static void kept_copy(struct kept *to, const struct kept *from)
{
        to->e = from->e;
        to->operation = from->operation;
        to->reason = from->reason;
        to->n = from->n;
        memcpy(to->path, from->path, from->n);
}

void reach_blame(int e)
{
        const struct kept *slot = slot_of(e);
        if (!reach_is_limited())
                return;
        blamed.e = 0;
        if (slot && slot->e == e)
                kept_copy(&blamed, slot);
}

bool reach_blamed(int e, struct reach_refusal *ret)
{
        if (!reach_is_limited() || e == 0 || blamed.e != e)
                return false;
        *ret = (struct reach_refusal){ .operation = blamed.operation,
                                       .path = slice_from(blamed.path, blamed.n),
                                       .reason = blamed.reason };
        return true;
}
