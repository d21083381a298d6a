/* pack_test: options and rules come out as they were put in, and broken bytes are refused. */
#include "intercept/pack.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/mem.h"

#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

static const struct intercept_options options = {
        .scope = INTERCEPT_SHELL,
        .names = INTERCEPT_FULL,
        .on_prompt = INTERCEPT_PROMPT_DENY,
        .on_unmatched = INTERCEPT_UNMATCHED_ASK,
        .reports = true,
};
static const struct exec_rules_text texts[] = {
        { "a.rules", S("prefix_rule(['git'])\nprefix_rule(['ls'], 'prompt')\n") },
        { "", S("") },
        { "b", S("prefix_rule(['rm'], 'forbidden')") },
};

TEST(options_and_rules_come_back)
{
        _close_ int fd = intercept_pack(&options, texts, ARRAY_LEN(texts));
        struct intercept_options got;

        ok(fd >= 0);
        for (int i = 0; i < 2; i++) { /* the offset does not matter */
                _exec_rules_ struct exec_rules *rules = NULL;
                eq_int(intercept_unpack(fd, &got, &rules), 0);
                eq_u64(exec_rules_count(rules), 3);
                eq_int(got.scope, options.scope);
                eq_int(got.names, options.names);
                eq_int(got.on_prompt, options.on_prompt);
                eq_int(got.on_unmatched, options.on_unmatched);
                eq_int(got.reports, options.reports);
                ok(lseek(fd, 3, SEEK_SET) == 3);
        }
        eq_int(pwrite(fd, "x", 1, 0), -1);
        eq_int(ftruncate(fd, 0), -1);
}

TEST(no_rules_can_be_packed)
{
        const struct intercept_options plain = { 0 };
        _close_ int fd = intercept_pack(&plain, NULL, 0);
        _exec_rules_ struct exec_rules *rules = NULL;
        struct intercept_options got;

        eq_int(intercept_unpack(fd, &got, &rules), 0);
        eq_u64(exec_rules_count(rules), 0);
        eq_int(got.scope, INTERCEPT_ALL);
        eq_int(got.reports, false);
}

static int unpack(struct slice bytes)
{
        _close_ int fd = memfd_create("pack_test", MFD_CLOEXEC);
        _exec_rules_ struct exec_rules *rules = NULL;
        struct intercept_options got;

        ok(fd >= 0);
        eq_int(fd_write_all(fd, bytes), 0);
        return intercept_unpack(fd, &got, &rules);
}

TEST(broken_bytes_are_refused)
{
        _close_ int fd = intercept_pack(&options, texts, ARRAY_LEN(texts));
        char bytes[1000];
        ssize_t n = pread(fd, bytes, sizeof(bytes) - 1, 0);

        ok(n > 0);
        eq_int(unpack(slice_from(bytes, (size_t)n)), 0);
        for (size_t cut = 0; cut < (size_t)n; cut++)
                ok(unpack(slice_from(bytes, cut)) < 0);
        bytes[n] = 0;
        eq_int(unpack(slice_from(bytes, (size_t)n + 1)), -EBADMSG);
        for (size_t at = 0; at < 13; at++) { /* the magic number, the count of texts and the options */
                char old = bytes[at];
                bytes[at] = (char)(old ^ 0x40);
                eq_int(unpack(slice_from(bytes, (size_t)n)), -EBADMSG);
                bytes[at] = old;
        }
        eq_int(unpack(S("")), -EBADMSG);
}

TEST(what_exceeds_a_limit_is_not_packed)
{
        _free_ char *zeros = mem_zalloc(LIMIT_RULES_BYTES + 1),
                    *name = mem_zalloc(LIMIT_RULES_NAME_BYTES + 2);
        struct exec_rules_text *many = mem_zalloc((LIMIT_RULES_FILES + 1) * sizeof(*many));
        const struct exec_rules_text large = { "x", slice_from(zeros, LIMIT_RULES_BYTES + 1) };

        for (size_t i = 0; i <= LIMIT_RULES_FILES; i++)
                many[i].name = "";
        eq_int(intercept_pack(&options, many, LIMIT_RULES_FILES + 1), -E2BIG);
        eq_int(intercept_pack(&options, &large, 1), -E2BIG);
        memset(name, 'n', LIMIT_RULES_NAME_BYTES + 1);
        eq_int(intercept_pack(&options, &(struct exec_rules_text){ name, S("") }, 1), -E2BIG);
        free(many);
}
