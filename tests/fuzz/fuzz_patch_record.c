/* fuzz_patch_record: any bytes are read as a record: that gives either a sound list of changes or an error. The list is written and read
 * again; that must give the same record. */
#include "base/fatal.h"
#include "patch/record.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_content(const struct content *c, const struct file_state *state)
{
        if (!c)
                return;
        must(state->kind == FILE_REGULAR && c->size == state->size && c->layers <= CONTENT_LAYERS_MAX);
        for (; c->kind == CONTENT_EDITS; c = c->below) {
                uint64_t at = 0;
                must(c->size == c->edits->new_bytes && c->below->size == c->edits->old_bytes);
                for (size_t i = 0; i < c->edits->count; i++) {
                        const struct edit *e = &c->edits->list[i];
                        must(e->offset >= at && e->removed <= c->below->size &&
                             e->offset <= c->below->size - e->removed);
                        at = e->offset + e->removed;
                }
        }
        must(c->kind == CONTENT_TEXT || c->path[0] == '/');
}

static void check_change(const struct change *c)
{
        must(c->path[0] == '/' && c->path[1] != '\0' && !strstr(c->path, "/../"));
        must(!c->temp || change_is_temp_path(c->temp, c->path));
        must(!c->aside || change_is_temp_path(c->aside, c->path));
        check_content(c->old, &c->before);
        check_content(c->fresh, &c->after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(size + 1);
        _buf_ struct buf once = BUF_INIT(8 * size + 4096);
        _buf_ struct buf twice = BUF_INIT(8 * size + 4096);
        struct changes c;
        must(buf_append(&text, slice_from(data, size)) == 0);
        if (record_read(&a, buf_slice(&text), &c) < 0)
                return 0;
        must(c.cwd[0] == '/');
        for (size_t i = 0; i < c.count; i++)
                check_change(&c.list[i]);
        must(record_write(&once, &c) == 0);
        must(record_read(&a, slice_from(once.p, once.n - 1), &c) == 0);
        must(record_write(&twice, &c) == 0);
        must(slice_eq(buf_slice(&once), buf_slice(&twice)));
        return 0;
}
