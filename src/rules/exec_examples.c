/* exec_examples: the examples of prefix rules: commands that must match the rules of their call, and commands that must not. */
#include "rules/exec_rules_internal.h"

#include "base/printable.h"
#include "rules/shell_words.h"

#include <errno.h>

/* ---- reading ---- */

static int refuse(struct err *err, const char *why)
{
        return err_set(err, 0, -EINVAL, "invalid example: %s", why);
}

static int parse_list(struct exec_loader *loader, const struct starlark_value *value,
                      struct exec_example *ret, struct err *err)
{
        int r = exec_loader_spend(loader, value->count, err);
        if (r < 0)
                return r;
        struct slice *words = arena_alloc(loader->arena, value->count * sizeof(*words));

        for (size_t i = 0; i < value->count; i++) {
                if (value->items[i]->type != STARLARK_STRING)
                        return err_set(err, 0, -EINVAL,
                                       "invalid example: example tokens must be strings (got %s)",
                                       starlark_type_name(value->items[i]->type));
                words[i] = value->items[i]->text;
                r = exec_loader_spend(loader, exec_word_steps(words[i]), err);
                if (r < 0)
                        return r;
        }
        if (value->count == 0)
                return refuse(err, "example cannot be an empty list");
        *ret = (struct exec_example){ words, value->count };
        return 0;
}

int exec_example_parse(struct exec_loader *loader, const struct starlark_value *value,
                       struct exec_example *ret, struct err *err)
{
        if (value->type == STARLARK_LIST)
                return parse_list(loader, value, ret, err);
        if (value->type != STARLARK_STRING)
                return err_set(err, 0, -EINVAL,
                               "invalid example: example must be a string or list of strings (got %s)",
                               starlark_type_name(value->type));
        int r = exec_loader_spend(loader, 1 + value->text.n / 2,
                                  err); /* n bytes are at most 1 + n / 2 words */
        if (r < 0)
                return r;
        if (shell_words_split(loader->arena, value->text, &ret->words, &ret->count) < 0)
                return refuse(err, "example string has invalid shell syntax");
        return ret->count > 0 ? 0 : refuse(err, "example cannot be an empty string");
}

/* ---- checking ---- */

/* Returns the first rule of the call that matches the example, or NULL. */
static const struct exec_rule *find_match(const struct exec_loader *loader,
                                          const struct exec_examples *examples,
                                          const struct exec_example *example, const char *cwd)
{
        const struct exec_rules *rules = loader->rules;
        struct exec_rule *const *own = rules->list + examples->first_rule;
        const struct exec_command command = { .words = example->words, .count = example->count, .cwd = cwd };
        struct slice path, program = example->words[0];

        for (int round = 0; round < 2; round++) {
                for (size_t i = 0; i < examples->rule_count; i++)
                        if (exec_rule_matches(own[i], program, example->words, example->count))
                                return own[i];
                if (round == 0 && !exec_rules_resolve(rules, loader->arena, &command, &path, &program))
                        return NULL;
        }
        return NULL;
}

/* Returns the words of a rule, for errors: `git reset|… --hard`. */
static const char *show_rule(struct arena *a, const struct exec_rule *rule)
{
        const char *text = shell_words_show(a, &rule->program, 1);

        for (size_t i = 0; i < rule->rest_count && i < 16; i++) {
                const struct exec_pattern_word *word = &rule->rest[i];
                text = arena_printf(a, "%s %s%s", text, shell_words_show(a, word->alternatives, 1),
                                    word->count > 1 ? "|…" : "");
        }
        return rule->rest_count > 16 ? arena_printf(a, "%s …", text) : text;
}

static int check(struct exec_loader *loader, const struct exec_examples *examples, const char *cwd,
                 struct err *err)
{
        struct arena *a = loader->arena;
        int r = exec_loader_spend(loader,
                                  examples->steps * (examples->match_count + examples->not_match_count), err);
        if (r < 0)
                return r;

        for (size_t i = 0; i < examples->not_match_count; i++) {
                const struct exec_example *example = &examples->not_match[i];
                const struct exec_rule *rule = find_match(loader, examples, example, cwd);
                if (rule)
                        return err_set(err, 0, -EINVAL, "expected example to not match rule `%s`: %s",
                                       show_rule(a, rule),
                                       shell_words_show(a, example->words, example->count));
        }
        for (size_t i = 0; i < examples->match_count; i++) {
                const struct exec_example *example = &examples->match[i];
                if (!find_match(loader, examples, example, cwd))
                        return err_set(err, 0, -EINVAL,
                                       "expected every example to match at least one rule. rules: "
                                       "[\"%s\"%s]; unmatched "
                                       "examples: [\"%s\"]",
                                       show_rule(a, loader->rules->list[examples->first_rule]),
                                       examples->rule_count > 1 ? ", …" : "",
                                       shell_words_show(a, example->words, example->count));
        }
        return 0;
}

int exec_examples_check(struct exec_loader *loader, const char *cwd, struct err *err)
{
        for (const struct exec_examples *e = loader->examples; e; e = e->next)
                if (check(loader, e, cwd, err) < 0)
                        return err_wrap(err, "%s:%u:%u", printable_str(loader->arena, loader->text_name),
                                        e->line, e->column);
        return 0;
}
