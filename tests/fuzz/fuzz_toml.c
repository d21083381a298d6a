/* fuzz_toml: the parser makes of any bytes either a sound tree or an error with its line. The tree, and each part of it that a path
 * selects, is written as TOML again; parsing that must give an equal tree. */
#include "base/toml_write.h"
#include "base/utf8.h"

#define WRITTEN_MAX (1 << 20)

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

static void check_written(struct arena *a, const struct toml *table)
{
        _buf_ struct buf text = BUF_INIT(WRITTEN_MAX), again = BUF_INIT(WRITTEN_MAX);
        struct err err = ERR_INIT;

        if (toml_write(&text, table) < 0)
                return; /* the written text is too long */
        const struct toml *copy = toml_parse(a, buf_slice(&text), &err);
        check(copy && toml_write(&again, copy) == 0 && slice_eq(buf_slice(&text), buf_slice(&again)));
}

/* Selects the last member of each table, from the root down, and checks the written form of that part. */
static void check_selected(struct arena *a, const struct toml *root)
{
        struct slice keys[33];
        size_t depth = 0;

        for (const struct toml *t = root; t->type == TOML_TABLE && t->first; depth++) {
                for (t = t->first; t->next;)
                        t = t->next;
                check(depth < ARRAY_LEN(keys));
                keys[depth] = t->key;
                const struct toml_path path = { keys, depth + 1 };
                const struct toml *part = toml_select(a, root, &path, 1);
                check(part && part->first && !part->first->next && slice_eq(part->first->key, keys[0]));
                check_written(a, part);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _arena_ struct arena a = ARENA_INIT;
        struct err err = ERR_INIT;
        const struct toml *root = toml_parse(&a, slice_from(data, size), &err);

        if (!root) {
                check(err.code < 0 && strncmp(err.text, "line ", 5) == 0);
                return 0;
        }
        check_tree(root, 0);
        check_written(&a, root);
        check_selected(&a, root);
        return 0;
}
