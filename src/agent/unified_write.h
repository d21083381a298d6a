/* unified_write: the lines that `farhand unified` prints: answers, events and questions. Pure functions.
 *
 * Each appends one line with its end. docs/schema/unified.json describes them. `id` is JSON; NULL: null.
 */
#pragma once

#include "unified/unified.h"
#include "wire/jsonw.h"

/* The longest line: two texts of an answer, all of whose characters are escaped. */
#define WRITE_LINE_MAX ((size_t)160 * 1024 * 1024)

void write_error(struct buf *out, const char *id, const char *message);
void write_result(struct buf *out, const char *id, const struct unified_result *result);
void write_event(struct buf *out, const struct unified_event *event);
void write_question(struct buf *out, const struct approval_question *question);
void write_withdrawal(struct buf *out, uint64_t question_id);
/* Writes a result with one member, which is true or false. */
void write_flag(struct buf *out, const char *id, const char *name, bool value);
void write_sessions(struct buf *out, const char *id, const struct unified *table);
void write_grants(struct buf *out, const char *id, const struct approvals *approvals);
