/* tool_answer_test: the text of an answer, and how it is held to the budget of a model. */
#include "unified/tool_answer.h"

#include "base/utf8.h"
#include "unit.h"

#include <stdio.h>

static void eq_text(const struct tool_answer *a, const char *output, const char *text)
{
        _buf_ struct buf out = BUF_INIT(TOOL_ANSWER_TEXT_MAX), whole = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        struct cut_output collected = { .bytes = slice_from_str(output) };
        eq_int(tool_answer_write(a, &collected, 10000, CUT_NO_BUDGET, &out, &whole), 0);
        eq_str(whole.p, text);
        eq_str(out.p, output);
}

TEST(an_answer_of_a_process_that_has_ended)
{
        struct tool_answer a = { .chunk_id = "a1b2c3",
                                 .wall_us = 123456,
                                 .has_exit_code = true,
                                 .exit_code = 3,
                                 .has_token_count = true,
                                 .token_count = 12 };
        eq_text(&a, "hello\n",
                "Chunk ID: a1b2c3\nWall time: 0.1234 seconds\nProcess exited with code 3\nOriginal token "
                "count: "
                "12\nOutput:\nhello\n");
}

TEST(an_answer_of_a_process_that_runs)
{
        struct tool_answer a = {
                .chunk_id = "000000", .wall_us = 61000099, .session_id = 4711, .has_token_count = true
        };
        eq_text(&a, "",
                "Chunk ID: 000000\nWall time: 61.0000 seconds\nProcess running with session ID "
                "4711\nOriginal "
                "token count: 0\nOutput:\n");
}

TEST(an_answer_of_a_patch_has_no_chunk_and_no_exit_code)
{
        struct tool_answer a = { .wall_us = 1000 };
        eq_text(&a, "Success.", "Wall time: 0.0010 seconds\nOutput:\nSuccess.");
}

TEST(chunk_ids_are_six_hexadecimal_digits)
{
        char id[TOOL_ANSWER_CHUNK_ID_CHARS + 1], other[TOOL_ANSWER_CHUNK_ID_CHARS + 1];
        bool is_same = true;
        for (int i = 0; i < 20; i++) {
                tool_answer_chunk_id(id);
                tool_answer_chunk_id(other);
                eq_u64(strspn(id, "0123456789abcdef"), TOOL_ANSWER_CHUNK_ID_CHARS);
                eq_u64(strlen(id), TOOL_ANSWER_CHUNK_ID_CHARS);
                is_same &= strcmp(id, other) == 0;
        }
        ok(!is_same);
}

/* Writes an answer with 100,000 bytes of output. Returns the bytes of the text. */
static size_t text_bytes(uint64_t max_tokens, struct cut_budget model, size_t *ret_output)
{
        static char bytes[100000];
        _buf_ struct buf out = BUF_INIT(TOOL_ANSWER_TEXT_MAX), whole = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        struct tool_answer a = { .chunk_id = "a1b2c3", .has_exit_code = true, .has_token_count = true };
        struct cut_output collected = { .bytes = slice_from(bytes, sizeof(bytes)) };
        for (size_t i = 0; i < sizeof(bytes); i += 2)
                memcpy(bytes + i, "\xc3\xa9", 2);
        eq_int(tool_answer_write(&a, &collected, max_tokens, model, &out, &whole), 0);
        ok(utf8_is_valid(buf_slice(&whole)) && utf8_is_valid(buf_slice(&out)));
        *ret_output = out.n;
        return whole.n;
}

TEST(the_smaller_of_both_budgets_counts)
{
        size_t by_call, by_model, whole;
        (void)text_bytes(100, (struct cut_budget){ .bytes = 40000 }, &by_call);
        ok(by_call > 380 && by_call < 600);
        (void)text_bytes(10000, (struct cut_budget){ .bytes = 400 }, &by_model);
        eq_u64(by_call, by_model);
        (void)text_bytes(UINT64_MAX, CUT_NO_BUDGET, &whole);
        eq_u64(whole, 100000);
}

TEST(a_text_has_at_most_a_fifth_more_than_the_budget_of_the_model)
{
        for (uint64_t bytes = 0; bytes < 3000; bytes += 37) {
                size_t output, text = text_bytes(10000, (struct cut_budget){ .bytes = bytes }, &output);
                size_t head = strlen("Chunk ID: a1b2c3\nWall time: 0.0000 seconds\nProcess exited with code "
                                     "0\nOriginal token count: 0\nOutput:\n");
                ok(text <= MAX(bytes + bytes / 5, head));
        }
        size_t output;
        ok(text_bytes(10000, (struct cut_budget){ .bytes = 10000 }, &output) > 10000);
}
