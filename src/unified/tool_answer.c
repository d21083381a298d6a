/* tool_answer: writes what a call of a tool returns. */
#include "unified/tool_answer.h"

#include "base/random.h"

#include <inttypes.h>
#include <stdio.h>

/* The bytes that cutting can add: the two lines before a cut output, and the mark in its middle. */
#define CUT_ADDS 192

void tool_answer_chunk_id(char ret[TOOL_ANSWER_CHUNK_ID_CHARS + 1])
{
        uint8_t bytes[TOOL_ANSWER_CHUNK_ID_CHARS / 2];
        random_bytes(bytes, sizeof(bytes));
        for (size_t i = 0; i < sizeof(bytes); i++)
                (void)snprintf(ret + 2 * i, 3, "%02x", bytes[i]);
}

/* Appends the lines before the output. */
static int write_head(const struct tool_answer *a, struct buf *text)
{
        int r = 0;
        if (a->chunk_id[0])
                r = buf_printf(text, "Chunk ID: %s\n", a->chunk_id);
        if (r == 0)
                r = buf_printf(text, "Wall time: %" PRIu64 ".%04" PRIu64 " seconds\n", a->wall_us / 1000000,
                               a->wall_us % 1000000 / 100);
        if (r == 0 && a->has_exit_code)
                r = buf_printf(text, "Process exited with code %d\n", a->exit_code);
        if (r == 0 && a->session_id)
                r = buf_printf(text, "Process running with session ID %d\n", a->session_id);
        if (r == 0 && a->has_token_count)
                r = buf_printf(text, "Original token count: %" PRIu64 "\n", a->token_count);
        return r < 0 ? r : buf_append(text, S("Output:\n"));
}

/* Returns how many bytes one answer may have for the model. */
static uint64_t most_bytes(struct cut_budget model)
{
        return model.bytes > UINT64_MAX / 2 ? UINT64_MAX : model.bytes + model.bytes / 5;
}

int tool_answer_write(const struct tool_answer *a, const struct cut_output *collected, uint64_t max_tokens,
                      struct cut_budget model, struct buf *output, struct buf *text)
{
        _buf_ struct buf rendered = BUF_INIT(TOOL_ANSWER_TEXT_MAX);
        struct cut_budget budget = { .unit = model.unit,
                                     .bytes = MIN(model.bytes, cut_token_bytes(max_tokens)) };
        int r = cut_render(&rendered, collected);
        if (r == 0)
                r = cut_for_model(output, buf_slice(&rendered), collected, budget);
        if (r == 0)
                r = write_head(a, text);
        if (r < 0)
                return r;
        uint64_t most = most_bytes(model);
        if (text->n + output->n <= most)
                return buf_append(text, buf_slice(output));
        size_t head = text->n;
        budget.bytes = most > head + CUT_ADDS ? most - head - CUT_ADDS : 0;
        r = cut_for_model(text, buf_slice(&rendered), collected, budget);
        if (r == 0 && text->n > most)
                buf_truncate(text, head);
        return r;
}
