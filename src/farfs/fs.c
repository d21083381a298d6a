/* fs: `farhand fs`: the files of an environment, by verbs. */
#include "farfs/fs.h"

#include "base/errno_text.h"
#include "base/mem.h"
#include "base/printable.h"
#include "base/uri.h"
#include "cli/verbs.h"
#include "farfs/farfs.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

/* ---- the frame ---- */

static void on_notification(UNUSED struct farhand *f, void *arg, const char *method, const char *params)
{
        struct fs *fs = arg;
        if (fs->on_notification)
                fs->on_notification(fs, method, params);
}

static bool wants_colours(const struct fs *fs)
{
        const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
        return fs->is_terminal && !(no_color && *no_color) && term && strcmp(term, "dumb") != 0;
}

int fs_begin(struct fs *fs, const struct args *spec, int argc, char **argv, int min, int max, int *ret_rest)
{
        struct farhand_options options = FARHAND_OPTIONS_INIT;
        int rest = 0;
        enum args_result parsed = args_parse(spec, argc, argv, &rest);
        if (parsed != ARGS_OK)
                return args_exit_code(parsed);
        if (argc - rest < min || (max >= 0 && argc - rest > max)) {
                fprintf(stderr, "error: %s operands; usage: %s\n", argc - rest < min ? "too few" : "too many",
                        spec->usage);
                return 2;
        }
        options.client_name = "farhand fs";
        options.on_notification = on_notification;
        fs->is_terminal = isatty(STDOUT_FILENO) == 1;
        fs->has_colours = wants_colours(fs);
        if (remote_choose(&fs->remote) < 0)
                return FS_LOST;
        fs->client = remote_connect(&fs->remote, &options);
        *ret_rest = rest;
        return fs->client ? -1 : FS_LOST;
}

bool fs_is_lost(const struct fs *fs)
{
        return farhand_get_state(fs->client) == FARHAND_FAILED;
}

int fs_end(struct fs *fs, int code)
{
        if (fs->client && (fflush(stdout) != 0 || ferror(stdout))) {
                remote_say(&fs->remote, "cannot write the output: %s", errno_text(errno));
                fs->has_failed = true;
        }
        if (fs->client)
                code = fs_is_lost(fs) ? FS_LOST : fs->has_failed ? FS_FAILED : 0;
        farhand_free(fs->client);
        remote_release(&fs->remote);
        return code;
}

/* ---- paths ---- */

static const char *find_cwd(struct fs *fs)
{
        if (!remote_is_local(&fs->remote))
                return remote_server_cwd(&fs->remote, fs->client);
        _free_ char *here = getcwd(NULL, 0);
        return here ? arena_dup(&fs->remote.arena, slice_from_str(here)) : NULL;
}

const char *fs_path(struct fs *fs, const char *given)
{
        struct slice path;
        struct arena *a = &fs->remote.arena;
        if (given[0] == '\0') {
                fs_complain_errno(fs, given, ENOENT);
                return NULL;
        }
        if (given[0] != '/') {
                if (!fs->cwd)
                        fs->cwd = find_cwd(fs);
                if (!fs->cwd) {
                        remote_say(&fs->remote,
                                   "%s: nobody knows which directory this is relative to; use an absolute "
                                   "path",
                                   printable_str(a, given));
                        fs->has_failed = true;
                        return NULL;
                }
                given = fs_join(fs, fs->cwd, given);
        }
        if (uri_to_path(a, slice_from_str(given), &path, NULL) == URI_OK)
                return path.p;
        fs_complain_errno(fs, given, EINVAL);
        return NULL;
}

const char *fs_join(struct fs *fs, const char *directory, const char *name)
{
        size_t n = strlen(directory);
        return arena_printf(&fs->remote.arena, "%s%s%s", directory,
                            n > 0 && directory[n - 1] == '/' ? "" : "/", name);
}

const char *fs_last_name(struct fs *fs, const char *path)
{
        size_t end = strlen(path);
        while (end > 1 && path[end - 1] == '/')
                end--;
        size_t start = end;
        while (start > 0 && path[start - 1] != '/')
                start--;
        return arena_dup(&fs->remote.arena, slice_from(path + start, end - start));
}

/* ---- complaints ---- */

/* Returns the text of an error for people, without the "(os error N)" that servers put behind it. */
static const char *words_of(struct fs *fs, const struct farhand_error *error)
{
        if (error->rpc_code == -32601)
                return "this server cannot do that";
        const char *number = strstr(error->text, " (os error ");
        size_t n = number ? (size_t)(number - error->text) : strlen(error->text);
        return printable_text(&fs->remote.arena, slice_from(error->text, n));
}

void fs_complain(struct fs *fs, const char *path, const struct farhand_error *error)
{
        fs->has_failed = true;
        fflush(stdout);
        remote_say(&fs->remote, "%s: %s", printable_str(&fs->remote.arena, path), words_of(fs, error));
}

void fs_complain_errno(struct fs *fs, const char *path, int os_errno)
{
        fs->has_failed = true;
        fflush(stdout);
        remote_say(&fs->remote, "%s: %s", printable_str(&fs->remote.arena, path), errno_text(os_errno));
}

/* ---- output ---- */

enum fs_kind fs_kind_of(const struct farhand_metadata *m)
{
        if (m->is_symlink)
                return FS_LINK;
        if (m->is_directory)
                return FS_DIRECTORY;
        if (!m->is_file)
                return FS_OTHER;
        return m->mode & 0111 ? FS_PROGRAM : FS_FILE;
}

void fs_print_name(struct fs *fs, const char *name, enum fs_kind kind)
{
        static const char *const colours[] = { [FS_OTHER] = "\033[33m",
                                               [FS_PROGRAM] = "\033[1;32m",
                                               [FS_DIRECTORY] = "\033[1;34m",
                                               [FS_LINK] = "\033[1;36m" };
        const char *colour = fs->has_colours ? colours[kind] : NULL;
        _arena_ struct arena a = ARENA_INIT;
        printf("%s%s%s", colour ? colour : "", fs->is_terminal ? printable_str(&a, name) : name,
               colour ? "\033[0m" : "");
}

void fs_json_path(struct jsonw *w, const char *key, const char *path)
{
        _buf_ struct buf uri = BUF_INIT(FS_JSON_MAX);
        jsonw_key(w, key);
        if (uri_from_path(&uri, slice_from_str(path)) == 0)
                jsonw_string(w, buf_slice(&uri));
        else
                jsonw_null(w);
}

void fs_json_metadata(struct jsonw *w, const struct farhand_metadata *m)
{
        jsonw_member_bool(w, "isDirectory", m->is_directory);
        jsonw_member_bool(w, "isFile", m->is_file);
        jsonw_member_bool(w, "isSymlink", m->is_symlink);
        jsonw_member_u64(w, "size", m->size);
        jsonw_member_i64(w, "createdAtMs", m->created_ms);
        jsonw_member_i64(w, "modifiedAtMs", m->modified_ms);
        if (!m->has_mode)
                return;
        jsonw_member_u64(w, "mode", m->mode);
        jsonw_member_u64(w, "uid", m->uid);
        jsonw_member_u64(w, "gid", m->gid);
        jsonw_member_u64(w, "links", m->links);
}

void fs_json_line(struct jsonw *w, struct buf *text)
{
        if (jsonw_end(w) == 0)
                printf("%s\n", text->p);
}

void fs_mode_text(const struct farhand_metadata *m, char ret[11])
{
        static const char letters[] = "rwxrwxrwx";
        static const struct {
                uint32_t bit;
                unsigned at;
                char set, alone;
        } special[] = { { 04000, 3, 's', 'S' }, { 02000, 6, 's', 'S' }, { 01000, 9, 't', 'T' } };
        ret[0] = m->is_symlink ? 'l' : m->is_directory ? 'd' : m->is_file ? '-' : '?';
        for (unsigned i = 0; i < 9; i++)
                ret[1 + i] = !m->has_mode ? '?' : m->mode & (0400U >> i) ? letters[i] : '-';
        for (unsigned i = 0; m->has_mode && i < ARRAY_LEN(special); i++)
                if (m->mode & special[i].bit)
                        ret[special[i].at] = ret[special[i].at] == 'x' ? special[i].set : special[i].alone;
        ret[10] = '\0';
}

void fs_time_text(int64_t ms, bool with_seconds, char ret[32])
{
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;
        if (!localtime_r(&seconds, &tm) ||
            strftime(ret, 32, with_seconds ? "%Y-%m-%d %H:%M:%S %z" : "%Y-%m-%d %H:%M", &tm) == 0)
                (void)snprintf(ret, 32, "?");
}

int cmd_fs(int argc, char **argv)
{
        static const struct command list[] = {
                { "ls", "list directories", fs_ls },
                { "cat", "print files", fs_cat },
                { "put", "write a file of here to there", fs_put },
                { "get", "write a file of there to here", fs_get },
                { "rm", "remove files and directories", fs_rm },
                { "mv", "rename or move a file or directory", fs_mv },
                { "mkdir", "make directories", fs_mkdir },
                { "stat", "say what is known of files", fs_stat },
                { "tree", "show what is below a directory", fs_tree },
                { "watch", "tell changes as they happen", fs_watch },
                { .name = NULL },
        };
        return verbs_run(&(struct verbs){ "farhand fs", "The files of an environment, or of this machine.",
                                          list },
                         argc, argv);
}
