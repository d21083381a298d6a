/* apply_patch_show: prints diffs and reports. */
#include "agent/apply_patch_show.h"

#include "base/printable.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define REPORT_MAX ((size_t)512 * 1024 * 1024)

#define RED "\033[31m"
#define GREEN "\033[32m"
#define CYAN "\033[36m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

/* ---- diffs ---- */

struct diff_output diff_output_begin(void)
{
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        bool is_terminal = isatty(STDOUT_FILENO) == 1;
        return (struct diff_output){
                .is_terminal = is_terminal,
                .has_colours = is_terminal && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0,
        };
}

static const char *colour_of(struct slice line)
{
        if (slice_starts(line, S("--- ")) || slice_starts(line, S("+++ ")))
                return BOLD;
        return line.p[0] == '+' ? GREEN : line.p[0] == '-' ? RED : line.p[0] == '@' ? CYAN : NULL;
}

/* Writes text to a terminal without letting it control the terminal. */
static void write_safely(FILE *to, struct slice text)
{
        char shown[PRINTABLE_CHAR_BYTES];
        for (size_t i = 0; i < text.n;) {
                bool is_layout = text.p[i] == '\t' || text.p[i] == '\n';
                size_t n = is_layout ? 1 : printable_char(slice_from(text.p + i, text.n - i), shown);
                fputs(text.p[i] == '\t' ? "\t" : is_layout ? "\n" : shown, to);
                i += n;
        }
}

void apply_patch_say(FILE *to, const char *text)
{
        if (isatty(fileno(to)) == 1)
                write_safely(to, slice_from_str(text));
        else
                fputs(text, to);
}

/* Writes a line, or the part of one that is there. */
static void write_part(struct diff_output *o, struct slice part)
{
        bool has_end = part.p[part.n - 1] == '\n';
        const char *colour = o->has_colours && !o->is_in_line ? colour_of(part) : NULL;
        if (colour)
                fputs(colour, stdout);
        write_safely(stdout, slice_from(part.p, part.n - has_end));
        if (has_end)
                fputs(o->has_colours ? PLAIN "\n" : "\n", stdout);
        o->is_in_line = !has_end;
}

int diff_output_write(void *arg, struct slice piece, struct err *err)
{
        struct diff_output *o = arg;
        if (o->kept) {
                if (buf_append(o->kept, piece) < 0)
                        return err_set(err, 0, -EFBIG, "the diff is too large for a report");
                return 0;
        }
        if (!o->is_terminal && fwrite(piece.p, 1, piece.n, stdout) != piece.n)
                return err_set(err, 0, -errno, "cannot write the output: %s", errno_text(errno));
        while (o->is_terminal && piece.n > 0) {
                const char *end = memchr(piece.p, '\n', piece.n);
                size_t n = end ? (size_t)(end - piece.p) + 1 : piece.n;
                write_part(o, slice_from(piece.p, n));
                piece = slice_from(piece.p + n, piece.n - n);
        }
        return 0;
}

/* ---- reports ---- */

static void write_done(struct jsonw *w, const struct patch_done *d)
{
        static const char *const words[] = { ['A'] = "add", ['D'] = "delete", ['M'] = "update" };
        jsonw_object(w);
        jsonw_member_str(w, "kind", d->from.p ? "move" : words[(unsigned char)d->letter]);
        jsonw_member_string(w, "path", d->path);
        if (d->from.p)
                jsonw_member_string(w, "from", d->from);
        jsonw_member_str(w, "absolutePath", d->absolute);
        jsonw_member_u64(w, "addedLines", d->added_lines);
        jsonw_member_u64(w, "removedLines", d->removed_lines);
        jsonw_object_end(w);
}

static void write_error(struct jsonw *w, const struct patch_result *r)
{
        size_t n = strlen(r->error);
        jsonw_key(w, "error");
        jsonw_object(w);
        jsonw_member_string(w, "message", slice_from(r->error, n - (n > 0 && r->error[n - 1] == '\n')));
        if (r->reason)
                jsonw_member_str(w, "reason", r->reason);
        jsonw_member_bool(w, "conflict", r->is_conflict);
        jsonw_member_bool(w, "lost", r->is_lost);
        if (r->is_denied) {
                jsonw_key(w, "denied");
                jsonw_object(w);
                jsonw_member_str(w, "operation", r->denied_operation);
                jsonw_member_str(w, "path", r->denied_path);
                jsonw_member_str(w, "rule", r->denied_rule);
                if (r->denied_entry)
                        jsonw_member_str(w, "entry", r->denied_entry);
                jsonw_object_end(w);
        }
        jsonw_object_end(w);
}

bool apply_patch_report(const struct patch_result *r, const char *what, const struct buf *diff)
{
        _buf_ struct buf text = BUF_INIT(REPORT_MAX);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "action", what);
        jsonw_member_bool(&w, "ok", r->exit_code == 0);
        jsonw_member_bool(&w, "changed", r->is_applied);
        jsonw_member_bool(&w, "canUndo", r->can_undo);
        jsonw_key(&w, "changes");
        jsonw_array(&w);
        for (size_t i = 0; i < r->done_count; i++)
                write_done(&w, &r->done[i]);
        jsonw_array_end(&w);
        if (r->exit_code != 0)
                write_error(&w, r);
        if (r->notes[0])
                jsonw_member_str(&w, "notes", r->notes);
        if (diff)
                jsonw_member_string(&w, "diff", buf_slice(diff));
        jsonw_object_end(&w);
        if (jsonw_end(&w) < 0)
                return false;
        return printf("%s\n", text.p) > 0 && fflush(stdout) == 0;
}
