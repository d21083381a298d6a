/* prepare_explain: explains to clients why a start with a sandbox failed, and tells whether a new plan might succeed. */
#include "confine/prepare.h"

#include "sandbox/enter.h"
#include "sandbox/image.h"
#include "sandbox/remedy.h"

#include <errno.h>

bool prepare_is_step(const char *step)
{
        if (strcmp(step, "namespaces") == 0)
                return true;
        for (uint32_t i = ENTER_NONE + 1; i < ENTER_STEPS; i++)
                if (strcmp(step, enter_step_name(i)) == 0)
                        return true;
        return false;
}

/* Returns the path of an operation or of a placeholder. */
static const char *path_of(const struct image *i, const char *step, uint32_t op)
{
        if (strcmp(step, "stub") == 0) {
                const struct image_placeholder *placeholders = image_at(i, i->placeholders);
                return op < i->placeholder_count ? (const char *)image_at(i, placeholders[op].path) + 1
                                                 : NULL;
        }
        const struct image_op *ops = image_at(i, i->ops);
        return op < i->op_count ? image_at(i, ops[op].path) : NULL;
}

/* Copies the message of bwrap without control characters and without the name of the program. */
static void words_copy(const struct image *i, char ret[static BWRAP_WORDS_MAX])
{
        struct slice words = slice_trim(slice_from(i->words, strnlen(i->words, sizeof(i->words))));
        if (slice_starts(words, S("bwrap: ")))
                words = slice_from(words.p + 7, words.n - 7);
        for (size_t n = 0; n < words.n; n++)
                ret[n] = words.p[n] >= ' ' && words.p[n] <= '~' ? words.p[n] : '?';
        ret[words.n] = 0;
}

/* Returns the errno that the message of bwrap names, or else `os_errno`. */
static int errno_of(const struct image *i, const char *step, int os_errno)
{
        char words[BWRAP_WORDS_MAX];
        if (!i || !i->words[0] || strcmp(step, "bubblewrap") != 0)
                return os_errno;
        words_copy(i, words);
        int said = bwrap_errno(words);
        return said ? said : os_errno;
}

bool prepare_is_overtaken(int image_fd, const char *step, int os_errno)
{
        if (!prepare_is_step(step))
                return false;
        bool is_bwrap = strcmp(step, "bubblewrap") == 0;
        if (os_errno == ESTALE)
                return !is_bwrap; /* with bwrap, ESTALE means that one of the two programs was replaced */
        if (strcmp(step, "stub") == 0 && os_errno == EEXIST)
                return true;
        struct image *i = image_map(image_fd);
        int e = errno_of(i, step, os_errno);
        image_unmap(i);
        /* Removing or replacing a path also detaches the mount on it, so a mount is missing. */
        if (e == EPROTO && (is_bwrap || strcmp(step, "check") == 0 || strcmp(step, "finish") == 0))
                return true;
        bool is_built = is_bwrap || strcmp(step, "mount") == 0 || strcmp(step, "landlock") == 0 ||
                        strcmp(step, "stub") == 0;
        return is_built && (e == ENOENT || e == ENOTDIR || e == ELOOP);
}

void prepare_explain(int image_fd, const char *step, int os_errno, uint32_t op, struct err *err)
{
        struct image *i = image_map(image_fd);
        const char *path = i ? path_of(i, step, op) : NULL;
        char words[BWRAP_WORDS_MAX] = "";
        if (i && i->words[0] && strcmp(step, "bubblewrap") == 0)
                words_copy(i, words);
        os_errno = errno_of(i, step, os_errno);
        err->reason = "sandboxUnavailable";
        err->step = step;
        err->os_errno = os_errno;
        err->remedy = remedy_for(step, os_errno);
        (void)err_set(err, 0, -os_errno,
                      "sandbox intent cannot be enforced on this executor: %s%s%s%s%s: %s (os error %d)",
                      step, path ? " /" : "", path ? path : "", words[0] ? ": " : "", words,
                      errno_text(os_errno), os_errno);
        image_unmap(i);
}
