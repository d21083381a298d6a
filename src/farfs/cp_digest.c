/* cp_digest: compares files by digests, part by part, and keeps the list of files that are to be verified.
 *
 * Each side makes the digest of its own file, from what it has on its disk. From a server that makes no digests the file is read back.
 */
#include "base/fd.h"
#include "base/mem.h"
#include "farfs/cp.h"
#include "wire/json.h"

#include <errno.h>
#include <nettle/sha2.h>
#include <unistd.h>

#define PIECE_BYTES ((size_t)64 * 1024)
#define ANSWER_MAX ((size_t)64 * 1024)

/* The digest of one part of a file. */
struct part {
        uint8_t digest[SHA256_DIGEST_SIZE];
        uint64_t bytes; /* fewer than asked for: the file ends there */
};

static int part_near(struct cp_dir *dir, const char *name, uint64_t offset, uint64_t length, struct part *ret)
{
        struct stat st;
        struct sha256_ctx sha;
        uint8_t piece[PIECE_BYTES];
        _close_ int fd = cp_near_open(dir->fd, name, &st);
        if (fd < 0)
                return fd;
        sha256_init(&sha);
        for (ret->bytes = 0; ret->bytes < length;) {
                ssize_t n = pread(fd, piece, MIN((uint64_t)sizeof(piece), length - ret->bytes),
                                  (off_t)(offset + ret->bytes));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                sha256_update(&sha, (size_t)n, piece);
                ret->bytes += (uint64_t)n;
        }
        sha256_digest(&sha, sizeof(ret->digest), ret->digest);
        return 0;
}

static int parse_part(const char *result, struct part *ret, struct farhand_error *ret_error)
{
        static const char prefix[] = "sha256:";
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf text = BUF_INIT(ANSWER_MAX);
        struct json_doc doc;
        struct json_error bad;
        *ret_error = (struct farhand_error){ .code = -EPROTO, .text = "the server's answer has no digest" };
        if (buf_append(&text, slice_from_str(result)) < 0 || json_parse(&a, buf_slice(&text), &doc, &bad) < 0)
                return -EPROTO;
        const struct json *digest = json_get(&doc, json_root(&doc), S("digest"));
        const struct json *bytes = json_get(&doc, json_root(&doc), S("bytes"));
        if (!digest || digest->type != JSON_STRING || !bytes || json_u64(&doc, bytes, &ret->bytes) < 0)
                return -EPROTO;
        struct slice hex = json_string(&a, &doc, digest);
        if (hex.n != strlen(prefix) + 2 * sizeof(ret->digest) || !slice_starts(hex, S("sha256:")))
                return -EPROTO;
        for (size_t i = 0; i < sizeof(ret->digest); i++) {
                int high = ascii_hex_value(hex.p[strlen(prefix) + 2 * i]);
                int low = ascii_hex_value(hex.p[strlen(prefix) + 2 * i + 1]);
                if (high < 0 || low < 0)
                        return -EPROTO;
                ret->digest[i] = (uint8_t)((unsigned)high << 4 | (unsigned)low);
        }
        return 0;
}

static int part_read_back(struct cp_dir *dir, const char *name, uint64_t offset, uint64_t length,
                          struct part *ret, struct farhand_error *ret_error)
{
        struct farhand_file_options options = FARHAND_FILE_OPTIONS_INIT;
        struct sha256_ctx sha;
        uint8_t piece[PIECE_BYTES];
        _free_ char *path = cp_path(dir, name);
        options.offset = offset;
        struct farhand_file *file = farhand_file_open(dir->side->fs.client, path, &options, ret_error);
        int64_t n = file ? 0 : -1;
        sha256_init(&sha);
        for (ret->bytes = 0; file && ret->bytes < length;) {
                n = farhand_file_read(file, piece, MIN((uint64_t)sizeof(piece), length - ret->bytes),
                                      ret_error);
                if (n == -EAGAIN) {
                        cp_wait(dir->cp, -1, 0);
                        continue;
                }
                if (n <= 0)
                        break;
                sha256_update(&sha, (size_t)n, piece);
                ret->bytes += (uint64_t)n;
        }
        farhand_file_free(file);
        sha256_digest(&sha, sizeof(ret->digest), ret->digest);
        return n < 0 ? -EIO : 0;
}

/* Makes the digest of up to `length` bytes from `offset` on. Returns 0, or -1; then stderr was told, unless is_quiet. */
static int part_of(struct cp_dir *dir, const char *name, uint64_t offset, uint64_t length, bool is_quiet,
                   struct part *ret)
{
        struct farhand_error error;
        int r;
        if (cp_is_near(dir->side)) {
                r = part_near(dir, name, offset, length, ret);
                if (r < 0 && !is_quiet)
                        cp_complain_errno(dir, name, -r);
                return r < 0 ? -1 : 0;
        }
        if (dir->side->has_batch) {
                _free_ char *path = cp_path_json(dir, name), *result = NULL;
                _free_ char *params =
                        mem_printf("{\"path\":%s,\"offset\":%ju,\"length\":%ju,\"unordered\":true}", path,
                                   (uintmax_t)offset, (uintmax_t)length);
                r = cp_call(dir->side, "fs/digest", params, &result, &error);
                if (r == 0)
                        r = parse_part(result, ret, &error);
        } else {
                r = part_read_back(dir, name, offset, length, ret, &error);
        }
        if (r < 0 && !is_quiet)
                cp_complain(dir, name, &error);
        return r < 0 ? -1 : 0;
}

int cp_compare(struct cp_dir *a, const char *a_name, struct cp_dir *b, const char *b_name, uint64_t length,
               bool is_quiet)
{
        for (uint64_t offset = 0;; offset += CP_PART_BYTES) {
                uint64_t wanted = MIN(CP_PART_BYTES, length - offset);
                struct part x, y;
                if (part_of(a, a_name, offset, wanted, is_quiet, &x) < 0 ||
                    part_of(b, b_name, offset, wanted, is_quiet, &y) < 0)
                        return -1;
                if (x.bytes != y.bytes || memcmp(x.digest, y.digest, sizeof(x.digest)) != 0)
                        return 0;
                if (x.bytes < CP_PART_BYTES || offset + CP_PART_BYTES >= length)
                        return 1;
        }
}

/* ---- what is to be verified ---- */

struct cp_check {
        struct list link; /* cp::checks */
        struct cp_dir *from, *to;
        char *from_name, *to_name;
};

static void add_check(struct cp_dir *from, const char *from_name, struct cp_dir *to, const char *to_name)
{
        if (!from->cp->is_verified)
                return;
        struct cp_check *c = mem_new(struct cp_check);
        *c = (struct cp_check){ .from = cp_dir_ref(from),
                                .to = cp_dir_ref(to),
                                .from_name = mem_strdup(from_name),
                                .to_name = mem_strdup(to_name) };
        list_append(&from->cp->checks, &c->link);
}

void cp_done(struct cp_dir *from, const char *from_name, struct cp_dir *to, const char *to_name,
             uint64_t bytes)
{
        from->cp->counts.files++;
        from->cp->counts.bytes += bytes;
        add_check(from, from_name, to, to_name);
        cp_progress_update(from->cp);
}

void cp_was_there(struct cp_dir *from, const char *from_name, struct cp_dir *to, const char *to_name)
{
        from->cp->counts.unchanged++;
        add_check(from, from_name, to, to_name);
}

void cp_checks_run(struct cp *cp)
{
        while (!list_is_empty(&cp->checks)) {
                struct cp_check *c = list_first(&cp->checks, struct cp_check, link);
                list_remove(&c->link);
                int r = cp_is_lost(cp)
                                ? -1
                                : cp_compare(c->from, c->from_name, c->to, c->to_name, UINT64_MAX, false);
                if (r == 0)
                        cp_complain_text(c->to, c->to_name, "the copy differs from its source");
                if (r == 1)
                        cp->counts.verified++;
                cp_dir_unref(c->from);
                cp_dir_unref(c->to);
                free(c->from_name);
                free(c->to_name);
                free(c);
        }
}
