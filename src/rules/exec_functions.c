/* exec_functions: the functions that a .rules text calls: prefix_rule, host_executable and network_rule. They check their arguments
 * and add to the set of rules. */
#include "rules/exec_rules_internal.h"

#include "base/limits.h"
#include "base/printable.h"
#include "rules/exec_path.h"

#include <errno.h>

#define PARAMETERS_MAX 5

struct parameter {
        const char *name;
        enum starlark_type type; /* STARLARK_STRING or STARLARK_LIST */
        bool is_required;
};

typedef const struct starlark_value *bound[PARAMETERS_MAX]; /* NULL: not given */

struct function {
        struct parameter parameters[PARAMETERS_MAX];
        size_t count;
        int (*run)(struct exec_loader *loader, const struct starlark_call *call, bound values,
                   struct err *err);
};

/* ---- helpers ---- */

static const char *show(struct exec_loader *loader, struct slice text)
{
        return printable_text(loader->arena, text);
}

/* Copies a text into the set of rules. */
static int keep(struct exec_loader *loader, struct slice text, struct slice *ret, struct err *err)
{
        int r = exec_loader_spend(loader, exec_word_steps(text), err);
        if (r == 0)
                *ret = slice_from(arena_dup(&loader->rules->arena, text), text.n);
        return r;
}

/* Reads a justification, which may be NULL: not given. */
static int read_justification(struct exec_loader *loader, const struct starlark_value *value,
                              struct slice *ret, struct err *err)
{
        size_t i = 0;

        *ret = (struct slice){ 0 };
        if (!value)
                return 0;
        while (i < value->text.n && value->text.p[i] != '\0' && strchr(" \t\n\v\f\r", value->text.p[i]))
                i++;
        if (i == value->text.n)
                return err_set(err, 0, -EINVAL, "invalid rule: justification cannot be empty");
        return keep(loader, value->text, ret, err);
}

static int read_decision(struct exec_loader *loader, struct slice name, enum exec_decision *ret,
                         struct err *err)
{
        if (exec_decision_parse(name, ret))
                return 0;
        return err_set(err, 0, -EINVAL, "invalid decision: %s", show(loader, name));
}

/* ---- prefix_rule ---- */

/* Reads a word of a pattern: a string, or a list of strings. */
static int read_word(struct exec_loader *loader, const struct starlark_value *value,
                     struct exec_pattern_word *ret, struct err *err)
{
        const struct starlark_value *alone[1] = { value };
        bool is_list = value->type == STARLARK_LIST;
        const struct starlark_value *const *items = is_list ? (const void *)value->items : alone;
        size_t count = is_list ? value->count : 1;

        if (!is_list && value->type != STARLARK_STRING)
                return err_set(err, 0, -EINVAL,
                               "invalid pattern element: pattern element must be a string or list of strings "
                               "(got %s)",
                               starlark_type_name(value->type));
        for (size_t i = 0; i < count; i++)
                if (items[i]->type != STARLARK_STRING)
                        return err_set(
                                err, 0, -EINVAL,
                                "invalid pattern element: pattern alternative must be a string (got %s)",
                                starlark_type_name(items[i]->type));
        if (count == 0)
                return err_set(err, 0, -EINVAL,
                               "invalid pattern element: pattern alternatives cannot be empty");

        int r = exec_loader_spend(loader, count, err);
        if (r < 0)
                return r;
        struct slice *alternatives = arena_alloc(&loader->rules->arena, count * sizeof(*alternatives));
        for (size_t i = 0; i < count && r == 0; i++)
                r = keep(loader, items[i]->text, &alternatives[i], err);
        if (r < 0)
                return r;
        *ret = (struct exec_pattern_word){ alternatives, count };
        return 0;
}

static int read_pattern(struct exec_loader *loader, const struct starlark_value *value,
                        struct exec_pattern_word **ret, struct err *err)
{
        if (value->count == 0)
                return err_set(err, 0, -EINVAL, "invalid pattern element: pattern cannot be empty");
        int r = exec_loader_spend(loader, value->count, err);
        if (r < 0)
                return r;
        struct exec_pattern_word *words = arena_alloc(&loader->rules->arena, value->count * sizeof(*words));
        for (size_t i = 0; i < value->count; i++) {
                r = read_word(loader, value->items[i], &words[i], err);
                if (r < 0)
                        return r;
        }
        *ret = words;
        return 0;
}

static int read_examples(struct exec_loader *loader, const struct starlark_value *value,
                         struct exec_example **ret, size_t *ret_count, struct err *err)
{
        size_t count = value ? value->count : 0;
        int r = exec_loader_spend(loader, count, err);
        if (r < 0)
                return r;
        struct exec_example *list = arena_alloc(loader->arena, count * sizeof(*list));

        for (size_t i = 0; i < count; i++) {
                r = exec_example_parse(loader, value->items[i], &list[i], err);
                if (r < 0)
                        return r;
        }
        *ret = list;
        *ret_count = count;
        return 0;
}

/* Adds the rule for one program. */
static void add_rule(struct exec_loader *loader, const struct exec_rule *rule)
{
        struct exec_rules *rules = loader->rules;
        struct exec_rule *one = arena_new(&rules->arena, struct exec_rule);
        struct exec_program *program = map_find(&rules->programs, rule->program);

        *one = *rule;
        if (!program) {
                program = arena_new(&rules->arena, struct exec_program);
                *program = (struct exec_program){ .name = rule->program, .first = one };
                map_put(&rules->programs, program->name, program);
        } else {
                program->last->next = one;
        }
        program->last = one;
        rules->list =
                arena_room(&rules->arena, rules->list, rules->count, &rules->room, sizeof(rules->list[0]));
        rules->list[rules->count++] = one;
}

/* Returns how many steps it costs to compare a command with the rules of one call. */
static size_t comparison_steps(const struct exec_pattern_word *words, size_t count)
{
        size_t steps = 1;

        for (size_t i = 1; i < count; i++)
                for (size_t k = 0; k < words[i].count; k++)
                        steps += exec_word_steps(words[i].alternatives[k]);
        return 1 + words[0].count * steps /
                           4; /* no overflow: all of these words were counted when they were kept */
}

static int prefix_rule(struct exec_loader *loader, const struct starlark_call *call, bound values,
                       struct err *err)
{
        struct exec_rules *rules = loader->rules;
        struct exec_rule rule = { .decision = EXEC_ALLOW,
                                  .text_name = loader->text_name,
                                  .line = call->line };
        struct exec_examples *examples = arena_new(loader->arena, struct exec_examples);
        struct exec_pattern_word *words = NULL;

        int r = values[1] ? read_decision(loader, values[1]->text, &rule.decision, err) : 0;
        if (r == 0)
                r = read_justification(loader, values[4], &rule.justification, err);
        if (r == 0)
                r = read_pattern(loader, values[0], &words, err);
        if (r == 0)
                r = read_examples(loader, values[2], &examples->match, &examples->match_count, err);
        if (r == 0)
                r = read_examples(loader, values[3], &examples->not_match, &examples->not_match_count, err);
        if (r < 0)
                return r;
        if (words[0].count > LIMIT_RULES - rules->count)
                return err_set(err, 0, -E2BIG, "there are more than %d rules", LIMIT_RULES);

        examples->steps = comparison_steps(words, values[0]->count);
        r = exec_loader_spend(loader, examples->steps, err);
        if (r < 0)
                return r;
        examples->first_rule = rules->count;
        examples->rule_count = words[0].count;
        examples->line = call->line;
        examples->column = call->column;
        *loader->examples_end = examples;
        loader->examples_end = &examples->next;
        rule.rest = words + 1;
        rule.rest_count = values[0]->count - 1;
        for (size_t i = 0; i < words[0].count; i++) {
                rule.program = words[0].alternatives[i];
                add_rule(loader, &rule);
        }
        return 0;
}

/* ---- host_executable ---- */

static int read_path(struct exec_loader *loader, const struct starlark_value *value, struct slice name,
                     struct slice *ret, struct err *err)
{
        if (value->type != STARLARK_STRING)
                return err_set(err, 0, -EINVAL,
                               "invalid rule: host_executable paths must be strings (got %s)",
                               starlark_type_name(value->type));
        if (value->text.n == 0 || value->text.p[0] != '/')
                return err_set(err, 0, -EINVAL,
                               "invalid rule: host_executable paths must be absolute (got %s)",
                               show(loader, value->text));
        int r = exec_loader_spend(loader, exec_word_steps(value->text), err);
        if (r < 0)
                return r;
        *ret = exec_path_absolute(&loader->rules->arena, NULL, value->text);
        if (!slice_eq(exec_path_base(*ret), name))
                return err_set(err, 0, -EINVAL,
                               "invalid rule: host_executable path `%s` must have basename `%s`",
                               show(loader, value->text), show(loader, name));
        return 0;
}

static int host_executable(struct exec_loader *loader, UNUSED const struct starlark_call *call, bound values,
                           struct err *err)
{
        struct exec_rules *rules = loader->rules;
        struct slice name = values[0]->text;

        if (name.n == 0)
                return err_set(err, 0, -EINVAL, "invalid rule: host_executable name cannot be empty");
        if (memchr(name.p, '/', name.n) || slice_eq(name, S(".")) || slice_eq(name, S("..")))
                return err_set(err, 0, -EINVAL,
                               "invalid rule: host_executable name must be a bare executable name (got %s)",
                               show(loader, name));
        int r = exec_loader_spend(loader, exec_word_steps(name) + values[1]->count, err);
        if (r < 0)
                return r;
        struct slice *paths = arena_alloc(&rules->arena, values[1]->count * sizeof(*paths));
        for (size_t i = 0; i < values[1]->count; i++) {
                r = read_path(loader, values[1]->items[i], name, &paths[i], err);
                if (r < 0)
                        return r;
        }
        struct exec_host *host = map_find(&rules->hosts, name);
        if (!host) {
                if (map_count(&rules->hosts) == LIMIT_RULES)
                        return err_set(err, 0, -E2BIG, "there are more than %d names of host_executable",
                                       LIMIT_RULES);
                host = arena_new(&rules->arena, struct exec_host);
                r = keep(loader, name, &host->name, err);
                if (r < 0)
                        return r;
                map_put(&rules->hosts, host->name, host);
        }
        host->paths = paths;
        host->count = values[1]->count;
        return 0;
}

/* ---- network_rule ---- */

static int network_rule(struct exec_loader *loader, const struct starlark_call *call, bound values,
                        struct err *err)
{
        struct exec_rules *rules = loader->rules;
        struct exec_network_rule rule = { .text_name = loader->text_name, .line = call->line };
        struct slice decision = values[2]->text;

        rule.protocol = exec_network_protocol(values[1]->text);
        if (!rule.protocol)
                return err_set(err, 0, -EINVAL,
                               "invalid rule: network_rule protocol must be one of http, https, socks5_tcp, "
                               "socks5_udp (got %s)",
                               show(loader, values[1]->text));
        int r = read_decision(loader, slice_eq(decision, S("deny")) ? S("forbidden") : decision,
                              &rule.decision, err);
        if (r == 0)
                r = read_justification(loader, values[3], &rule.justification, err);
        if (r == 0 && values[4])
                r = exec_network_ports(loader, values[4], &rule, err);
        if (r == 0)
                r = exec_loader_spend(loader, exec_word_steps(values[0]->text), err);
        if (r == 0)
                r = exec_network_host(&rules->arena, values[0]->text, &rule.host, err);
        if (r < 0)
                return r;
        if (rules->network_count == LIMIT_RULES)
                return err_set(err, 0, -E2BIG, "there are more than %d network rules", LIMIT_RULES);
        rules->network = arena_room(&rules->arena, rules->network, rules->network_count, &rules->network_room,
                                    sizeof(rules->network[0]));
        rules->network[rules->network_count++] = rule;
        return 0;
}

/* ---- calls ---- */

const char *const exec_function_names[] = { "prefix_rule", "host_executable", "network_rule" };
const size_t exec_function_count = ARRAY_LEN(exec_function_names);

static const struct function functions[] = {
        { { { "pattern", STARLARK_LIST, true },
            { "decision", STARLARK_STRING, false },
            { "match", STARLARK_LIST, false },
            { "not_match", STARLARK_LIST, false },
            { "justification", STARLARK_STRING, false } },
          5,
          prefix_rule },
        { { { "name", STARLARK_STRING, true }, { "paths", STARLARK_LIST, true } }, 2, host_executable },
        { { { "host", STARLARK_STRING, true },
            { "protocol", STARLARK_STRING, true },
            { "decision", STARLARK_STRING, true },
            { "justification", STARLARK_STRING, false },
            { "ports", STARLARK_LIST, false } },
          5,
          network_rule },
};

static size_t find_parameter(const struct function *f, struct slice name)
{
        size_t i = 0;

        while (i < f->count && !slice_eq(name, slice_from_str(f->parameters[i].name)))
                i++;
        return i;
}

/* Gives each parameter its argument. */
static int bind_arguments(struct exec_loader *loader, const struct function *f,
                          const struct starlark_call *call, bound values, struct err *err)
{
        const char *name = exec_function_names[call->function];
        struct slice unknown = { 0 };
        size_t positional = 0;

        for (size_t i = 0; i < call->count; i++) {
                const struct starlark_argument *argument = &call->arguments[i];
                size_t k = argument->name.p ? find_parameter(f, argument->name) : positional++;
                if (k >= f->count) {
                        if (argument->name.p && !unknown.p)
                                unknown = argument->name;
                        continue;
                }
                if (values[k])
                        return err_set(err, 0, -EINVAL, "Argument `%s` occurs more than once",
                                       f->parameters[k].name);
                values[k] = argument->value;
        }
        if (positional > f->count)
                return err_set(err, 0, -EINVAL, "Found %zu extra positional argument(s) for call to %s",
                               positional - f->count, name);
        for (size_t i = 0; i < f->count; i++)
                if (f->parameters[i].is_required && !values[i])
                        return err_set(err, 0, -EINVAL, "Missing parameter `%s` for call to `%s`",
                                       f->parameters[i].name, name);
        if (unknown.p)
                return err_set(err, 0, -EINVAL, "Found `%s` extra named parameter(s) for call to %s",
                               show(loader, unknown), name);
        return 0;
}

int exec_function_call(void *arg, const struct starlark_call *call, struct err *err)
{
        struct exec_loader *loader = arg;
        const struct function *f = &functions[call->function];
        bound values = { NULL };

        int r = bind_arguments(loader, f, call, values, err);
        for (size_t i = 0; i < f->count && r == 0; i++)
                if (values[i] && values[i]->type != f->parameters[i].type)
                        r = err_set(
                                err, 0, -EINVAL,
                                "Type of parameter `%s` doesn't match, expected `%s`, actual `%s (repr: %s)`",
                                f->parameters[i].name,
                                f->parameters[i].type == STARLARK_LIST ? "list" : "str",
                                starlark_type_name(values[i]->type), starlark_repr(loader->arena, values[i]));
        return r < 0 ? r : f->run(loader, call, values, err);
}
