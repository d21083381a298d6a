/* fuzz_install_json: our entry goes into any JSON configuration that is understood, and out of it again, which gives the old bytes. In
 * between the members of others are as they were. The first byte says which form the text has. */
#include "install/json_edit.h"
#include "install/json_plain.h"

#include <errno.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = { "mcp", "\"\\\n" };
static const struct entry entry = { "/bin/f", words, 2 };

static void check(bool cond)
{
        if (!cond)
                abort();
}

/* Every member of `old` but the one named `but` is in `new`, with the same text. */
static void check_members(struct arena *a, const struct json_plain *old, const struct json *old_object,
                          const struct json_plain *new, const struct json *new_object, const char *but)
{
        check(new_object->type == JSON_OBJECT);
        json_each (key, &old->doc, old_object) {
                struct slice name = json_string(a, &old->doc, key);
                if (slice_eq(name, slice_from_str(but)))
                        continue;
                const struct json *value = json_get(&new->doc, new_object, name);
                check(value && value->type == key[1].type);
                check(slice_eq(slice_from(old->text.p + key[1].off, key[1].len),
                               slice_from(new->text.p + value->off, value->len)));
        }
}

static void check_added(struct arena *a, struct slice text, struct slice added,
                        const struct config_shape *shape)
{
        struct json_plain old, new;
        struct err err = ERR_INIT;

        check(json_plain_parse(a, text, shape->form, &old, &err) == 0);
        check(json_plain_parse(a, added, shape->form, &new, &err) == 0);
        check_members(a, &old, json_root(&old.doc), &new, json_root(&new.doc), shape->servers);
        const struct json *before = json_get(&old.doc, json_root(&old.doc), slice_from_str(shape->servers));
        const struct json *after = json_get(&new.doc, json_root(&new.doc), slice_from_str(shape->servers));
        check(after && json_count(&new.doc, after) == (before ? json_count(&old.doc, before) : 0) + 1);
        if (before)
                check_members(a, &old, before, &new, after, "");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice added, back;

        if (size == 0)
                return 0;
        const struct config_shape shape = { data[0] % 3u, "s", data[0] & 4 };
        struct slice text = slice_from(data + 1, size - 1);
        int r = json_edit_add(&a, &text, &shape, &entry, &added, &err);
        if (r < 0) {
                check(err.code == r && err.text[0] && (r == -EINVAL || r == -EEXIST));
        } else if (r == EDIT_CHANGED) {
                check_added(&a, text, added, &shape);
                check(json_edit_add(&a, &added, &shape, &entry, &back, &err) == EDIT_NOTHING);
                check(json_edit_remove(&a, added, &shape, &back, &err) == EDIT_CHANGED);
                check(slice_eq(back, text));
        }
        /* What somebody else has written is taken out so that the rest is understood. */
        r = json_edit_remove(&a, text, &shape, &back, &err);
        check(r >= 0 || r == -EINVAL);
        if (r == EDIT_CHANGED)
                check(json_edit_remove(&a, back, &shape, &added, &err) == EDIT_NOTHING);
        return 0;
}
