/* json_edit: adds our entry to the text of a JSON configuration, and takes it away again. */
#include "install/json_edit.h"

#include "base/buf.h"
#include "base/fatal.h"
#include "base/limits.h"
#include "install/json_plain.h"
#include "wire/jsonw.h"

#include <errno.h>

/* An object of a text. */
struct object {
        const struct json *token;
        size_t open, close; /* the offsets of its braces */
        size_t count;
        const struct json *first, *last; /* the keys; NULL when it is empty */
};

/* The layout of what is added. */
struct look {
        const char *nl;     /* "\n" or "\r\n" */
        const char *unit;   /* one step of indentation */
        const char *indent; /* of a member; NULL: everything on one line */
        struct buf *out;
        bool has_type;
};

/* ---- looking ---- */

static void object_init(struct object *o, const struct json_plain *p, const struct json *token)
{
        *o = (struct object){ .token = token, .open = token->off, .close = token->off + token->len - 1 };
        json_each (key, &p->doc, token) {
                o->first = o->first ? o->first : key;
                o->last = key;
                o->count++;
        }
}

static size_t value_end(const struct json *value)
{
        return (size_t)value->off + value->len + (value->type == JSON_STRING);
}

static size_t key_start(const struct json *key)
{
        return key->off - 1;
}

static bool has(const struct json_plain *p, size_t from, size_t to, char c)
{
        return from < to && memchr(p->text.p + from, c, to - from);
}

static bool has_mark(const struct json_plain *p, size_t from, size_t to)
{
        for (size_t i = from; i < to; i++)
                if (p->marks[i] != MARK_NONE)
                        return true;
        return false;
}

/* Returns the offset behind the last byte before `i` that is no blank. */
static size_t blanks_before(const struct json_plain *p, size_t i)
{
        while (i > 0 && json_is_blank(p->text.p[i - 1]))
                i--;
        return i;
}

/* Returns the blanks between the beginning of the line and `i`; NULL when there is something else. */
static const char *indent_of(struct arena *a, const struct json_plain *p, size_t i)
{
        size_t start = i;
        while (start > 0 && (p->text.p[start - 1] == ' ' || p->text.p[start - 1] == '\t'))
                start--;
        bool is_first = start > 0 && p->text.p[start - 1] == '\n';
        return is_first ? arena_dup(a, slice_from(p->text.p + start, i - start)) : NULL;
}

/* Finds the object that holds the servers. Returns 0 with *ret NULL when there is none, or -EINVAL. */
static int servers_find(const struct json_plain *p, const char *name, const struct json **ret,
                        struct err *err)
{
        *ret = json_get(&p->doc, json_root(&p->doc), slice_from_str(name));
        if (*ret && (*ret)->type != JSON_OBJECT)
                return err_set(err, 0, -EINVAL, "its member \"%s\" is no object", name);
        return 0;
}

/* ---- writing ---- */

static void put(const struct look *look, struct slice s)
{
        must(buf_append(look->out, s) == 0);
}

static void put_str(const struct look *look, const char *s)
{
        put(look, slice_from_str(s));
}

static void put_string(const struct look *look, const char *s)
{
        struct jsonw w;
        jsonw_begin(&w, look->out);
        jsonw_str(&w, s);
        must(jsonw_end(&w) == 0);
}

/* Writes what stands between two members, or between a member and a brace; `depth` is counted from that of the added member. */
static void put_break(const struct look *look, unsigned depth, const char *otherwise)
{
        if (!look->indent) {
                put_str(look, otherwise);
                return;
        }
        put_str(look, look->nl);
        put_str(look, look->indent);
        for (unsigned i = 0; i < depth; i++)
                put_str(look, look->unit);
}

static void put_entry(const struct look *look, const struct entry *entry, unsigned depth)
{
        put(look, S("\"" ENTRY_NAME "\": {"));
        if (look->has_type) {
                put_break(look, depth + 1, "");
                put(look, S("\"type\": \"stdio\","));
        }
        put_break(look, depth + 1, look->has_type ? " " : "");
        put(look, S("\"command\": "));
        put_string(look, entry->command);
        put(look, S(","));
        put_break(look, depth + 1, " ");
        put(look, S("\"args\": ["));
        for (size_t i = 0; i < entry->arg_count; i++) {
                put_str(look, i > 0 ? ", " : "");
                put_string(look, entry->args[i]);
        }
        put(look, S("]"));
        put_break(look, depth, "");
        put(look, S("}"));
}

/* Writes the member that is added: the entry, or an object `servers` with the entry in it. */
static void put_member(const struct look *look, const char *servers, const struct entry *entry)
{
        if (!servers) {
                put_entry(look, entry, 0);
                return;
        }
        put_string(look, servers);
        put(look, S(": {"));
        put_break(look, 1, " ");
        put_entry(look, entry, 1);
        put_break(look, 0, " ");
        put(look, S("}"));
}

/* ---- adding ---- */

/* Chooses the layout for a new member of the object, whose members are at `depth`. */
static void look_at(struct arena *a, const struct json_plain *p, const struct object *o, unsigned depth,
                    struct look *look)
{
        struct object root;
        object_init(&root, p, json_root(&p->doc));
        const char *newline = memchr(p->text.p, '\n', p->text.n);
        const char *unit = root.first ? indent_of(a, p, key_start(root.first)) : NULL;

        look->nl = newline && newline > p->text.p && newline[-1] == '\r' ? "\r\n" : "\n";
        look->unit = unit && unit[0] ? unit : "  ";
        size_t first = o->first ? key_start(o->first) : o->close;
        /* An object that was found empty gets no white space, unless there are comments in it (see the header). */
        bool has_lines = has(p, o->open, first, '\n') && (o->first || has_mark(p, o->open, o->close));
        look->indent = NULL;
        if (!has_lines)
                return;
        look->indent = o->first ? indent_of(a, p, first) : NULL;
        if (!look->indent)
                look->indent = depth == 1 ? look->unit : arena_printf(a, "%s%s", look->unit, look->unit);
}

/* Adds a member at the end of the object. */
static void add_member(const struct json_plain *p, const struct object *o, const struct look *look,
                       const char *servers, const struct entry *entry)
{
        const char *text = p->text.p;
        size_t at = blanks_before(p, o->close), behind = o->last ? value_end(o->last + 1) : o->open + 1;
        bool has_comma = false;

        for (size_t i = behind; i < o->close; i++)
                has_comma |= p->marks[i] == MARK_COMMA;
        put(look, slice_from(text, behind));
        if (o->last && !has_comma)
                put(look, S(","));
        put(look, slice_from(text + behind, at - behind));
        if (p->marks[at - 1] == MARK_LINE && !look->indent)
                put_str(look, look->nl);
        else if (at > o->open + 1)
                put_break(look, 0, " ");
        put_member(look, servers, entry);
        if (has_comma)
                put(look, S(","));
        put(look, slice_from(text + at, p->text.n - at));
}

static bool is_same(struct arena *a, const struct json_plain *p, const struct json *value,
                    const struct entry *entry)
{
        const struct json *command = json_get(&p->doc, value, S("command"));
        const struct json *args = json_get(&p->doc, value, S("args"));
        size_t i = 0;

        if (!command || command->type != JSON_STRING ||
            !slice_eq(json_string(a, &p->doc, command), slice_from_str(entry->command)))
                return false;
        if (!args || args->type != JSON_ARRAY || json_count(&p->doc, args) != entry->arg_count)
                return false;
        json_each (it, &p->doc, args)
                if (it->type != JSON_STRING ||
                    !slice_eq(json_string(a, &p->doc, it), slice_from_str(entry->args[i++])))
                        return false;
        return true;
}

static void write_new(const struct look *look, const char *servers, const struct entry *entry)
{
        put(look, S("{"));
        put_break(look, 0, "");
        put_member(look, servers, entry);
        put_str(look, look->nl);
        put(look, S("}"));
        put_str(look, look->nl);
}

static int add_to(struct arena *a, const struct json_plain *p, const char *servers, const struct entry *entry,
                  struct look *look, struct err *err)
{
        const struct json *found;
        struct object o;
        int r = servers_find(p, servers, &found, err);
        if (r < 0)
                return r;
        const struct json *old = found ? json_get(&p->doc, found, S(ENTRY_NAME)) : NULL;
        if (old && is_same(a, p, old, entry))
                return EDIT_NOTHING;
        if (old)
                return err_set(err, 0, -EEXIST, "it has another entry \"" ENTRY_NAME "\" already");
        object_init(&o, p, found ? found : json_root(&p->doc));
        look_at(a, p, &o, found ? 2 : 1, look);
        add_member(p, &o, look, found ? NULL : servers, entry);
        return EDIT_CHANGED;
}

int json_edit_add(struct arena *a, const struct slice *text, const struct config_shape *shape,
                  const struct entry *entry, struct slice *ret_text, struct err *err)
{
        _buf_ struct buf out = BUF_INIT(2 * (size_t)LIMIT_CLIENT_CONFIG_BYTES);
        struct look look = {
                .nl = "\n", .unit = "  ", .indent = "  ", .out = &out, .has_type = shape->has_type
        };
        struct json_plain p;
        int r = EDIT_CHANGED;

        if (!text)
                write_new(&look, shape->servers, entry);
        else if ((r = json_plain_parse(a, *text, shape->form, &p, err)) == 0)
                r = add_to(a, &p, shape->servers, entry, &look, err);
        if (r == EDIT_CHANGED)
                *ret_text = slice_from(arena_dup(a, buf_slice(&out)), out.n);
        return r;
}

/* ---- removing ---- */

/* Returns whether the member is alone in an object that json_edit_add has made for it. */
static bool is_made_for(const struct json_plain *p, const struct object *o)
{
        return o->count == 1 && json_is_blank(p->text.p[o->open + 1]) &&
               !has_mark(p, o->open, key_start(o->first)) && !has_mark(p, value_end(o->first + 1), o->close);
}

/* Returns whether the file is, but for its layout, what json_edit_add writes when there is no file. */
static bool is_made_file(const struct json_plain *p, const struct object *root)
{
        return is_made_for(p, root) && root->open == 0 && blanks_before(p, p->text.n) == root->close + 1;
}

/* Writes the text without a member and its comma. */
static struct slice cut(struct arena *a, const struct json_plain *p, const struct object *o,
                        const struct json *key)
{
        const char *text = p->text.p;
        size_t from = blanks_before(p, key_start(key)), to = value_end(key + 1), i = to, before = from;
        const struct json *previous = NULL;

        while (json_is_blank(p->plain[i]) && p->marks[i] != MARK_COMMA)
                i++;
        if (p->plain[i] == ',' || p->marks[i] == MARK_COMMA) {
                to = i + 1;
        } else { /* the last member: the comma in front of it goes */
                json_each (it, &p->doc, o->token)
                        previous = it < key ? it : previous;
                for (before = previous ? value_end(previous + 1) : from; previous && p->plain[before] != ',';)
                        before++;
        }
        /* The bytes [before, before + 1) and [from, to) are left out. */
        char *out = arena_alloc(a, p->text.n + 1), *end = mempcpy(out, text, before);
        if (before < from)
                end = mempcpy(end, text + before + 1, from - before - 1);
        end = mempcpy(end, text + to, p->text.n - to);
        return slice_from(out, (size_t)(end - out));
}

int json_edit_remove(struct arena *a, struct slice text, const struct config_shape *shape,
                     struct slice *ret_text, struct err *err)
{
        struct json_plain p;
        struct object root, servers;
        const struct json *found, *value;

        int r = json_plain_parse(a, text, shape->form, &p, err);
        if (r == 0)
                r = servers_find(&p, shape->servers, &found, err);
        if (r < 0)
                return r;
        if (!found || !(value = json_get(&p.doc, found, S(ENTRY_NAME))))
                return EDIT_NOTHING;
        object_init(&root, &p, json_root(&p.doc));
        object_init(&servers, &p, found);
        if (!is_made_for(&p, &servers)) {
                *ret_text = cut(a, &p, &servers, value - 1);
                return EDIT_CHANGED;
        }
        if (is_made_file(&p, &root))
                return EDIT_EMPTY;
        *ret_text = cut(a, &p, &root, found - 1);
        return EDIT_CHANGED;
}
