/* shell: reads the few shell scripts that are a call of apply_patch and nothing else. */
#include "hunk/shell.h"

#include "hunk/parse.h"

/* The part of a script that was not read yet. */
struct script {
        struct slice rest;
};

static bool is_one_of(char c, const char *set)
{
        return c && strchr(set, c);
}

/* Skips blanks; with `lines` also ends of lines. Returns whether there were any. */
static bool skip_blanks(struct script *s, bool lines)
{
        size_t n = 0;

        while (n < s->rest.n && is_one_of(s->rest.p[n], lines ? " \t\n" : " \t"))
                n++;
        if (n) /* s->rest.p may be NULL behind the last line, and C allows no addition to NULL */
                s->rest = slice_from(s->rest.p + n, s->rest.n - n);
        return n > 0;
}

/* Takes a text; returns false when the script does not go on with that text. */
static bool take(struct script *s, struct slice text)
{
        if (!slice_starts(s->rest, text))
                return false;
        s->rest = slice_from(s->rest.p + text.n, s->rest.n - text.n);
        return true;
}

/* Takes the longest run of characters that mean only themselves to every shell. */
static struct slice take_plain(struct script *s, const char *others)
{
        size_t n = 0;

        for (; n < s->rest.n; n++) {
                unsigned char c = (unsigned char)s->rest.p[n];
                bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
                if (!is_letter && c < 0x80 && !is_one_of((char)c, others))
                        break;
        }
        struct slice word = slice_from(s->rest.p, n);
        s->rest = slice_from(s->rest.p + n, s->rest.n - n);
        return word;
}

/* Takes text between quotation marks in which nothing means anything else; false when there is none. */
static bool take_quoted(struct script *s, char quote, struct slice *ret)
{
        if (!s->rest.n || s->rest.p[0] != quote)
                return false;
        const char *start = s->rest.p + 1;
        const char *end = memchr(start, quote, s->rest.n - 1);
        if (!end)
                return false;
        struct slice text = slice_from(start, (size_t)(end - start));
        for (size_t i = 0; i < text.n; i++)
                if (!text.p[i] || text.p[i] == '\n' || (quote == '"' && is_one_of(text.p[i], "$`\\!")))
                        return false;
        s->rest = slice_from(end + 1, s->rest.n - text.n - 2);
        *ret = text;
        return true;
}

/* Takes a word that is quoted as a whole or not at all, and not empty. */
static bool take_word(struct script *s, const char *others, struct slice *ret)
{
        struct slice word;

        if (!take_quoted(s, '\'', &word) && !take_quoted(s, '"', &word))
                word = take_plain(s, others);
        *ret = word;
        return word.n > 0;
}

static bool take_name(struct script *s)
{
        return take(s, S("apply_patch")) || take(s, S("applypatch"));
}

/* Takes "cd DIR &&". */
static bool take_cd(struct script *s, struct slice *ret)
{
        struct slice dir;

        if (!take(s, S("cd")) || !skip_blanks(s, false) || !take_word(s, "_-./+@%,:", &dir) ||
            dir.p[0] == '-')
                return false;
        (void)skip_blanks(s, false);
        if (!take(s, S("&&")))
                return false;
        (void)skip_blanks(s, true);
        *ret = dir;
        return true;
}

/* Takes the line of a here-document, with its delimiter, and the document. Blanks may follow, and nothing else. */
static bool take_document(struct script *s, struct slice *ret)
{
        struct slice word;

        (void)skip_blanks(s, false);
        if (!take(s, S("<<")))
                return false;
        (void)skip_blanks(s, false);
        bool is_escaped = take(s, S("\\"));
        if (is_escaped ? (word = take_plain(s, "_-.")).n == 0 : !take_word(s, "_-.", &word))
                return false;
        (void)skip_blanks(s, false);
        if (!take(s, S("\n")))
                return false;
        const char *start = s->rest.p;
        while (s->rest.p) {
                struct slice line = slice_split(&s->rest, '\n');
                if (!slice_eq(line, word))
                        continue;
                *ret = slice_from(start, (size_t)(line.p - start));
                (void)skip_blanks(s, true);
                return s->rest.n == 0;
        }
        return false;
}

static bool is_call(struct slice text, struct shell_call *ret)
{
        struct script s = { text };
        struct shell_call call = { 0 };

        (void)skip_blanks(&s, true);
        struct script at_cd = s;
        if (!take_cd(&s, &call.workdir)) {
                call.workdir = (struct slice){ 0 };
                s = at_cd;
        }
        if (!take_name(&s) || !take_document(&s, &call.patch))
                return false;
        *ret = call;
        return true;
}

static bool is_patch(struct arena *a, struct slice text)
{
        struct patch patch;
        struct patch_error error;

        return patch_parse(a, text, &patch, &error) == 0;
}

enum shell_patch shell_find_patch_in_script(struct arena *a, struct slice script, struct shell_call *ret)
{
        if (is_call(script, ret))
                return SHELL_PATCH_CALL;
        return is_patch(a, script) ? SHELL_PATCH_NAKED : SHELL_PATCH_NONE;
}

static bool is_shell(struct slice program)
{
        static const char *const names[] = { "bash", "zsh", "sh" };
        const char *slash = program.n ? memrchr(program.p, '/', program.n) : NULL;

        if (slash)
                program = slice_from(slash + 1, program.n - (size_t)(slash + 1 - program.p));
        return slice_find(program, names, ARRAY_LEN(names)) < ARRAY_LEN(names);
}

enum shell_patch shell_find_patch(struct arena *a, const struct slice *argv, size_t argc,
                                  struct shell_call *ret)
{
        if (argc == 1)
                return is_patch(a, argv[0]) ? SHELL_PATCH_NAKED : SHELL_PATCH_NONE;
        if (argc == 2 && (slice_eq(argv[0], S("apply_patch")) || slice_eq(argv[0], S("applypatch")))) {
                *ret = (struct shell_call){ .patch = argv[1] };
                return SHELL_PATCH_CALL;
        }
        if (argc == 3 && is_shell(argv[0]) && (slice_eq(argv[1], S("-c")) || slice_eq(argv[1], S("-lc"))))
                return shell_find_patch_in_script(a, argv[2], ret);
        return SHELL_PATCH_NONE;
}
