/* fs_ls: `farhand fs ls` and `farhand fs stat`. */
#include "farfs/fs.h"

#include <errno.h>

/* How many requests fs/getMetadata are under way at once. */
#define ASKED_MAX 256

struct item {
        struct ls *ls;
        const char *name; /* the name that is printed */
        const char *path;
        bool is_directory, is_file;
        bool is_known; /* `metadata` is set */
        struct farhand_metadata metadata;
        struct farhand_error *error; /* why there is no metadata; else NULL */
};

struct ls {
        struct fs fs;
        bool is_long, with_hidden, is_json, ends_with_nul;
        struct item *items;
        size_t count, room;
        unsigned asked;
        const char *directory; /* the directory that is being listed */
};

static struct item *add(struct ls *ls, const char *name, const char *path)
{
        struct arena *a = &ls->fs.remote.arena;
        ls->items = arena_room(a, ls->items, ls->count, &ls->room, sizeof(*ls->items));
        struct item *item = &ls->items[ls->count++];
        *item = (struct item){ .ls = ls, .name = name, .path = path };
        return item;
}

/* ---- metadata of all items ---- */

static void on_stat(UNUSED struct farhand *f, void *arg, const struct farhand_metadata *metadata,
                    const struct farhand_error *error)
{
        struct item *item = arg;
        item->ls->asked--;
        if (metadata) {
                item->is_known = true;
                item->metadata = *metadata;
                item->is_directory = metadata->is_directory;
                item->is_file = metadata->is_file;
                return;
        }
        item->error = arena_alloc(&item->ls->fs.remote.arena, sizeof(*item->error));
        *item->error = *error;
}

/* Asks for the metadata of all items, many at a time, and prints the errors of those without. */
static void look(struct ls *ls)
{
        struct farhand *f = ls->fs.client;
        for (size_t i = 0; i < ls->count && !fs_is_lost(&ls->fs); i++) {
                struct item *item = &ls->items[i];
                struct farhand_error error;
                while (ls->asked >= ASKED_MAX && farhand_wait(f, -1, NULL) == 0)
                        ;
                if (farhand_stat_begin(f, item->path, on_stat, item, &error) == 0)
                        ls->asked++;
        }
        while (ls->asked > 0 && farhand_wait(f, -1, NULL) == 0)
                ;
        for (size_t i = 0; i < ls->count; i++)
                if (ls->items[i].error)
                        fs_complain(&ls->fs, ls->items[i].name, ls->items[i].error);
}

/* ---- output ---- */

static char *target_of(struct ls *ls, const struct item *item)
{
        char *target = NULL;
        return item->is_known && item->metadata.is_symlink &&
                               farhand_read_link(ls->fs.client, item->path, &target, NULL) == 0
                       ? target
                       : NULL;
}

static void print_json(struct ls *ls, const struct item *item)
{
        _buf_ struct buf text = BUF_INIT(FS_JSON_MAX);
        struct jsonw w;
        jsonw_begin(&w, &text);
        jsonw_object(&w);
        jsonw_member_str(&w, "name", item->name);
        fs_json_path(&w, "path", item->path);
        if (item->is_known) {
                fs_json_metadata(&w, &item->metadata);
        } else {
                jsonw_member_bool(&w, "isDirectory", item->is_directory);
                jsonw_member_bool(&w, "isFile", item->is_file);
        }
        char *target = target_of(ls, item);
        if (target)
                jsonw_member_str(&w, "target", target);
        free(target);
        jsonw_object_end(&w);
        fs_json_line(&w, &text);
}

struct widths {
        int links, uid, gid, size;
};

static void widen(int *width, uint64_t value)
{
        *width = MAX(*width, snprintf(NULL, 0, "%ju", (uintmax_t)value));
}

static struct widths measure(const struct ls *ls)
{
        struct widths w = { 0 };
        for (size_t i = 0; i < ls->count; i++) {
                const struct farhand_metadata *m = &ls->items[i].metadata;
                widen(&w.links, m->links);
                widen(&w.uid, m->uid);
                widen(&w.gid, m->gid);
                widen(&w.size, m->size);
        }
        return w;
}

static void print_long(const struct item *item, const struct widths *width)
{
        const struct farhand_metadata *m = &item->metadata;
        char mode[11], when[32];
        fs_mode_text(m, mode);
        fs_time_text(m->modified_ms, false, when);
        printf("%s %*ju %*u %*u %*ju %s ", mode, width->links, (uintmax_t)m->links, width->uid, m->uid,
               width->gid, m->gid, width->size, (uintmax_t)m->size, when);
}

static void print_items(struct ls *ls)
{
        const struct widths width = measure(ls);
        for (size_t i = 0; i < ls->count; i++) {
                const struct item *item = &ls->items[i];
                if (item->error)
                        continue;
                if (ls->is_json) {
                        print_json(ls, item);
                        continue;
                }
                if (ls->is_long)
                        print_long(item, &width);
                fs_print_name(&ls->fs, item->name,
                              item->is_known       ? fs_kind_of(&item->metadata)
                              : item->is_directory ? FS_DIRECTORY
                                                   : FS_FILE);
                char *target = ls->is_long ? target_of(ls, item) : NULL;
                if (target) {
                        printf(" -> ");
                        fs_print_name(&ls->fs, target, FS_FILE);
                }
                free(target);
                putchar(ls->ends_with_nul ? '\0' : '\n');
        }
}

/* ---- ls ---- */

static void on_entry(void *arg, const struct farhand_entry *entry)
{
        struct ls *ls = arg;
        if (entry->name[0] == '.' && !ls->with_hidden)
                return;
        const char *name = arena_dup(&ls->fs.remote.arena, slice_from_str(entry->name));
        struct item *item = add(ls, name, fs_join(&ls->fs, ls->directory, name));
        item->is_directory = entry->is_directory;
        item->is_file = entry->is_file;
}

static void list_directory(struct ls *ls, const char *given, const char *path)
{
        struct farhand_error error;
        ls->directory = path;
        ls->items = NULL;
        ls->count = ls->room = 0;
        if (farhand_list(ls->fs.client, path, on_entry, ls, &error) < 0) {
                fs_complain(&ls->fs, given, &error);
                return;
        }
        if (ls->is_long)
                look(ls);
        print_items(ls);
}

/* Prints the files that were named, and then the content of each directory that was named, as ls does. */
static void list_all(struct ls *ls, char **given, int count)
{
        struct item *directories = NULL;
        size_t directory_count = 0, kept = 0;
        for (int i = 0; i < count; i++) {
                const char *path = fs_path(&ls->fs, given[i]);
                if (path)
                        add(ls, given[i], path);
        }
        look(ls);
        directories = arena_alloc(&ls->fs.remote.arena, (ls->count + 1) * sizeof(*directories));
        for (size_t i = 0; i < ls->count; i++) {
                if (ls->items[i].is_directory)
                        directories[directory_count++] = ls->items[i];
                else if (!ls->items[i].error)
                        ls->items[kept++] = ls->items[i];
        }
        ls->count = kept;
        print_items(ls);
        bool has_headings = count > 1 && !ls->is_json && !ls->ends_with_nul;
        for (size_t i = 0; i < directory_count && !fs_is_lost(&ls->fs); i++) {
                if (has_headings) {
                        printf("%s", i > 0 || kept > 0 ? "\n" : "");
                        fs_print_name(&ls->fs, directories[i].name, FS_FILE);
                        printf(":\n");
                }
                list_directory(ls, directories[i].name, directories[i].path);
        }
}

int fs_ls(int argc, char **argv)
{
        struct ls ls = { 0 };
        const struct arg table[] = {
                REMOTE_ARGS(&ls.fs.remote),
                { "long", ARG_FLAG, NULL, "mode, links, user, group, size and time too", .letter = 'l',
                  .target = &ls.is_long },
                { "all", ARG_FLAG, NULL, "also names that begin with a dot", .letter = 'a',
                  .target = &ls.with_hidden },
                { "null", ARG_FLAG, NULL, "a NUL behind each name in place of a line end", .letter = '0',
                  .target = &ls.ends_with_nul },
                { "json", ARG_FLAG, NULL, "a JSON object per line", .target = &ls.is_json },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs ls [OPTIONS] [PATH]...",
                                   .about = "List directories, one name per line.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        static char here[] = ".";
        char *default_operand[] = { here };
        int rest = 0, code = fs_begin(&ls.fs, &spec, argc, argv, 0, -1, &rest);
        if (code < 0)
                list_all(&ls, rest < argc ? argv + rest : default_operand, MAX(argc - rest, 1));
        return fs_end(&ls.fs, code);
}

/* ---- stat ---- */

static void print_stat(struct ls *ls, const struct item *item)
{
        const struct farhand_metadata *m = &item->metadata;
        char mode[11], when[32];
        if (ls->is_json) {
                print_json(ls, item);
                return;
        }
        fs_mode_text(m, mode);
        printf("    Path: ");
        fs_print_name(&ls->fs, item->path, FS_FILE);
        printf("\n    Kind: %s%s\n    Size: %ju\n", m->is_symlink ? "link to a " : "",
               m->is_directory ? "directory"
               : m->is_file    ? "file"
                               : "special file",
               (uintmax_t)m->size);
        if (m->has_mode)
                printf("    Mode: %04o (%s)\n    User: %u\n   Group: %u\n   Links: %ju\n", m->mode, mode,
                       m->uid, m->gid, (uintmax_t)m->links);
        fs_time_text(m->modified_ms, true, when);
        printf("Modified: %s\n", when);
        if (m->created_ms) {
                fs_time_text(m->created_ms, true, when);
                printf(" Created: %s\n", when);
        }
        char *target = target_of(ls, item);
        if (target) {
                printf("  Target: ");
                fs_print_name(&ls->fs, target, FS_FILE);
                printf("\n");
        }
        free(target);
}

int fs_stat(int argc, char **argv)
{
        struct ls ls = { 0 };
        const struct arg table[] = {
                REMOTE_ARGS(&ls.fs.remote),
                { "json", ARG_FLAG, NULL, "a JSON object per line", .target = &ls.is_json },
                { .name = NULL },
        };
        const struct args spec = { .usage = "farhand fs stat [OPTIONS] PATH...",
                                   .about = "Say what is known of files.",
                                   .table = table,
                                   .is_mixed = true,
                                   .operands = OFFER_FILE };
        int rest = 0, code = fs_begin(&ls.fs, &spec, argc, argv, 1, -1, &rest);
        for (int i = rest; code < 0 && i < argc; i++) {
                const char *path = fs_path(&ls.fs, argv[i]);
                if (path)
                        add(&ls, argv[i], path);
        }
        if (code < 0)
                look(&ls);
        for (size_t i = 0; i < ls.count; i++)
                if (ls.items[i].is_known)
                        print_stat(&ls, &ls.items[i]);
        return fs_end(&ls.fs, code);
}
