/* text_rig: for the tests of this directory: readers that give few bytes at a time, and texts that are read from readers. */
#pragma once

#include "base/buf.h"
#include "base/fatal.h"
#include "hunk/place.h"

/* A reader of a text that gives at most `step` bytes at a time, and fails at `fail_at`. */
struct drip {
        struct slice text;
        size_t step, position;
        size_t fail_at; /* 0: never */
        unsigned rewinds;
};

static inline int drip_rewind(void *arg, UNUSED struct err *err)
{
        struct drip *d = arg;

        d->position = 0;
        d->rewinds++;
        return 0;
}

static inline ssize_t drip_read(void *arg, char *buf, size_t n, struct err *err)
{
        struct drip *d = arg;
        size_t take = MIN(MIN(n, d->step), d->text.n - d->position);

        if (d->fail_at && d->position >= d->fail_at)
                return err_set(err, 0, -5, "dripped out");
        if (take)
                memcpy(buf, d->text.p + d->position, take);
        d->position += take;
        return (ssize_t)take;
}

static inline struct reader drip_reader(struct drip *d)
{
        return (struct reader){ drip_rewind, drip_read, d };
}

/* Reads all of a reader, a few bytes at a time, into the arena. */
static inline struct slice rig_read_all(struct arena *a, const struct reader *r, size_t step)
{
        struct err err = ERR_INIT;
        _buf_ struct buf text = BUF_INIT(256 << 20);
        char piece[64];
        ssize_t n;

        must(step <= sizeof(piece));
        while ((n = reader_read(r, piece, step, &err)) > 0)
                must(buf_append(&text, slice_from(piece, (size_t)n)) == 0);
        must(n == 0);
        return slice_from(arena_dup(a, buf_slice(&text)), text.n);
}

/* Parses "*** Update File: f" with the chunks; they must be right. */
static inline const struct hunk *rig_update(struct arena *a, const char *chunks)
{
        struct patch patch;
        struct patch_error error;
        const char *text = arena_printf(a, "*** Begin Patch\n*** Update File: f\n%s*** End Patch\n", chunks);

        must(patch_parse(a, slice_from_str(text), &patch, &error) == 0 && patch.hunk_count == 1);
        return patch.hunks;
}

static inline int rig_sink_write(void *arg, struct slice piece, UNUSED struct err *err)
{
        return buf_append(arg, piece);
}

/* Returns the unified diff of edits. */
static inline const char *rig_diff(struct arena *a, const struct edits *edits, struct slice old,
                                   unsigned context)
{
        struct drip d = { .text = old, .step = 3 };
        struct reader reader = drip_reader(&d);
        struct err err = ERR_INIT;
        _buf_ struct buf text = BUF_INIT(256 << 20);

        must(edits_diff(edits, &reader, context, &(struct edits_sink){ rig_sink_write, &text }, &err) == 0);
        return arena_dup(a, buf_slice(&text));
}
