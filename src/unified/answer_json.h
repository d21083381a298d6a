/* answer_json: the members of a result of exec_command, write_stdin and apply_patch as JSON, but for its text. Pure. */
#pragma once

#include "unified/unified.h"

/* Writes the members into an object that was begun. */
void answer_json_members(struct jsonw *w, const struct unified_result *result);
/* Writes a time in seconds, with four digits behind the point. */
void answer_json_seconds(struct jsonw *w, const char *key, uint64_t us);
