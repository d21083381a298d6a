/* question_text: a question of the approvals as a person reads it. Pure.
 *
 * All that comes from models, commands and servers is shown without control characters, and each of its lines but the first begins with
 * a mark: none of it can look like another part of the question.
 */
#pragma once

#include "approve/approve.h"

struct question_style {
        bool is_brief;           /* of a program only one line is shown, as the reference does */
        const char *always_rule; /* the rule that the answer "always" adds; NULL: there is no such answer */
        const char *always_file; /* the file to which that rule is added */
};

/* Appends the text. */
NODISCARD int question_text_write(struct buf *out, const struct approval_question *question,
                                  const struct question_style *style);
