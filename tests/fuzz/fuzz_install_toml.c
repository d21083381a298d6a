/* fuzz_install_toml: our table goes into any TOML configuration that is understood, and out of it again, which gives the old bytes. In
 * between everything else has the values that it had. */
#include "base/toml_write.h"
#include "install/toml_edit.h"

#include <errno.h>

#define WRITTEN_MAX (1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const words[] = { "mcp", "\"\\\n" };
static const struct entry entry = { "/bin/f", words, 2 };
static const struct config_shape shape = { FORM_TOML, "s", false };

static void check(bool cond)
{
        if (!cond)
                abort();
}

static struct slice without_mark(struct slice text)
{
        return slice_starts(text, S("\xef\xbb\xbf")) ? slice_from(text.p + 3, text.n - 3) : text;
}

/* Writes a text without our table, and without the table of the servers when nothing else is in it. */
static bool write_rest(struct arena *a, struct slice text, struct buf *out)
{
        struct err err = ERR_INIT;
        struct toml *root = toml_parse(a, without_mark(text), &err);

        check(root);
        for (struct toml **m = &root->first; *m; m = &(*m)->next) {
                if (!slice_eq((*m)->key, S("s")) || (*m)->type != TOML_TABLE)
                        continue;
                for (struct toml **n = &(*m)->first; *n; n = &(*n)->next)
                        if (slice_eq((*n)->key, S("farhand"))) {
                                *n = (*n)->next;
                                break;
                        }
                if (!(*m)->first) {
                        *m = (*m)->next;
                        break;
                }
        }
        return toml_write(out, root) == 0;
}

static void check_rest(struct arena *a, struct slice text, struct slice added)
{
        _buf_ struct buf old = BUF_INIT(WRITTEN_MAX), new = BUF_INIT(WRITTEN_MAX);

        if (write_rest(a, text, &old) && write_rest(a, added, &new))
                check(slice_eq(buf_slice(&old), buf_slice(&new)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        struct slice text = slice_from(data, size), added, back;

        int r = toml_edit_add(&a, &text, &shape, &entry, &added, &err);
        if (r < 0) {
                check(err.code < 0 && err.text[0]);
        } else if (r == EDIT_CHANGED) {
                check_rest(&a, text, added);
                check(toml_edit_add(&a, &added, &shape, &entry, &back, &err) == EDIT_NOTHING);
                check(toml_edit_remove(&a, added, &shape, &back, &err) == EDIT_CHANGED);
                check(slice_eq(back, text));
        }
        r = toml_edit_remove(&a, text, &shape, &back, &err);
        if (r == EDIT_CHANGED)
                check(toml_edit_remove(&a, back, &shape, &added, &err) == EDIT_NOTHING);
        return 0;
}
