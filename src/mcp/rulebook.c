/* rulebook: reads the rules of the user, looks commands up in them, and adds rules. */
#include "mcp/rulebook.h"

#include "base/mem.h"
#include "cli/rules.h"

#include <errno.h>

struct rulebook {
        struct arena strings; /* holds `texts` */
        struct unified_rules texts;
        struct exec_rules *rules;
        struct arena own; /* holds `file` and `files` */
        const char *file;
        struct arg_list files;
};

/* Reads all rules again. After an error the rulebook keeps what it had. */
static int read_all(struct rulebook *b, struct err *err)
{
        struct arena a = ARENA_INIT;
        struct exec_rules_text *texts;
        size_t count;
        int r = rules_files_read(&a, &b->files, true, &texts, &count, err);
        struct exec_rules *rules = r < 0 ? NULL : exec_rules_new(texts, count, rules_cwd(&a), err);
        if (!rules) {
                arena_release(&a);
                return r < 0 ? r : err->code;
        }
        struct farhand_rules_text *list = arena_zalloc(&a, (count + 1) * sizeof(*list));
        for (size_t i = 0; i < count; i++)
                list[i] = (struct farhand_rules_text){ texts[i].name, arena_dup(&a, texts[i].text) };
        exec_rules_free(b->rules);
        arena_release(&b->strings);
        b->strings = a;
        b->rules = rules;
        b->texts = (struct unified_rules){ list, count };
        return 0;
}

struct rulebook *rulebook_open(const struct arg_list *files, struct err *err)
{
        struct rulebook *b = mem_new(struct rulebook);
        const char **items = arena_zalloc(&b->own, (files->count + 1) * sizeof(*items));
        for (size_t i = 0; i < files->count; i++)
                items[i] = arena_dup(&b->own, slice_from_str(files->items[i]));
        b->files = (struct arg_list){ .items = items, .count = files->count };
        b->file = rules_file_default(&b->own);
        if (read_all(b, err) < 0) {
                rulebook_free(b);
                return NULL;
        }
        return b;
}

void rulebook_free(struct rulebook *b)
{
        if (!b)
                return;
        exec_rules_free(b->rules);
        arena_release(&b->strings);
        arena_release(&b->own);
        free(b);
}

const struct unified_rules *rulebook_texts(const struct rulebook *b)
{
        return &b->texts;
}

const char *rulebook_file(const struct rulebook *b)
{
        return b->file;
}

/* ---- words ---- */

static struct slice *slices(struct arena *a, const char *const *words, size_t *ret_count)
{
        size_t n = 0;
        while (words[n])
                n++;
        struct slice *list = arena_zalloc(a, (n + 1) * sizeof(*list));
        for (size_t i = 0; i < n; i++)
                list[i] = slice_from_str(words[i]);
        *ret_count = n;
        return list;
}

bool rulebook_allows(const struct rulebook *b, const char *const *words)
{
        _arena_ struct arena a = ARENA_INIT;
        struct exec_command command = { 0 };
        struct exec_verdict v;
        bool is_allowed = false;
        command.words = slices(&a, words, &command.count);
        exec_rules_match(b->rules, &a, &command, &v);
        for (size_t i = 0; i < v.count; i++) {
                const struct exec_rule *rule = v.matches[i];
                bool is_whole = rule->rest_count + 1 == command.count;
                if (rule->decision == EXEC_FORBIDDEN || (is_whole && rule->decision == EXEC_PROMPT))
                        return false;
                is_allowed |= is_whole;
        }
        return is_allowed;
}

static struct exec_rule_addition addition_of(struct arena *a, const char *const *words)
{
        struct exec_rule_addition add = { .decision = EXEC_ALLOW };
        add.words = slices(a, words, &add.count);
        return add;
}

const char *rulebook_line(const struct rulebook *b, struct arena *a, const char *const *words)
{
        const struct exec_rule_addition add = addition_of(a, words);
        const struct exec_rules_text none = { "", S("") };
        struct err err = ERR_INIT;
        struct slice text;
        if (!b->file || words[0][0] != '/' || exec_rules_add(a, &none, NULL, &add, &text, &err) < 0)
                return NULL;
        return arena_dup(a, slice_trim(text));
}

int rulebook_add(struct rulebook *b, const char *const *words, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        const struct exec_rule_addition add = addition_of(&a, words);
        int r = b->file ? rules_file_add(&a, b->file, &add, err)
                        : err_set(err, 0, -ENOENT, "no file for rules");
        return r < 0 ? r : read_all(b, err);
}

/* ---- hosts ---- */

const struct exec_rules *rulebook_rules(const struct rulebook *b)
{
        return b->rules;
}

const char *rulebook_host_line(const struct rulebook *b, struct arena *a,
                               const struct exec_network_addition *addition)
{
        return b->file ? rules_network_line(a, addition) : NULL;
}

int rulebook_add_host(struct rulebook *b, const struct exec_network_addition *addition, struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        int r = b->file ? rules_file_add_network(&a, b->file, addition, err)
                        : err_set(err, 0, -ENOENT, "no file for rules");
        return r < 0 ? r : read_all(b, err);
}
