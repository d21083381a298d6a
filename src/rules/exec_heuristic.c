/* exec_heuristic: looks for commands that delete without asking. */
#include "rules/exec_heuristic.h"

#include "rules/shell_commands.h"

struct look {
        struct arena *arena;
        unsigned depth; /* how many layers were seen through */
};

static bool is_destructive(struct look look, const struct slice *words, size_t count);

static bool is_option(struct slice word)
{
        return word.n > 0 && word.p[0] == '-';
}

static bool has_letter(struct slice word, char letter)
{
        return word.n > 1 && word.p[0] == '-' && word.p[1] != '-' && memchr(word.p, letter, word.n);
}

static struct slice base_name(struct slice path)
{
        size_t start = path.n;

        while (start > 0 && path.p[start - 1] != '/')
                start--;
        return slice_from(path.p + start, path.n - start);
}

/* Looks at a command inside of one more layer. */
static bool is_destructive_inside(struct look look, const struct slice *words, size_t count)
{
        look.depth++;
        return is_destructive(look, words, count);
}

static bool is_forced(const struct slice *arguments, size_t count)
{
        for (size_t i = 0; i < count && !slice_eq(arguments[i], S("--")); i++)
                if (slice_eq(arguments[i], S("--force")) || has_letter(arguments[i], 'f'))
                        return true;
        return false;
}

/* Returns how many words of `env` or `sudo` stand in front of the command that it runs. `valued` are options of one letter whose value
 * is the next word. */
static size_t skip_prefix(const struct slice *words, size_t count, const char *valued)
{
        size_t i = 1;

        for (; i < count; i++) {
                if (slice_eq(words[i], S("--")))
                        return i + 1;
                bool has_value = words[i].n == 2 && is_option(words[i]) && strchr(valued, words[i].p[1]);
                bool is_assignment =
                        words[i].n > 0 && words[i].p[0] != '=' && memchr(words[i].p, '=', words[i].n);
                if (!is_option(words[i]) && !is_assignment)
                        return i;
                i += has_value;
        }
        return count;
}

static bool on_shell_command(void *arg, const struct slice *words, size_t count)
{
        return is_destructive_inside(*(struct look *)arg, words, count);
}

static bool is_destructive_text(struct look look, struct slice text)
{
        return shell_commands_any(look.arena, text, on_shell_command, &look);
}

/* Looks at `sh -c TEXT`, with other options before it. */
static bool is_destructive_shell(struct look look, const struct slice *words, size_t count)
{
        bool has_text = false;
        size_t i = 1;

        for (; i < count && (is_option(words[i]) || (words[i].n > 0 && words[i].p[0] == '+')); i++) {
                has_text = has_text || has_letter(words[i], 'c');
                bool is_last = slice_eq(words[i], S("--"));
                if (words[i].n == 2 && (words[i].p[1] == 'o' || words[i].p[1] == 'O'))
                        i++;
                if (is_last) {
                        i++;
                        break;
                }
        }
        return has_text && i < count && is_destructive_text(look, words[i]);
}

/* Looks at `trap ACTION SIGNAL…`: the action is the text of a script. */
static bool is_destructive_trap(struct look look, const struct slice *words, size_t count)
{
        size_t i = count > 1 && slice_eq(words[1], S("--")) ? 2 : 1;

        if (i >= count || is_option(words[i]))
                return false;
        look.depth++;
        return is_destructive_text(look, words[i]);
}

static bool is_destructive(struct look look, const struct slice *words, size_t count)
{
        static const char *const shells[] = { "sh", "bash", "zsh", "dash", "ksh" };

        if (look.depth > EXEC_HEURISTIC_DEPTH)
                return true;
        if (count == 0)
                return false;
        struct slice name = base_name(words[0]);
        if (slice_eq(name, S("rm")))
                return is_forced(words + 1, count - 1);
        bool is_sudo = slice_eq(name, S("sudo"));
        if (is_sudo || slice_eq(name, S("env"))) {
                size_t skip = skip_prefix(words, count, is_sudo ? "CDghpRrTtUu" : "CuS");
                return is_destructive_inside(look, words + skip, count - skip);
        }
        if (slice_eq(name, S("trap")))
                return is_destructive_trap(look, words, count);
        if (slice_find(name, shells, ARRAY_LEN(shells)) < ARRAY_LEN(shells))
                return is_destructive_shell(look, words, count);
        return false;
}

enum exec_decision exec_heuristic_decide(const struct slice *words, size_t count)
{
        _arena_ struct arena a = ARENA_INIT;
        struct look look = { .arena = &a };

        return is_destructive(look, words, count) ? EXEC_PROMPT : EXEC_ALLOW;
}
