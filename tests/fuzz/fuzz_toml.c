/* fuzz_toml: an answer for every file; a tree that is sound, or a message that says where. */
#include "base/toml.h"
#include "base/utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool cond)
{
        if (!cond)
                abort();
}

static void check_tree(const struct toml *t, unsigned depth)
{
        check(depth <= 33);
        check(t->line >= 1 && t->column >= 1);
        check(t->type == TOML_TABLE || t->type == TOML_ARRAY || !t->first);
        check(t->type != TOML_STRING || (utf8_is_valid(t->string) && !slice_has_nul(t->string)));
        for (const struct toml *m = t->first; m; m = m->next) {
                check(t->type != TOML_TABLE || (utf8_is_valid(m->key) && toml_find(t, m->key) == m));
                check_tree(m, depth + 1);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(&a, slice_from(data, size), &err);

        if (root)
                check_tree(root, 0);
        else
                check(err.code < 0 && strncmp(err.text, "line ", 5) == 0);
        return 0;
}
