/* shell_commands: looks for literal commands in the text of a shell script. */
#include "rules/shell_commands.h"

#define HEREDOCS_MAX 16

struct heredoc {
        struct slice end; /* the line that ends it */
        bool is_quoted;   /* the shell expands nothing in it */
        bool has_tabs;    /* `<<-`: tabs in front of that line are skipped */
};

struct scanner {
        struct arena *arena;
        struct slice text;
        size_t i;
        unsigned nesting;
        bool (*found)(void *arg, const struct slice *words, size_t count);
        void *arg;
        char *out; /* where the bytes of the next word go; a word is never longer than it is written */
        struct slice *words; /* of the command that is read */
        size_t count, room;
        bool has_name; /* the command has a first word, literal or not */
        bool is_literal_name;
        struct heredoc heredocs[HEREDOCS_MAX]; /* that begin behind the next line end */
        size_t heredoc_count;
        bool is_over; /* `found` returned true */
};

static void scan(struct scanner *s, struct slice text, unsigned nesting);

/* Scans a part of the text as commands of its own. */
static void scan_part(struct scanner *s, struct slice text)
{
        struct scanner part = { .arena = s->arena, .found = s->found, .arg = s->arg };

        scan(&part, text, s->nesting + 1);
        s->is_over = s->is_over || part.is_over;
}

/* ---- characters ---- */

static char peek(const struct scanner *s, size_t ahead)
{
        return s->i + ahead < s->text.n ? s->text.p[s->i + ahead] : '\0';
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t' || c == '\r';
}

static bool ends_word(char c)
{
        return is_blank(c) || c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')' ||
               c == '<' || c == '>';
}

/* ---- commands ---- */

static void end_command(struct scanner *s)
{
        if (s->count > 0 && s->is_literal_name && !s->is_over)
                s->is_over = s->found(s->arg, s->words, s->count);
        s->count = 0;
        s->has_name = s->is_literal_name = false;
}

/* Words after which a command begins. */
static bool precedes_command(struct slice word)
{
        static const char *const words[] = { "if", "then", "else", "elif", "while", "until",
                                             "do", "{",    "}",    "!",    "time",  "coproc" };
        return slice_find(word, words, ARRAY_LEN(words)) < ARRAY_LEN(words);
}

static bool is_assignment(struct slice word)
{
        size_t i = 0;

        for (; i < word.n && word.p[i] != '=' && word.p[i] != '['; i++) {
                char c = ascii_lower(word.p[i]);
                if (!(c >= 'a' && c <= 'z') && c != '_' && !(c >= '0' && c <= '9' && i > 0) && c != '+')
                        return false;
        }
        return i > 0 && i < word.n && memchr(word.p, '=', word.n);
}

/* Takes a word of a command. `raw` is how it is written. */
static void take_word(struct scanner *s, struct slice word, struct slice raw, bool is_literal)
{
        if (!s->has_name && (precedes_command(raw) || is_assignment(raw)))
                return;
        if (!s->has_name)
                s->is_literal_name = is_literal;
        s->has_name = true;
        if (!is_literal)
                return;
        s->words = arena_room(s->arena, s->words, s->count, &s->room, sizeof(s->words[0]));
        s->words[s->count++] = word;
}

/* ---- expansions ---- */

/* Returns the length of the part up to the bracket that closes it; the part begins behind the opening bracket. */
static size_t find_close(struct slice part, char open, char close)
{
        size_t depth = 1, i = 0;
        char quote = '\0';

        for (; i < part.n; i++) {
                char c = part.p[i];
                if (c == '\\' && quote != '\'')
                        i++;
                else if (quote)
                        quote = c == quote ? '\0' : quote;
                else if (c == '\'' || c == '"')
                        quote = c;
                else if (c == open)
                        depth++;
                else if (c == close && --depth == 0)
                        break;
        }
        return MIN(i, part.n);
}

/* Skips an expansion, and scans the commands in it; `$` or a backquote is next. Returns false when it is no expansion. */
static bool skip_expansion(struct scanner *s)
{
        struct slice rest = slice_from(s->text.p + s->i, s->text.n - s->i);
        char next = peek(s, 1);

        if (peek(s, 0) == '`') {
                size_t n = 1;
                while (n < rest.n && rest.p[n] != '`')
                        n += rest.p[n] == '\\' ? 2 : 1;
                n = MIN(n, rest.n);
                scan_part(s, slice_from(rest.p + 1, n - 1));
                s->i += MIN(n + 1, rest.n);
                return true;
        }
        if (next == '(' || next == '{') {
                struct slice part = slice_from(rest.p + 2, rest.n - 2);
                part.n = find_close(part, next, next == '(' ? ')' : '}');
                scan_part(s, part);
                s->i += MIN(part.n + 3, rest.n);
                return true;
        }
        char c = ascii_lower(next);
        if (!(c >= 'a' && c <= 'z') && !(c >= '0' && c <= '9') && (c == '\0' || !strchr("_@*#?$!-", c)))
                return false;
        bool is_name = c == '_' || (c >= 'a' && c <= 'z');
        s->i += 2;
        for (; is_name; s->i++) {
                c = ascii_lower(peek(s, 0));
                is_name = c == '_' || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
                if (!is_name)
                        break;
        }
        return true;
}

/* ---- words ---- */

/* Reads what stands in quotes; the quote is next. Returns whether it is literal. */
static bool read_quoted(struct scanner *s)
{
        char quote = s->text.p[s->i++];
        bool is_literal = true;

        while (s->i < s->text.n && peek(s, 0) != quote) {
                char c = peek(s, 0);
                if (quote == '"' && (c == '$' || c == '`') && skip_expansion(s)) {
                        is_literal = false;
                        continue;
                }
                bool is_escape =
                        quote == '"' && c == '\\' && peek(s, 1) != '\0' && strchr("$`\"\\\n", peek(s, 1));
                if (is_escape)
                        c = s->text.p[++s->i];
                if (!is_escape || c != '\n') /* an escaped line end joins the lines */
                        *s->out++ = c;
                s->i++;
        }
        s->i += s->i < s->text.n;
        return is_literal;
}

/* Reads a word, which begins here. Returns whether it is literal. */
static bool read_word(struct scanner *s, struct slice *ret)
{
        const char *start = s->out;
        bool is_literal = true;

        while (s->i < s->text.n && !ends_word(peek(s, 0))) {
                char c = peek(s, 0);
                if (c == '"' || c == '\'') {
                        is_literal = read_quoted(s) && is_literal;
                } else if (c == '\\') {
                        s->i++;
                        if (s->i < s->text.n && peek(s, 0) != '\n')
                                *s->out++ = peek(s, 0);
                        s->i += s->i < s->text.n;
                } else if ((c == '$' || c == '`') && skip_expansion(s)) {
                        is_literal = false;
                } else {
                        *s->out++ = c;
                        s->i++;
                }
        }
        *ret = slice_from(start, (size_t)(s->out - start));
        return is_literal;
}

/* ---- redirections ---- */

static void skip_blanks(struct scanner *s)
{
        while (is_blank(peek(s, 0)) || (peek(s, 0) == '\\' && peek(s, 1) == '\n'))
                s->i += peek(s, 0) == '\\' ? 2 : 1;
}

/* Skips a redirection and its target; its sign is next. A here-document is noted; a process substitution is scanned. */
static void skip_redirection(struct scanner *s)
{
        bool is_heredoc = peek(s, 0) == '<' && peek(s, 1) == '<' && peek(s, 2) != '<';
        bool has_tabs = is_heredoc && peek(s, 2) == '-';
        struct slice word;

        while (peek(s, 0) == '<' || peek(s, 0) == '>' || peek(s, 0) == '&' || peek(s, 0) == '|')
                s->i++;
        s->i += has_tabs;
        if (peek(s, 0) == '(') {
                struct slice part = slice_from(s->text.p + s->i + 1, s->text.n - s->i - 1);
                part.n = find_close(part, '(', ')');
                scan_part(s, part);
                s->i += MIN(part.n + 2, s->text.n - s->i);
                return;
        }
        skip_blanks(s);
        size_t start = s->i;
        (void)read_word(s, &word);
        struct slice raw = slice_from(s->text.p + start, s->i - start);
        if (is_heredoc && s->heredoc_count < HEREDOCS_MAX)
                s->heredocs[s->heredoc_count++] = (struct heredoc){ .end = word,
                                                                    .has_tabs = has_tabs,
                                                                    .is_quoted = !slice_eq(word, raw) };
}

/* Skips a here-document, which begins here, and scans the substitutions in it. */
static void skip_heredoc(struct scanner *s, const struct heredoc *doc)
{
        size_t start = s->i, end = start;

        while (s->i < s->text.n) {
                struct slice rest = slice_from(s->text.p + s->i, s->text.n - s->i),
                             line = slice_split(&rest, '\n');
                end = s->i;
                s->i = rest.p ? s->i + line.n + 1 : s->text.n;
                while (doc->has_tabs && line.n > 0 && line.p[0] == '\t')
                        line = slice_from(line.p + 1, line.n - 1);
                if (slice_eq(line, doc->end))
                        break;
                end = s->i;
        }
        struct scanner body = { .arena = s->arena,
                                .found = s->found,
                                .arg = s->arg,
                                .nesting = s->nesting,
                                .text = slice_from(s->text.p + start, end - start) };
        while (!doc->is_quoted && body.i < body.text.n && !body.is_over) {
                char c = peek(&body, 0);
                if ((c != '$' && c != '`') || !skip_expansion(&body))
                        body.i += c == '\\' ? 2 : 1;
        }
        s->is_over = s->is_over || body.is_over;
}

/* ---- the text ---- */

/* Reads the next thing that is no blank. */
static void scan_one(struct scanner *s)
{
        char c = peek(s, 0);
        size_t start = s->i;
        struct slice word;

        if (c == '\n') {
                s->i++;
                end_command(s);
                for (size_t k = 0; k < s->heredoc_count; k++)
                        skip_heredoc(s, &s->heredocs[k]);
                s->heredoc_count = 0;
        } else if (c == '#') {
                while (s->i < s->text.n && peek(s, 0) != '\n')
                        s->i++;
        } else if (c == '<' || c == '>' || (c == '&' && peek(s, 1) == '>')) {
                skip_redirection(s);
        } else if (ends_word(c)) {
                s->i++;
                end_command(s);
        } else {
                bool is_literal = read_word(s, &word);
                struct slice raw = slice_from(s->text.p + start, s->i - start);
                if (slice_eq(raw, S("{"))) /* `function f {` */
                        end_command(s);
                else
                        take_word(s, word, raw, is_literal);
        }
}

static void scan(struct scanner *s, struct slice text, unsigned nesting)
{
        s->text = text;
        s->nesting = nesting;
        if (nesting > SHELL_NESTING_MAX) {
                s->is_over = true;
                return;
        }
        s->out = arena_alloc(s->arena, text.n + 1);
        for (skip_blanks(s); s->i < text.n && !s->is_over; skip_blanks(s))
                scan_one(s);
        end_command(s);
}

bool shell_commands_any(struct arena *a, struct slice text,
                        bool (*found)(void *arg, const struct slice *words, size_t count), void *arg)
{
        struct scanner s = { .arena = a, .found = found, .arg = arg };

        scan(&s, text, 0);
        return s.is_over;
}
