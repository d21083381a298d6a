/* tool_answer: what a call of a tool returns: its text for the model, and the output in it. Pure functions. */
#pragma once

#include "unified/cut.h"

#define TOOL_ANSWER_CHUNK_ID_CHARS 6
/* The longest rendered output: a mebibyte of bytes that are no UTF-8, each of which becomes three, and the lines that tell of cuts. */
#define TOOL_ANSWER_TEXT_MAX ((size_t)4 * 1024 * 1024)

struct tool_answer {
        char chunk_id[TOOL_ANSWER_CHUNK_ID_CHARS + 1]; /* "": none */
        uint64_t wall_us; /* the time that the call took, without that of questions */
        bool has_exit_code;
        int exit_code;
        int session_id; /* 0: none */
        bool has_token_count;
        uint64_t token_count; /* of all output of this call, before any cut */
};

/* Writes a new random chunk id. */
void tool_answer_chunk_id(char ret[TOOL_ANSWER_CHUNK_ID_CHARS + 1]);

/* Appends the output to *output, as far as both budgets allow, and the whole text to *text. The text has at most 1.2 times as many bytes
 * as the budget of the model: if need be it has less of the output. */
NODISCARD int tool_answer_write(const struct tool_answer *a, const struct cut_output *collected,
                                uint64_t max_tokens, struct cut_budget model, struct buf *output,
                                struct buf *text);
