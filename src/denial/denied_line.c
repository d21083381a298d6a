/* denied_line: finds the path or the host in an error message of a program. */
#include "denial/denied_line.h"

/* ---- texts ---- */

static const struct slice none = { NULL, 0 };

/* Does the text start with the prefix, in upper or lower case? The prefix is ASCII in lower case. */
static bool starts_nocase(struct slice text, const char *prefix)
{
        size_t n = 0;
        while (prefix[n] && n < text.n && ascii_lower(text.p[n]) == prefix[n])
                n++;
        return prefix[n] == 0;
}

static struct slice rest_from(struct slice text, size_t at)
{
        return slice_from(text.p + at, text.n - at);
}

/* Can a word begin at `at`? */
static inline bool is_word_start(struct slice text, size_t at)
{
        return at == 0 || text.p[at - 1] == ' ' || text.p[at - 1] == '(' || text.p[at - 1] == ':';
}

static bool find_last(struct slice text, const char *word, size_t *ret)
{
        for (size_t i = text.n; i-- > 0;)
                if (ascii_lower(text.p[i]) == word[0] && starts_nocase(rest_from(text, i), word)) {
                        *ret = i;
                        return true;
                }
        return false;
}

/* ---- paths and names of files ---- */

/* The marks around a path in a message. The last row is for paths without quotes. */
static const struct mark {
        const char *before, *behind;
} marks[] = {
        { "\xe2\x80\x98", "\xe2\x80\x99" }, { "'", "'" }, { "\"", "\"" }, { "`", "'" }, { " ", ":" },
};
#define QUOTES (ARRAY_LEN(marks) - 1)

/* Can a mark begin with this byte? */
static inline bool may_mark(char c)
{
        return c == '\'' || c == '"' || c == '`' || c == ':' || c == ' ' || c == '\xe2';
}

/* The next closing mark of each kind, while a line is read once, from its end. */
struct ends {
        const char *of[ARRAY_LEN(marks)]; /* NULL: there is none */
};

static void ends_note(struct ends *e, struct slice text)
{
        if (!may_mark(text.p[0]))
                return;
        for (size_t i = 0; i < ARRAY_LEN(marks); i++)
                if (slice_starts(text, slice_from_str(marks[i].behind)))
                        e->of[i] = text.p;
}

/* Returns the path that begins at `at`, or an empty slice. */
static struct slice path_at(struct slice line, size_t at, const struct ends *ends)
{
        struct slice rest = rest_from(line, at);
        for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
                size_t n = strlen(marks[i].before);
                if (n > at || memcmp(rest.p - n, marks[i].before, n) != 0)
                        continue;
                if (ends->of[i])
                        return slice_from(rest.p, (size_t)(ends->of[i] - rest.p));
                return i < QUOTES ? S("") : rest;
        }
        return S("");
}

/* Returns the last absolute path in the line: programs name the path that they could not write after the one that they
 * read, and their own path before both. */
static struct slice path_in(struct slice line)
{
        struct ends ends = { 0 };
        for (size_t i = line.n; i-- > 0; ends_note(&ends, rest_from(line, i))) {
                struct slice path = line.p[i] == '/' ? path_at(line, i, &ends) : S("");
                if (path.n > 0)
                        return path;
        }
        return none;
}

/* Returns the quoted text that begins at `at`. A mark after a letter is an apostrophe. */
static struct slice quoted_at(struct slice line, size_t at, const struct ends *ends)
{
        if (!may_mark(line.p[at]) || (at > 0 && !strchr(" (:=[,", line.p[at - 1])))
                return none;
        for (size_t i = 0; i < QUOTES; i++) {
                struct slice mark = slice_from_str(marks[i].before);
                if (!slice_starts(rest_from(line, at), mark))
                        continue;
                const char *begin = line.p + at + mark.n;
                return ends->of[i] && ends->of[i] > begin ? slice_from(begin, (size_t)(ends->of[i] - begin))
                                                          : none;
        }
        return none;
}

/* Returns the last quoted text that does not hold the phrase: such a text is the message of the system. */
static struct slice quoted_in(struct slice line, struct slice phrase)
{
        struct ends ends = { 0 };
        for (size_t i = line.n; i-- > 0; ends_note(&ends, rest_from(line, i))) {
                struct slice quoted = quoted_at(line, i, &ends);
                bool is_message = quoted.p && phrase.p >= quoted.p && phrase.p < quoted.p + quoted.n;
                if (quoted.p && !is_message)
                        return quoted;
        }
        return none;
}

/* Takes the last part that ": " separates; *text then ends before it, and has p == NULL when there is no other part. */
static struct slice take_field(struct slice *text)
{
        size_t at;
        struct slice whole = *text;
        if (!find_last(whole, ": ", &at)) {
                *text = none;
                return whole;
        }
        *text = slice_from(whole.p, at);
        return rest_from(whole, at + 2);
}

/* Words that programs put before a name that they do not quote. */
static const char *const lead_ins[] = {
        "cannot create temporary file in ",
        "cannot open output file ",
        "could not lock config file ",
        "opening output file ",
        "cannot create ",
        "cannot open ",
        "can't create ",
        "can't open ",
        "mkdir ",
        "open ",
        "unlink ",
};

/* Returns the field before the phrase. The first field is the name of the program. */
static struct slice field_in(struct slice line, struct slice phrase)
{
        struct slice before = slice_from(line.p, (size_t)(phrase.p - line.p));
        if (before.n < 2 || memcmp(before.p + before.n - 2, ": ", 2) != 0)
                return none;
        before.n -= 2;
        struct slice field = take_field(&before);
        if (starts_nocase(field, "cannot ") && before.p && !memchr(field.p + 7, ' ', field.n - 7))
                field = take_field(&before); /* as tar writes: NAME: Cannot open: … */
        for (size_t i = 0; i < ARRAY_LEN(lead_ins); i++)
                if (starts_nocase(field, lead_ins[i]))
                        return rest_from(field, strlen(lead_ins[i]));
        return before.p && field.n > 0 && !memchr(field.p, ' ', field.n) ? field : none;
}

/* Do these words describe a change of a file? */
static bool says_write(struct slice words)
{
        static const char *const verbs[] = { "creat", "delet", "lock",  "mkdir",  "mov", "remov",
                                             "renam", "touch", "trunc", "unlink", "writ" };
        for (size_t i = 0; i < words.n; i++)
                for (size_t k = 0; is_word_start(words, i) && k < ARRAY_LEN(verbs); k++)
                        if (starts_nocase(rest_from(words, i), verbs[k]))
                                return true;
        return false;
}

/* ---- hosts ---- */

#define HOST_BYTES_MAX 255

static bool is_of_host(char c)
{
        char lower = ascii_lower(c);
        return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || (c && strchr("._-:[]", c));
}

static struct slice host_at(struct slice text)
{
        size_t n = 0;
        while (n < text.n && is_of_host(text.p[n]))
                n++;
        while (n > 0 && strchr(".:", text.p[n - 1]))
                n--;
        return n > 0 && n <= HOST_BYTES_MAX ? slice_from(text.p, n) : none;
}

static struct slice digits_at(struct slice text)
{
        size_t n = 0;
        while (n < text.n && n < 6 && text.p[n] >= '0' && text.p[n] <= '9')
                n++;
        return n > 0 && n < 6 ? slice_from(text.p, n) : none;
}

/* Reads an address: HOST, HOST:PORT or HOST port PORT. */
static bool address_read(struct slice text, struct denied_line *ret)
{
        for (size_t i = 0; i < QUOTES; i++)
                if (slice_starts(text, slice_from_str(marks[i].before))) {
                        text = rest_from(text, strlen(marks[i].before));
                        break;
                }
        struct slice host = host_at(text);
        if (!host.p)
                return false;
        struct slice rest = rest_from(text, host.n);
        ret->host = host;
        ret->port = slice_starts(rest, S(" port ")) ? digits_at(rest_from(rest, 6)) : none;
        return true;
}

/* Reads an address as bash writes it: /dev/tcp/HOST/PORT, without quotes. */
static bool device_read(struct slice line, struct denied_line *ret)
{
        if (!ret->path.p)
                return false;
        /* ret->path ends at a colon, but a HOST may have colons. */
        struct slice path = rest_from(line, (size_t)(ret->path.p - line.p));
        if (!slice_starts(path, S("/dev/tcp/")) && !slice_starts(path, S("/dev/udp/")))
                return false;
        struct slice host = host_at(rest_from(path, 9));
        if (!host.p || path.n < 9 + host.n + 2 || path.p[9 + host.n] != '/')
                return false;
        ret->host = host;
        ret->port = digits_at(rest_from(path, 9 + host.n + 1));
        return true;
}

static bool is_address(const struct denied_line *line)
{
        return line->port.p || memchr(line->host.p, '.', line->host.n) ||
               memchr(line->host.p, ':', line->host.n);
}

/* Words that programs put before an address. */
static const struct lead {
        const char *words;
        bool takes_any; /* any host counts; otherwise only one that looks like an address */
} leads[] = {
        { "resolve host: ", true },   { "resolve hostname ", true }, { "resolve host address ", true },
        { "connect to host ", true }, { "connect to ", false },      { "connecting to ", false },
        { "dial tcp ", false },       { "dial udp ", false },        { "lookup ", false },
};

static bool address_at(struct slice text, struct denied_line *ret)
{
        for (size_t i = 0; i < ARRAY_LEN(leads); i++) {
                const struct lead *lead = &leads[i];
                struct denied_line found = { 0 };
                if (!starts_nocase(text, lead->words) ||
                    !address_read(rest_from(text, strlen(lead->words)), &found))
                        continue;
                if (!lead->takes_any && !is_address(&found))
                        continue;
                ret->host = found.host;
                ret->port = found.port;
                return true;
        }
        return false;
}

static void read_host(struct slice line, struct slice field, bool is_behind_host, struct denied_line *ret)
{
        if (device_read(line, ret)) {
                ret->path = none;
                return;
        }
        for (size_t i = 0; i < line.n; i++)
                if (is_word_start(line, i) && address_at(rest_from(line, i), ret))
                        return;
        if (is_behind_host && field.p && host_at(field).n == field.n)
                ret->host = field;
}

/* ---- the whole line ---- */

bool denied_line_read(struct denied_scan *s, struct slice line, struct denied_line *ret)
{
        size_t at;
        denied_scan_reset(s);
        denied_scan_feed(s, false, line);
        const struct denied_phrase *phrase = denied_scan_phrase(s);
        if (!phrase)
                return false;
        *ret = (struct denied_line){ .operation = phrase->operation, .path = path_in(line) };
        if (!find_last(line, phrase->text, &at))
                return true; /* the phrase is there, with a letter that only Unicode treats as the same */
        struct slice place = slice_from(line.p + at, strlen(phrase->text)), field = field_in(line, place);
        if (strcmp(phrase->operation, "connect") == 0) {
                read_host(line, field, phrase->is_behind_host, ret);
                return true;
        }
        if (!ret->path.p) {
                struct slice quoted = quoted_in(line, place);
                ret->name = quoted.p ? quoted : field;
        }
        const char *named = ret->path.p ? ret->path.p : ret->name.p;
        size_t before = named ? (size_t)(named - line.p) : 0;
        ret->says_write = strcmp(phrase->operation, "write") == 0 || says_write(slice_from(line.p, before));
        return true;
}
