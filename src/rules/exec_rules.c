/* exec_rules: makes sets of rules, and matches commands with them. */
#include "rules/exec_rules_internal.h"

#include "base/limits.h"
#include "base/mem.h"
#include "base/printable.h"
#include "rules/exec_path.h"

#include <errno.h>

static const char *const decision_names[] = { "allow", "prompt", "forbidden" };

const char *exec_decision_name(enum exec_decision decision)
{
        return decision_names[decision];
}

bool exec_decision_parse(struct slice name, enum exec_decision *ret)
{
        size_t i = slice_find(name, decision_names, ARRAY_LEN(decision_names));
        if (i == ARRAY_LEN(decision_names))
                return false;
        *ret = (enum exec_decision)i;
        return true;
}

/* ---- making a set ---- */

int exec_loader_spend(struct exec_loader *loader, size_t steps, struct err *err)
{
        if (*loader->steps < steps)
                return err_set(err, 0, -E2BIG, "the rules are too large: they need more than %d steps",
                               LIMIT_RULES_STEPS);
        *loader->steps -= steps;
        return 0;
}

/* Loads one text. The texts before it are loaded. */
static int load(struct exec_rules *rules, const struct exec_rules_text *text, const char *cwd, size_t *steps,
                struct err *err)
{
        _arena_ struct arena a = ARENA_INIT;
        struct exec_loader loader = {
                .rules = rules,
                .arena = &a,
                .text_name = arena_dup(&rules->arena, slice_from_str(text->name)),
                .steps = steps,
        };
        loader.examples_end = &loader.examples;
        const struct starlark_program program = {
                .name = text->name,
                .text = text->text,
                .functions = exec_function_names,
                .function_count = exec_function_count,
                .call = exec_function_call,
                .arg = &loader,
                .steps = steps,
        };
        int r = starlark_run(&a, &program, err);
        return r < 0 ? r : exec_examples_check(&loader, cwd, err);
}

struct exec_rules *exec_rules_new(const struct exec_rules_text *texts, size_t count, const char *cwd,
                                  struct err *err)
{
        struct exec_rules *rules = mem_new(struct exec_rules);
        size_t steps = LIMIT_RULES_STEPS, bytes = 0;
        int r = 0;

        map_init(&rules->programs);
        map_init(&rules->hosts);
        for (size_t i = 0; i < count && r == 0; i++) {
                _arena_ struct arena a = ARENA_INIT;
                if (ckd_add(&bytes, bytes, texts[i].text.n) || bytes > LIMIT_RULES_BYTES)
                        r = err_set(err, 0, -EFBIG, "%s:1:1: the rules have more than %d bytes in all",
                                    printable_str(&a, texts[i].name), LIMIT_RULES_BYTES);
                else
                        r = load(rules, &texts[i], cwd, &steps, err);
        }
        if (r == 0)
                return rules;
        exec_rules_free(rules);
        return NULL;
}

void exec_rules_free(struct exec_rules *rules)
{
        if (!rules)
                return;
        map_release(&rules->programs);
        map_release(&rules->hosts);
        arena_release(&rules->arena);
        free(rules);
}

size_t exec_rules_count(const struct exec_rules *rules)
{
        return rules->count;
}

const struct exec_network_rule *exec_rules_network(const struct exec_rules *rules, size_t *ret_count)
{
        *ret_count = rules->network_count;
        return rules->network;
}

/* ---- matching ---- */

bool exec_rule_matches(const struct exec_rule *rule, struct slice program, const struct slice *words,
                       size_t count)
{
        if (count <= rule->rest_count || !slice_eq(rule->program, program))
                return false;
        for (size_t i = 0; i < rule->rest_count; i++) {
                const struct exec_pattern_word *word = &rule->rest[i];
                size_t k = 0;
                while (k < word->count && !slice_eq(word->alternatives[k], words[i + 1]))
                        k++;
                if (k == word->count)
                        return false;
        }
        return true;
}

bool exec_rules_resolve(const struct exec_rules *rules, struct arena *a, const struct exec_command *command,
                        struct slice *ret_path, struct slice *ret_base)
{
        struct slice path = exec_path_absolute(a, command->cwd, command->words[0]);
        struct slice base = path.p ? exec_path_base(path) : path;
        if (base.n == 0)
                return false;

        const struct exec_host *host = map_find(&rules->hosts, base);
        bool is_listed = !host;
        for (size_t i = 0; host && i < host->count && !is_listed; i++)
                is_listed = slice_eq(host->paths[i], path);
        if (!is_listed)
                return false;
        *ret_path = path;
        *ret_base = base;
        return true;
}

/* Collects the matching rules of a program. */
static void match_program(const struct exec_rules *rules, struct arena *a, const struct exec_command *command,
                          struct slice program, struct exec_verdict *v, size_t *room)
{
        const struct exec_program *found = map_find(&rules->programs, program);

        v->program = program;
        for (const struct exec_rule *rule = found ? found->first : NULL; rule; rule = rule->next) {
                if (!exec_rule_matches(rule, program, command->words, command->count))
                        continue;
                v->matches = arena_room(a, (void *)v->matches, v->count, room, sizeof(v->matches[0]));
                v->matches[v->count++] = rule;
                v->decision = MAX(v->decision, rule->decision);
        }
}

void exec_rules_match(const struct exec_rules *rules, struct arena *a, const struct exec_command *command,
                      struct exec_verdict *ret)
{
        struct slice path, base;
        size_t room = 0;

        *ret = (struct exec_verdict){ .decision = EXEC_ALLOW };
        if (command->count == 0)
                return;
        match_program(rules, a, command, command->words[0], ret, &room);
        size_t count = ret->count;
        bool is_resolving = command->is_resolving && (count == 0 || command->is_resolving_always);
        if (!is_resolving || !exec_rules_resolve(rules, a, command, &path, &base) ||
            slice_eq(base, command->words[0]))
                return;
        match_program(rules, a, command, base, ret, &room);
        if (ret->count > count)
                ret->resolved = path;
}
