/* pack: lays options and rules out in a memfd, and reads them from it again.
 *
 * The memfd is one struct head, then for each text a struct entry with its name and its bytes. */
#include "intercept/pack.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC 0x31636b70u

struct head {
        uint32_t magic;
        uint32_t count; /* of texts */
        uint8_t scope, names, on_prompt, on_unmatched, reports;
        uint8_t unused[3];
};

struct entry {
        uint32_t name_bytes, text_bytes;
};

/* Every text has an entry and a name. */
#define PACK_BYTES_MAX                                     \
        (sizeof(struct head) + (size_t)LIMIT_RULES_BYTES + \
         (size_t)LIMIT_RULES_FILES * (sizeof(struct entry) + LIMIT_RULES_NAME_BYTES))

static int put(struct buf *b, const void *bytes, size_t n)
{
        return buf_append(b, slice_from(bytes, n));
}

static int put_all(struct buf *b, const struct intercept_options *options,
                   const struct exec_rules_text *texts, size_t count)
{
        const struct head head = {
                .magic = MAGIC,
                .count = (uint32_t)count,
                .scope = (uint8_t)options->scope,
                .names = (uint8_t)options->names,
                .on_prompt = (uint8_t)options->on_prompt,
                .on_unmatched = (uint8_t)options->on_unmatched,
                .reports = options->reports,
        };
        int r = put(b, &head, sizeof(head));
        for (size_t i = 0; r == 0 && i < count; i++) {
                struct slice name = slice_from_str(texts[i].name), text = texts[i].text;
                if (name.n > LIMIT_RULES_NAME_BYTES || text.n > LIMIT_RULES_BYTES)
                        return -E2BIG;
                const struct entry entry = { (uint32_t)name.n, (uint32_t)text.n };
                r = put(b, &entry, sizeof(entry));
                r = r < 0 ? r : put(b, name.p, name.n);
                r = r < 0 ? r : put(b, text.p, text.n);
        }
        return r == -ENOBUFS ? -E2BIG : r;
}

int intercept_pack(const struct intercept_options *options, const struct exec_rules_text *texts, size_t count)
{
        _buf_ struct buf bytes = BUF_INIT(PACK_BYTES_MAX);

        if (count > LIMIT_RULES_FILES)
                return -E2BIG;
        int r = put_all(&bytes, options, texts, count);
        if (r < 0)
                return r;
        _close_ int fd = memfd_create("farhand-intercept", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        if (fd < 0)
                return -errno;
        r = fd_write_all(fd, buf_slice(&bytes));
        if (r < 0)
                return r;
        if (fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
                return -errno;
        return TAKE_FD(fd);
}

/* ---- reading ---- */

/* Reads all bytes, from the first on, wherever the offset stands. */
static int read_all(int fd, struct buf *ret)
{
        struct stat st;
        unsigned tries = 0;
        char *p;

        if (fstat(fd, &st) < 0)
                return -errno;
        if (st.st_size < (off_t)sizeof(struct head) || st.st_size > (off_t)PACK_BYTES_MAX)
                return -EBADMSG;
        int r = buf_reserve_or_fail(ret, (size_t)st.st_size, &p);
        if (r < 0)
                return r;
        for (off_t at = 0; at < st.st_size;) {
                ssize_t n = pread(fd, p + at, (size_t)(st.st_size - at), at);
                if (n == 0)
                        return -EBADMSG;
                if (n < 0 && !fd_again(errno, &tries))
                        return -errno;
                at += MAX(n, (ssize_t)0);
        }
        buf_commit(ret, (size_t)st.st_size);
        return 0;
}

/* Moves the first n bytes of *rest to *ret. */
static bool take(struct slice *rest, size_t n, struct slice *ret)
{
        if (rest->n < n)
                return false;
        *ret = slice_from(rest->p, n);
        *rest = slice_from(rest->p + n, rest->n - n);
        return true;
}

static bool take_text(struct arena *a, struct slice *rest, struct exec_rules_text *ret)
{
        struct slice bytes, name;
        struct entry entry;

        if (!take(rest, sizeof(entry), &bytes))
                return false;
        memcpy(&entry, bytes.p, sizeof(entry));
        if (!take(rest, entry.name_bytes, &name) || slice_has_nul(name) ||
            !take(rest, entry.text_bytes, &ret->text))
                return false;
        ret->name = arena_dup(a, name);
        return true;
}

static bool is_good(const struct head *head)
{
        return head->magic == MAGIC && head->count <= LIMIT_RULES_FILES && head->scope <= INTERCEPT_BELOW &&
               head->names <= INTERCEPT_FULL && head->on_prompt <= INTERCEPT_PROMPT_DENY &&
               head->on_unmatched <= INTERCEPT_UNMATCHED_ASK && head->reports <= 1;
}

int intercept_unpack(int fd, struct intercept_options *ret_options, struct exec_rules **ret_rules)
{
        _arena_ struct arena a = ARENA_INIT;
        _buf_ struct buf bytes = BUF_INIT(PACK_BYTES_MAX);
        struct err err = ERR_INIT;
        struct slice rest, first;
        struct head head;

        int r = read_all(fd, &bytes);
        if (r < 0)
                return r;
        rest = buf_slice(&bytes);
        if (!take(&rest, sizeof(head), &first))
                return -EBADMSG;
        memcpy(&head, first.p, sizeof(head));
        if (!is_good(&head))
                return -EBADMSG;
        struct exec_rules_text *texts = arena_alloc(&a, ((size_t)head.count + 1) * sizeof(*texts));
        for (uint32_t i = 0; i < head.count; i++)
                if (!take_text(&a, &rest, &texts[i]))
                        return -EBADMSG;
        if (rest.n > 0)
                return -EBADMSG;
        struct exec_rules *rules = exec_rules_new(texts, head.count, NULL, &err);
        if (!rules)
                return err.code;
        *ret_rules = rules;
        *ret_options = (struct intercept_options){
                .scope = (enum intercept_scope)head.scope,
                .names = (enum intercept_names)head.names,
                .on_prompt = (enum intercept_prompt)head.on_prompt,
                .on_unmatched = (enum intercept_unmatched)head.on_unmatched,
                .reports = head.reports,
        };
        return 0;
}
