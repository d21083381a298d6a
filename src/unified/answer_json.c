/* answer_json: writes the members of results. */
#include "unified/answer_json.h"

#include <inttypes.h>
#include <stdio.h>

void answer_json_seconds(struct jsonw *w, const char *key, uint64_t us)
{
        char text[32];
        int n = snprintf(text, sizeof(text), "%" PRIu64 ".%04" PRIu64, us / 1000000, us % 1000000 / 100);
        jsonw_key(w, key);
        jsonw_raw(w, slice_from(text, (size_t)n));
}

void answer_json_members(struct jsonw *w, const struct unified_result *result)
{
        const struct tool_answer *a = &result->answer;
        if (a->chunk_id[0])
                jsonw_member_str(w, "chunk_id", a->chunk_id);
        answer_json_seconds(w, "wall_time_seconds", a->wall_us);
        if (a->has_exit_code)
                jsonw_member_i64(w, "exit_code", a->exit_code);
        if (a->session_id)
                jsonw_member_i64(w, "session_id", a->session_id);
        if (a->has_token_count)
                jsonw_member_u64(w, "original_token_count", a->token_count);
        jsonw_member_string(w, "output", result->output);
}
