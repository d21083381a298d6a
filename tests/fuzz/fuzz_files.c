/* fuzz_files: sequences of file requests against the real server and the real file operations, in a jail (jail.h), and
 * beside them a tree in memory (tree_model.h) that says what each must answer and leave.
 *
 * The input is bytes: which method, which of a few names, how the path is spelled, which options, which content; what is
 * missing at its end is zeros. Checked: every answer (its value, or the code of its error); the whole tree, with modes,
 * contents and links, after each request that may have changed it; that nothing else is in it, such as a temporary file;
 * that no descriptor and no memory is left. Without root it says so and does nothing.
 */
#include "base/log.h"
#include "files_ask.h"
#include "files_disk.h"
#include "jail.h"
#include "tree_changes.h"

#include <nettle/sha2.h>
#include <signal.h>

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define REQUESTS_MAX 48
#define NODES_MAX 160
#define TREE_BYTES_MAX (6 * MIB)
#define HANDLES 3

/* --- the input ---------------------------------------------------------------------------------------------------- */

static const char *const names[] = { "a", "b", "c", "a", "b", ".h", "\xff\x80", "e\xcc\x81 %" };

/* Makes a clean path of up to three names from the input. */
static void next_path(char ret[PATH_BYTES])
{
        unsigned depth = next_byte() % 8;
        size_t n = 0;
        depth = depth == 7 ? 0 : depth % 3 + 1;
        memset(ret, 0, PATH_BYTES);
        if (depth == 0)
                ret[0] = '/';
        while (depth-- > 0)
                n += (size_t)snprintf(ret + n, PATH_BYTES - n, "/%s", names[next_byte() % ARRAY_LEN(names)]);
}

static const char *const odd_targets[] = { ".", "..", "/", "a/", "a/.", "b/../a", "./b", "a//b" };

/* Makes the target of a link from the input. */
static void next_target(char ret[PATH_BYTES])
{
        unsigned kind = next_byte();
        if (kind % 4 == 0) {
                next_path(ret);
                if (!utf8_is_valid(slice_from_str(ret)))
                        memcpy(ret, "/c", 3);
        } else if (kind % 4 == 1) {
                (void)snprintf(ret, PATH_BYTES, "%s", names[kind / 4 % 6]);
        } else if (kind % 4 == 2) {
                (void)snprintf(ret, PATH_BYTES, "../%s", names[kind / 4 % 6]);
        } else {
                (void)snprintf(ret, PATH_BYTES, "%s", odd_targets[kind / 4 % ARRAY_LEN(odd_targets)]);
        }
}

static void next_content(struct buf *ret)
{
        static const size_t large[] = { 4096, 70000, 140000 };
        unsigned size = next_byte(), seed = next_byte();
        size_t n = size < 250 ? size % 40 : large[size % 3];
        char *room;
        must(buf_reserve(ret, n, &room) == 0);
        for (size_t i = 0; i < n; i++)
                room[i] = (char)(seed + i * i / 7);
        buf_commit(ret, n);
}

static unsigned next_mode(void)
{
        static const unsigned modes[] = { 0644, 0600, 0755, 0, 04755, 02644, 0777, 07777 };
        return modes[next_byte() % ARRAY_LEN(modes)];
}

/* --- looking ------------------------------------------------------------------------------------------------------ */

static void do_read_file(void)
{
        char path[PATH_BYTES];
        unsigned bits = next_byte();
        bool follow = !next_bit(&bits);
        struct node *n = NULL;
        next_path(path);
        int r = path_get(path, follow, &n);
        if (r == 0 && n->kind != NODE_FILE)
                r = n->kind == NODE_LINK ? -ELOOP : -EINVAL;
        ask_begin("fs/readFile");
        write_path("path", path);
        jsonw_member_bool(&params, "followSymlinks", follow);
        if (ask_expecting(r))
                want_bytes("dataBase64", buf_slice(&n->bytes));
}

static void digest_of(const struct node *n, char ret[72])
{
        struct sha256_ctx sha;
        uint8_t digest[SHA256_DIGEST_SIZE];
        sha256_init(&sha);
        sha256_update(&sha, n->bytes.n, (const uint8_t *)n->bytes.p);
        sha256_digest(&sha, sizeof(digest), digest);
        memcpy(ret, "sha256:", 8);
        for (size_t i = 0; i < sizeof(digest); i++)
                (void)snprintf(ret + 7 + 2 * i, 3, "%02x", digest[i]);
}

static void do_get_metadata(void)
{
        char path[PATH_BYTES], digest[72];
        unsigned bits = next_byte();
        bool follow = !next_bit(&bits), has_digest = next_bit(&bits);
        struct tree_place named;
        struct node *n = NULL;
        next_path(path);
        int r = path_get(path, follow, &n);
        bool is_link = !is_unnamed(path) && parent_find(path, true, &named) == 0 && named.node &&
                       named.node->kind == NODE_LINK;
        if (r == 0 && n->kind == NODE_LINK)
                r = -EINVAL;
        ask_begin("fs/getMetadata");
        write_path("path", path);
        jsonw_member_bool(&params, "followSymlinks", follow);
        jsonw_member_bool(&params, "digest", has_digest);
        if (!ask_expecting(r))
                return;
        want_bool(reply.result, "isDirectory", n->kind == NODE_DIRECTORY);
        want_bool(reply.result, "isFile", n->kind == NODE_FILE);
        want_bool(reply.result, "isSymlink", is_link);
        want(number_of(reply.result, "mode") == n->mode);
        if (n->kind != NODE_FILE)
                return;
        want(number_of(reply.result, "size") == n->bytes.n && number_of(reply.result, "links") == 1);
        want(!n->has_modified || time_of(reply.result) == n->modified_ms);
        digest_of(n, digest);
        if (has_digest)
                want(slice_eq(string_of(member(reply.result, "digest")), slice_from_str(digest)));
}

static void do_canonicalize(void)
{
        char path[PATH_BYTES], real[REAL_BYTES];
        struct node *n = NULL;
        next_path(path);
        int r = path_get(path, true, &n);
        ask_begin("fs/canonicalize");
        write_path("path", path);
        if (!ask_expecting(r))
                return;
        path_of(n, real);
        want_uri(member(reply.result, "path"), real);
}

static void do_read_link(void)
{
        char path[PATH_BYTES];
        struct tree_place p = { .node = root };
        next_path(path);
        int r = is_unnamed(path) ? 0 : parent_find(path, true, &p);
        if (r == 0 && (!p.node || p.node->kind != NODE_LINK))
                r = p.node ? -EINVAL : -ENOENT;
        ask_begin("fs/readLink");
        write_path("path", path);
        if (ask_expecting(r))
                want(slice_eq(string_of(member(reply.result, "target")), buf_slice(&p.node->bytes)));
}

/* Returns the node that a name in a directory leads to when links are followed; NULL when they lead nowhere. */
static struct node *meant_by(struct node *n)
{
        struct tree_place p;
        unsigned links = 0;
        return place_find(n->parent, slice_from_str(n->name), true, &links, &p) == 0 ? p.node : NULL;
}

static void want_entry(const struct json *v, const struct node *n, const struct node *meant, const char *in)
{
        char path[PATH_BYTES * 2];
        bool is_text = utf8_is_valid(slice_from_str(n->name));
        want_bool(v, "isDirectory", meant->kind == NODE_DIRECTORY);
        want_bool(v, "isFile", meant->kind == NODE_FILE);
        if (is_text) {
                want(slice_eq(string_of(member(v, "fileName")), slice_from_str(n->name)));
                want(!json_get(&reply.doc, v, S("path")));
                return;
        }
        (void)snprintf(path, sizeof(path), "%s/%s", is_unnamed(in) ? "" : in, n->name);
        want_uri(member(v, "path"), path);
}

static void do_read_directory(void)
{
        char path[PATH_BYTES];
        struct node *dir = NULL;
        next_path(path);
        int r = path_get(path, true, &dir);
        if (r == 0 && dir->kind != NODE_DIRECTORY)
                r = -ENOTDIR;
        ask_begin("fs/readDirectory");
        write_path("path", path);
        if (!ask_expecting(r))
                return;
        struct node *n = dir->children, *meant = NULL;
        json_each (v, &reply.doc, member(reply.result, "entries")) {
                while (n && !(meant = meant_by(n)))
                        n = n->next;
                want(n);
                want_entry(v, n, meant, path);
                n = n->next;
        }
        for (; n; n = n->next)
                want(!meant_by(n));
}

/* --- walking ------------------------------------------------------------------------------------------------------ */

struct walked {
        char path[REAL_BYTES];
        struct node *dir; /* NULL: a file */
        uint64_t depth;
        bool is_entered;
};

static struct walked walked[NODES_MAX * 4];
static size_t walked_count;

struct walk_limits {
        uint64_t depth, directories, entries;
        bool follow, prune;
};

static bool is_entered_already(const struct node *dir)
{
        for (size_t i = 0; i < walked_count; i++)
                if (walked[i].dir == dir && walked[i].is_entered)
                        return true;
        return false;
}

/* Walks the model, breadth first, into `walked`. walked[0] is the root, which is not in the answer. Returns true when the walk was
 * truncated. */
static bool walk_model(struct node *dir, const char *path, const struct walk_limits *o)
{
        uint64_t examined = 0, entered = 1;
        bool is_truncated = false;
        walked_count = 1;
        walked[0] = (struct walked){ .dir = dir, .is_entered = true };
        (void)snprintf(walked[0].path, sizeof(walked[0].path), "%s", is_unnamed(path) ? "" : path);
        for (size_t i = 0; i < walked_count; i++) {
                for (struct node *n = walked[i].is_entered ? walked[i].dir->children : NULL; n; n = n->next) {
                        struct node *meant = meant_by(n);
                        if (!meant)
                                continue;
                        if (examined++ >= o->entries)
                                return true;
                        if (n != meant && !(o->follow && meant->kind == NODE_DIRECTORY))
                                continue;
                        struct walked *item = &walked[walked_count];
                        *item = (struct walked){ .depth = walked[i].depth + 1 };
                        (void)snprintf(item->path, sizeof(item->path), "%.*s/%s", REAL_BYTES - 64,
                                       walked[i].path, n->name);
                        if (meant->kind == NODE_DIRECTORY) {
                                item->dir = meant;
                                bool is_wanted = item->depth <= o->depth &&
                                                 !(o->prune && n->name[0] == '.') &&
                                                 !(o->follow && is_entered_already(meant));
                                item->is_entered = is_wanted && entered < o->directories;
                                is_truncated = is_truncated || (is_wanted && !item->is_entered);
                                entered += item->is_entered;
                        }
                        must(++walked_count < ARRAY_LEN(walked));
                }
        }
        return is_truncated;
}

static void do_walk(void)
{
        static const uint64_t few[] = { 100, 1, 2, 3, 4, 0, 6, 200000 };
        char path[PATH_BYTES];
        unsigned bits = next_byte(), counts = next_byte();
        struct walk_limits o = { .depth = bits >> 4 & 3,
                                 .directories = few[counts & 7],
                                 .entries = few[counts >> 4 & 7],
                                 .follow = bits & 1,
                                 .prune = bits & 2 };
        struct node *dir = NULL;
        struct tree_place named = { .node = root };
        bool is_truncated = false;
        next_path(path);
        int r = path_get(path, true, &dir);
        if (o.directories == 0 || o.entries == 0 || MAX(o.directories, o.entries) > 100000)
                r = -EINVAL;
        walked_count = 1;
        if (r == 0 && !is_unnamed(path))
                must(parent_find(path, true, &named) == 0);
        if (r == 0 && dir->kind == NODE_DIRECTORY && (o.follow || named.node == dir))
                is_truncated = walk_model(dir, path, &o);
        ask_begin("fs/walk");
        write_path("path", path);
        jsonw_key(&params, "options");
        jsonw_object(&params);
        jsonw_member_u64(&params, "maxDepth", o.depth);
        jsonw_member_u64(&params, "maxDirectories", o.directories);
        jsonw_member_u64(&params, "maxEntries", o.entries);
        jsonw_member_bool(&params, "followDirectorySymlinks", o.follow);
        jsonw_member_bool(&params, "pruneHiddenDirectories", o.prune);
        jsonw_object_end(&params);
        if (!ask_expecting(r))
                return;
        size_t i = 1;
        json_each (v, &reply.doc, member(reply.result, "entries")) {
                want(i < walked_count);
                want_uri(member(v, "path"), walked[i].path);
                want(slice_eq(string_of(member(v, "kind")), walked[i].dir ? S("directory") : S("file")));
                i++;
        }
        want(i == walked_count);
        json_each (v, &reply.doc, member(reply.result, "errors"))
                fail("a walk with errors");
        want_bool(reply.result, "truncated", is_truncated);
}

/* --- changing ----------------------------------------------------------------------------------------------------- */

/* Writes ifMatch. `kind`: 0 no condition, 1 absent, 2 the digest, 3 size and time, 4 a wrong digest, 5 a wrong size or time. The
 * model has no times: `modified_ms` was asked of the server. */
static void write_match(unsigned kind, bool is_file, const struct node *n, int64_t modified_ms)
{
        char digest[72] = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
        bool is_right = is_file && kind < 4;
        if (kind == 0)
                return;
        jsonw_key(&params, "ifMatch");
        jsonw_object(&params);
        if (kind == 1) {
                jsonw_member_bool(&params, "absent", true);
        } else if (kind % 2 == 0) {
                if (is_right)
                        digest_of(n, digest);
                jsonw_member_str(&params, "digest", digest);
        } else {
                jsonw_member_u64(&params, "size", is_file ? n->bytes.n : 0);
                jsonw_member_i64(&params, "modifiedAtMs", modified_ms + !is_right);
        }
        jsonw_object_end(&params);
}

static int64_t ask_modified(const char *path)
{
        ask_begin("fs/getMetadata");
        write_path("path", path);
        return ask_end() == 0 ? time_of(reply.result) : 0;
}

static void do_write_file(void)
{
        _buf_ struct buf content = BUF_INIT(MIB);
        char path[PATH_BYTES];
        unsigned bits = next_byte(), kind = next_byte() % 12;
        struct model_write m = { .follow = !next_bit(&bits), .is_atomic = !next_bit(&bits) };
        m.create_parents = next_bit(&bits);
        m.has_mode = next_bit(&bits);
        m.mode = m.has_mode ? next_mode() : 0;
        bool is_bad = bits == 15;
        kind = kind > 5 ? 0 : kind;
        next_path(path);
        next_content(&content);
        m.bytes = buf_slice(&content);

        struct node *n = NULL;
        bool is_file = path_get(path, true, &n) == 0 && n->kind == NODE_FILE;
        int64_t modified_ms = kind == 3 || kind == 5 ? ask_modified(path) : 0;
        m.match = kind == 0 ? ANY : kind == 1 ? ABSENT : kind < 4 && is_file ? RIGHT : WRONG;
        ask_begin("fs/writeFile");
        write_path("path", path);
        jsonw_key(&params, "dataBase64");
        if (is_bad)
                jsonw_str(&params, "aGVsbG8");
        else
                jsonw_base64(&params, m.bytes);
        jsonw_member_bool(&params, "followSymlinks", m.follow);
        jsonw_member_bool(&params, "atomic", m.is_atomic);
        jsonw_member_bool(&params, "createParents", m.create_parents);
        if (m.has_mode)
                jsonw_member_u64(&params, "mode", m.mode);
        write_match(kind, is_file, n, modified_ms);
        if (ask_expecting(is_bad ? -EINVAL : model_write_file(path, &m)))
                want(number_of(reply.result, "size") == m.bytes.n);
}

static void do_create_directory(void)
{
        char path[PATH_BYTES];
        unsigned bits = next_byte();
        bool follow = !next_bit(&bits), recursive = next_bit(&bits);
        next_path(path);
        ask_begin("fs/createDirectory");
        write_path("path", path);
        jsonw_member_bool(&params, "recursive", recursive);
        jsonw_member_bool(&params, "followSymlinks", follow);
        (void)ask_expecting(model_create_directory(path, recursive, follow));
}

static void do_remove(void)
{
        char path[PATH_BYTES];
        unsigned bits = next_byte();
        bool follow = !next_bit(&bits), recursive = next_bit(&bits), force = next_bit(&bits);
        next_path(path);
        ask_begin("fs/remove");
        write_path("path", path);
        jsonw_member_bool(&params, "recursive", recursive);
        jsonw_member_bool(&params, "force", force);
        jsonw_member_bool(&params, "followSymlinks", follow);
        (void)ask_expecting(model_remove(path, recursive, force, follow));
}

static void do_rename(void)
{
        char from[PATH_BYTES], to[PATH_BYTES];
        bool replace = !(next_byte() & 1);
        next_path(from);
        next_path(to);
        ask_begin("fs/rename");
        write_path("sourcePath", from);
        write_path("destinationPath", to);
        jsonw_member_bool(&params, "replace", replace);
        (void)ask_expecting(model_rename(from, to, replace));
}

static void do_symlink(void)
{
        char path[PATH_BYTES], target[PATH_BYTES];
        next_path(path);
        next_target(target);
        ask_begin("fs/symlink");
        write_path("path", path);
        jsonw_member_str(&params, "target", target);
        (void)ask_expecting(model_symlink(path, slice_from_str(target)));
}

static void do_set_metadata(void)
{
        static const int64_t times[] = { 0, -1, 1, 1234567890123 };
        char path[PATH_BYTES];
        unsigned bits = next_byte();
        bool follow = !next_bit(&bits), has_mode = next_bit(&bits), has_modified = next_bit(&bits);
        unsigned mode = has_mode ? next_mode() : 0;
        int64_t modified_ms = times[bits & 3];
        struct node *n = NULL;
        next_path(path);
        int r = path_get(path, follow, &n);
        if (r == 0 && n->kind == NODE_LINK)
                r = -EINVAL;
        ask_begin("fs/setMetadata");
        write_path("path", path);
        jsonw_member_bool(&params, "followSymlinks", follow);
        if (has_mode)
                jsonw_member_u64(&params, "mode", mode);
        if (has_modified)
                jsonw_member_i64(&params, "modifiedAtMs", modified_ms);
        if (!ask_expecting(r))
                return;
        n->mode = has_mode ? mode : n->mode;
        n->has_modified = n->has_modified || has_modified;
        n->modified_ms = has_modified ? modified_ms : n->modified_ms;
}

/* Makes a copy. Returns false when the model can no longer say what is in the tree. */
static bool do_copy(void)
{
        char from[PATH_BYTES], to[PATH_BYTES];
        bool recursive = !(next_byte() & 1), is_unsure, is_nested = false;
        struct node *source = NULL, *into = NULL;
        next_path(from);
        next_path(to);
        if (path_get(from, false, &source) == 0 && node_count + node_size_of_tree(source) > NODES_MAX)
                return true;
        ask_begin("fs/copy");
        write_path("sourcePath", from);
        write_path("destinationPath", to);
        jsonw_member_bool(&params, "recursive", recursive);
        int r = model_copy(from, to, recursive, &is_unsure);
        if (!is_unsure) {
                (void)ask_expecting(r);
                return true;
        }
        must(path_get(to, true, &into) == 0);
        is_nested = r == 0;
        int64_t code = ask_end();
        want(is_nested || code == RPC_INTERNAL);
        /* The source must be unchanged, whatever was copied. */
        struct tree_place p = { .node = root };
        if (!is_nested && !is_unnamed(from) && parent_find(from, true, &p) == 0)
                jail_call(compare_all, p.node);
        return false;
}

/* --- handles ------------------------------------------------------------------------------------------------------ */

static struct handle {
        struct node *node; /* NULL: not open */
        bool is_writing;
} handles[HANDLES];

static void handle_close(struct handle *h)
{
        if (h->node)
                node_unref(h->node);
        *h = (struct handle){ 0 };
}

static struct handle *next_handle(void)
{
        static const char *const ids[HANDLES] = { "h0", "h1", "h2" };
        size_t i = next_byte() % HANDLES;
        jsonw_member_str(&params, "handleId", ids[i]);
        return &handles[i];
}

static void do_open(void)
{
        static const char *const modes[] = { "read", "replace", "resume" };
        char path[PATH_BYTES];
        unsigned mode = next_byte() % 3;
        struct node *n = NULL;
        next_path(path);
        ask_begin("fs/open");
        struct handle *h = next_handle();
        write_path("path", path);
        jsonw_member_str(&params, "mode", modes[mode]);
        int r = h->node    ? -EINVAL
                : mode > 0 ? model_open_for_writing(path, mode == 1, &n)
                           : path_get(path, true, &n);
        if (r == 0 && n->kind != NODE_FILE)
                r = -EINVAL;
        if (!ask_expecting(r))
                return;
        if (mode == 2)
                want(number_of(reply.result, "size") == n->bytes.n);
        n->refs++;
        *h = (struct handle){ n, mode > 0 };
}

static const uint64_t offsets[] = { 0, 1, 7, 100, 4096, 70000, 140000, 800000 };

static void do_read_block(void)
{
        static const uint64_t lengths[] = { 1, 5, 39, 4096, 1048576, 0, 1048577, 200000 };
        unsigned bits = next_byte();
        uint64_t offset = offsets[bits & 7], length = lengths[bits >> 3 & 7];
        ask_begin("fs/readBlock");
        struct handle *h = next_handle();
        jsonw_member_u64(&params, "offset", offset);
        jsonw_member_u64(&params, "len", length);
        bool is_refused = length == 0 || length > MIB;
        int r = is_refused ? -EINVAL : !h->node ? -ENOENT : h->is_writing ? -EBADF : 0;
        if (ask_expecting(r)) {
                struct slice rest = buf_slice(&h->node->bytes);
                rest = offset < rest.n ? slice_from(rest.p + offset, MIN(rest.n - offset, length)) : S("");
                want_bytes("chunk", rest);
                want_bool(reply.result, "eof", rest.n < length);
        } else if (r == -EBADF) {
                handle_close(h); /* a read error closes the handle */
        }
}

static void do_write_block(void)
{
        _buf_ struct buf content = BUF_INIT(MIB);
        unsigned bits = next_byte();
        uint64_t offset = offsets[bits & 7];
        next_content(&content);
        ask_begin("fs/writeBlock");
        struct handle *h = next_handle();
        jsonw_member_u64(&params, "offset", offset);
        jsonw_key(&params, "chunk");
        jsonw_base64(&params, buf_slice(&content));
        int r = content.n == 0 ? -EINVAL : !h->node ? -ENOENT : h->is_writing ? 0 : -EBADF;
        if (ask_expecting(r))
                node_write_at(h->node, offset, buf_slice(&content));
}

static void do_close(void)
{
        ask_begin("fs/close");
        struct handle *h = next_handle();
        jsonw_member_bool(&params, "sync", next_byte() & 1);
        (void)ask_expecting(0);
        handle_close(h);
}

/* --- one input ---------------------------------------------------------------------------------------------------- */

/* Makes one request of the input. Returns false when the model can no longer say what is in the tree. */
static bool do_request(void)
{
        static void (*const looks[])(void) = { do_read_file, do_get_metadata,   do_canonicalize, do_read_link,
                                               do_walk,      do_read_directory, do_read_block };
        static void (*const changes[])(void) = { do_write_file, do_create_directory, do_remove,
                                                 do_rename,     do_symlink,          do_set_metadata,
                                                 do_open,       do_write_block,      do_close };
        unsigned which = next_byte() % (ARRAY_LEN(looks) + ARRAY_LEN(changes) + 4);
        if (which < ARRAY_LEN(looks)) {
                looks[which]();
                return true;
        }
        which -= ARRAY_LEN(looks);
        bool is_sure = true;
        if (which < ARRAY_LEN(changes))
                changes[which]();
        else if (which < ARRAY_LEN(changes) + 2)
                is_sure = do_copy();
        else
                do_write_file();
        if (is_sure)
                jail_call(compare_all, root);
        return is_sure;
}

int LLVMFuzzerInitialize(UNUSED int *argc, UNUSED char ***argv)
{
        log_set_level(LOG_OFF);
        signal(SIGPIPE, SIG_IGN);
        config_init(&config);
        config.conn.ping_interval_ms = 0;
        environment_init();
        if (!jail_open()) {
                fprintf(stderr, "fuzz_files: nothing is done\n");
                exit(0);
        }
        /* once before the first input, so that what the server keeps for ever does not count as a leak */
        server_open();
        server_close();
        return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        unsigned fds_before = count_fds();
        input = slice_from(data, size);
        root = node_new(NODE_DIRECTORY, 0755);
        server_open();
        converse();
        for (int i = 0; i < REQUESTS_MAX && input.n > 0; i++)
                if (!do_request() || node_count > NODES_MAX || node_bytes > TREE_BYTES_MAX)
                        break;
        server_close();

        for (size_t i = 0; i < HANDLES; i++)
                handle_close(&handles[i]);
        node_remove(root);
        must(node_count == 0 && node_bytes == 0);
        jail_call(clear_all, NULL);
        arena_release(&arena);
        want(count_fds() == fds_before);
        return 0;
}
