/* record_test: records come back as they were written, and what is damaged or forged is refused. */
#include "patch/record.h"

#include "unit.h"

#include <errno.h>

#define TEMP "/d/.farhand-patch-0123456789abcdef0123456789abcdef"

static struct edits *one_edit(struct arena *a, uint64_t old_bytes, uint64_t offset, uint64_t removed,
                              struct slice added)
{
        struct edits *e = arena_new(a, struct edits);
        e->list = arena_new(a, struct edit);
        e->list[0] = (struct edit){ .offset = offset, .removed = removed, .added = added };
        e->count = 1;
        e->old_bytes = old_bytes;
        e->new_bytes = old_bytes - removed + added.n;
        return e;
}

/* Makes a list with a change of each kind. */
static struct changes sample(struct arena *a)
{
        struct change *list = arena_zalloc(a, 4 * sizeof(*list));
        struct change_directory *directories = arena_zalloc(a, 2 * sizeof(*directories));
        struct slice old = S("old\n"), fresh = S("new one\n");
        list[0] = (struct change){ .path = "/d/f", .temp = NULL, .is_in_place = true };
        list[0].before =
                (struct file_state){ .kind = FILE_REGULAR, .has_mode = true, .mode = 0640, .links = 2 };
        list[0].after = (struct file_state){ .kind = FILE_REGULAR, .has_mode = true, .mode = 0640 };
        state_set_content(&list[0].before, old);
        state_set_content(&list[0].after, fresh);
        list[0].old = content_from_text(a, old);
        list[0].fresh = content_from_text(a, fresh);
        list[1] = (struct change){ .path = "/d/\xff large", .temp = TEMP };
        list[1].before =
                (struct file_state){ .kind = FILE_REGULAR, .size = 100, .modified_ms = 5, .links = 1 };
        list[1].after = (struct file_state){ .kind = FILE_REGULAR, .size = 103, .modified_ms = -7 };
        const struct content *base = content_from_file(a, "/d/\xff large", 103);
        const struct content *layer = content_edited(a, base, one_edit(a, 103, 10, 5, S("x")));
        list[1].old = content_edited(a, layer, one_edit(a, 99, 99, 0, S("y")));
        list[2] = (struct change){ .path = "/d/link", .aside = TEMP };
        list[2].before = (struct file_state){ .kind = FILE_LINK, .target = "to\xff" };
        list[3] = (struct change){ .path = "/d/new" };
        list[3].after = (struct file_state){ .kind = FILE_REGULAR };
        state_set_content(&list[3].after, S(""));
        directories[0].path = "/d";
        directories[1].path = "/d/e";
        return (struct changes){
                .list = list, .count = 4, .directories = directories, .directory_count = 2, .cwd = "/w"
        };
}

static void eq_state(const struct file_state *a, const struct file_state *b)
{
        eq_int(a->kind, b->kind);
        eq_u64(a->size, b->size);
        eq_int((int)a->modified_ms, (int)b->modified_ms);
        eq_int(a->has_mode, b->has_mode);
        eq_u64(a->mode, b->mode);
        eq_u64(a->links, b->links);
        eq_int(a->has_digest, b->has_digest);
        eq_int(memcmp(a->digest, b->digest, DIGEST_BYTES), 0);
        if (b->target)
                eq_str(a->target, b->target);
}

TEST(a_record_comes_back_as_it_was_written)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        struct changes before = sample(&a), after;

        eq_int(record_write(&text, &before), 0);
        eq_int(text.p[text.n - 1], '\n');
        eq_int(record_read(&a, slice_from(text.p, text.n - 1), &after), 0);
        eq_u64(after.count, before.count);
        eq_u64(after.directory_count, 2);
        eq_str(after.directories[1].path, "/d/e");
        eq_str(after.cwd, "/w");
        for (size_t i = 0; i < after.count; i++) {
                const struct change *x = &after.list[i], *y = &before.list[i];
                eq_str(x->path, y->path);
                eq_state(&x->before, &y->before);
                eq_state(&x->after, &y->after);
                eq_int(!!x->temp, !!y->temp);
                eq_int(!!x->aside, !!y->aside);
                eq_int(!!x->old, !!y->old);
        }
        eq_int(after.list[0].is_in_place, true);
        eq_slice(after.list[0].old->text, S("old\n"));
        eq_slice(after.list[0].fresh->text, S("new one\n"));
        eq_u64(after.list[1].old->size, 100);
        eq_u64(after.list[1].old->layers, 2);
}

TEST(a_record_is_the_same_when_it_is_written_again)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        _buf_ struct buf again = BUF_INIT(65536);
        struct changes before = sample(&a), after;

        eq_int(record_write(&text, &before), 0);
        eq_int(record_read(&a, slice_from(text.p, text.n - 1), &after), 0);
        eq_int(record_write(&again, &after), 0);
        eq_slice(buf_slice(&again), buf_slice(&text));
}

TEST(every_truncation_is_refused)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(65536);
        struct changes c = sample(&a), ret;

        eq_int(record_write(&text, &c), 0);
        for (size_t n = 0; n < text.n - 1; n++) {
                _buf_ struct buf part = BUF_INIT(65536);
                eq_int(buf_append(&part, slice_from(text.p, n)), 0);
                eq_int(record_read(&a, buf_slice(&part), &ret), -EINVAL);
        }
}

TEST(a_record_that_is_too_long_is_not_written)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(200);
        struct changes c = sample(&a);
        eq_int(record_write(&text, &c), -ENOBUFS);
}

TEST(temporary_names_belong_to_their_file)
{
        _arena_ struct arena a = ARENA_INIT;
        eq_int(change_is_temp_path(change_temp_path(&a, "/d/f"), "/d/f"), true);
        eq_int(change_is_temp_path(change_temp_path(&a, "/f"), "/f"), true);
        eq_int(change_is_temp_path(TEMP, "/d/f"), true);
        eq_int(change_is_temp_path(TEMP, "/e/f"), false);
        eq_int(change_is_temp_path(TEMP, "/d/e/f"), false);
        eq_int(change_is_temp_path(TEMP "0", "/d/f"), false);
        eq_int(change_is_temp_path("/d/.farhand-patch-", "/d/f"), false);
        eq_int(change_is_temp_path("/d/.farhand-patch-0123456789abcdef0123456789abcdeg", "/d/f"), false);
        eq_int(change_is_temp_path("/etc/passwd", "/etc/f"), false);
}
