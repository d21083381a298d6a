/* cp_tree: walks through a directory and gives each entry to the part that copies its kind. */
#include "base/mem.h"
#include "base/utf8.h"
#include "farfs/cp.h"
#include "wire/jsonw.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <unistd.h>

/* ---- links ---- */

static int link_near(struct cp_dir *to, const char *name, const struct cp_entry *entry)
{
        struct cp_part part = cp_part_name(name);
        if (symlinkat(entry->target, to->fd, name) < 0) {
                if (errno != EEXIST)
                        return -errno;
                /* A rename replaces whatever has the name, except for a directory. */
                (void)unlinkat(to->fd, part.name, 0);
                if (symlinkat(entry->target, to->fd, part.name) < 0)
                        return -errno;
                if (renameat(to->fd, part.name, to->fd, name) < 0) {
                        int r = -errno;
                        (void)unlinkat(to->fd, part.name, 0);
                        return r;
                }
        }
        const struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, cp_time(entry->meta.modified_ms) };
        (void)utimensat(to->fd, name, times, AT_SYMLINK_NOFOLLOW); /* the time of a link matters to nobody */
        return 0;
}

static int link_far(struct cp_dir *to, const char *name, const char *target, struct farhand_error *ret_error)
{
        _free_ char *path = cp_path_json(to, name);
        _buf_ struct buf params = BUF_INIT(FS_JSON_MAX);
        struct jsonw w;
        jsonw_begin(&w, &params);
        jsonw_object(&w);
        jsonw_key(&w, "path");
        jsonw_raw(&w, slice_from_str(path));
        jsonw_member_str(&w, "target", target);
        jsonw_object_end(&w);
        return jsonw_end(&w) < 0 ? -ENAMETOOLONG : cp_call(to->side, "fs/symlink", params.p, NULL, ret_error);
}

/* Returns whether this link is there: a request that is repeated after a lost connection finds the link that it has made itself. */
static bool is_linked_far(struct cp_dir *to, const char *name, const char *target)
{
        _free_ char *path = cp_path(to, name), *there = NULL;
        return farhand_read_link(to->side->fs.client, path, &there, NULL) == 0 && strcmp(there, target) == 0;
}

static void copy_link(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name,
                      const struct cp_entry *existing)
{
        struct farhand_error error = { 0 };
        if (!entry->target) {
                cp_complain_text(from, entry->name, "the target of this link cannot be read");
                return;
        }
        if (existing && existing->target && strcmp(existing->target, entry->target) == 0) {
                to->cp->counts.unchanged++;
                return;
        }
        if (existing && existing->meta.kind == CP_DIRECTORY) {
                cp_complain_errno(to, name, EISDIR);
                return;
        }
        if (cp_is_near(to->side)) {
                int r = link_near(to, name, entry);
                if (r < 0)
                        cp_complain_errno(to, name, -r);
                else
                        to->cp->counts.links++;
                return;
        }
        if (!to->side->has_batch) {
                cp_tell_lack(to->side);
                return;
        }
        if (!utf8_is_valid(slice_from_str(entry->target))) {
                cp_complain_text(to, name, "a server takes no link whose target is not UTF-8");
                return;
        }
        int r = link_far(to, name, entry->target, &error);
        if (r < 0 && farhand_error_errno(&error) == EEXIST && !is_linked_far(to, name, entry->target)) {
                _free_ char *path = cp_path(to, name);
                (void)farhand_remove(to->side->fs.client, path, false, true, NULL);
                r = link_far(to, name, entry->target, &error);
        } else if (farhand_error_errno(&error) == EEXIST) {
                r = 0;
        }
        if (r < 0)
                cp_complain(to, name, &error);
        else
                to->cp->counts.links++;
}

/* ---- files ---- */

/* Returns whether the file was copied before: same size and same time, which a copy sets last. */
static bool is_same(const struct cp_meta *a, const struct cp_meta *b)
{
        return b->kind == CP_FILE && a->size == b->size && a->modified_ms == b->modified_ms;
}

static void copy_file(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name,
                      const struct cp_entry *existing)
{
        const struct cp_meta *there = existing ? &existing->meta : NULL;
        if (there && there->kind == CP_DIRECTORY) {
                cp_complain_errno(to, name, EISDIR);
                return;
        }
        /* A device would be replaced by a file: nobody who names /dev/null means that. */
        if (there && there->kind == CP_OTHER) {
                cp_complain_text(to, name, "this is neither file nor link, and is not replaced");
                return;
        }
        if (there && is_same(&entry->meta, there)) {
                if (entry->meta.has_mode && there->has_mode && entry->meta.mode != there->mode)
                        cp_set_meta(to, name, &entry->meta);
                cp_was_there(from, entry->name, to, name);
                return;
        }
        /* A link is replaced, not followed. */
        if (there && there->kind == CP_LINK && !cp_is_near(to->side)) {
                _free_ char *path = cp_path(to, name);
                (void)farhand_remove(to->side->fs.client, path, false, true, NULL);
        }
        if (entry->meta.size <= CP_SMALL_BYTES && cp_small_is_possible(from, to) &&
            utf8_is_valid(slice_from_str(entry->name)) && utf8_is_valid(slice_from_str(name)))
                cp_small(from, entry, to, name);
        else
                cp_large(from, entry, to, name);
}

/* ---- directories ---- */

void cp_entry(struct cp_dir *from, const struct cp_entry *entry, struct cp_dir *to, const char *name,
              const struct cp_entry *existing)
{
        if (entry->meta.kind == CP_FILE) {
                copy_file(from, entry, to, name, existing);
        } else if (entry->meta.kind == CP_LINK) {
                copy_link(from, entry, to, name, existing);
        } else if (entry->meta.kind == CP_DIRECTORY) {
                _cp_dir_ struct cp_dir *inner = cp_dir_enter(from, entry->name);
                _cp_dir_ struct cp_dir *made =
                        inner ? cp_dir_make(to, name, &entry->meta,
                                            existing ? existing->meta.kind : CP_NOTHING)
                              : NULL;
                if (made)
                        cp_tree(inner, made);
        } else {
                cp_complain_text(from, entry->name,
                                 "this is neither file, directory nor link; it is left out");
        }
}

/* Looks at a name here. Returns what is there, in *ret and `target`; NULL: nothing. */
static const struct cp_entry *look_near(struct cp_dir *to, const char *name, struct cp_entry *ret,
                                        char target[PATH_MAX])
{
        *ret = (struct cp_entry){ .name = name };
        if (cp_look(to, name, &ret->meta) < 0 || ret->meta.kind == CP_NOTHING)
                return NULL;
        ssize_t n = ret->meta.kind == CP_LINK ? readlinkat(to->fd, name, target, PATH_MAX - 1) : 0;
        if (n > 0) {
                target[n] = '\0';
                ret->target = target;
        }
        return ret;
}

void cp_tree(struct cp_dir *from, struct cp_dir *to)
{
        _cp_list_ struct cp_list source, there;
        struct cp_entry near;
        char target[PATH_MAX];
        const struct cp_entry *entry;
        bool has_failed = false;
        cp_list_begin(&source, from);
        cp_list_begin(&there, to);
        while ((entry = cp_list_next(&source, &has_failed)) && !cp_is_lost(from->cp)) {
                const struct cp_entry *existing = NULL;
                /* A file that waits to be verified holds descriptors, and a mode is set by a request: there must not be too many of either. */
                cp_settle(from->cp, CP_CALLS_MAX);
                if (!to->is_new)
                        existing = cp_is_near(to->side) ? look_near(to, entry->name, &near, target)
                                                        : cp_list_find(&there, entry->name);
                cp_entry(from, entry, to, entry->name, existing);
        }
        cp_small_flush(from->cp);
}
