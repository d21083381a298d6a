/* json_edit: adds our entry to the text of a JSON configuration, and takes it away again. Every other byte stays as it is. Pure.
 *
 * A text is parsed as a whole; comments and last commas only where the client reads them. What json_edit_add adds are one or two pieces: the entry
 * behind the last member, and the comma in front of it. json_edit_remove finds the pieces by the tokens around them, so that it also works when the
 * file has changed in between.
 *
 * An object that is empty afterwards goes too if json_edit_add has made it. It writes white space behind the brace of an object that it
 * makes, and none into one that it finds empty: that is how the two are told apart.
 */
#pragma once

#include "install/entry.h"

/* `text` NULL: there is no file yet. Returns EDIT_NOTHING when the entry is there already, EDIT_CHANGED with *ret_text in the arena, or -errno:
 * -EINVAL for a text that is not understood, -EEXIST when another entry has the name. */
NODISCARD int json_edit_add(struct arena *a, const struct slice *text, const struct config_shape *shape,
                            const struct entry *entry, struct slice *ret_text, struct err *err);
/* Returns an edit_result, with *ret_text only for EDIT_CHANGED, or -EINVAL. */
NODISCARD int json_edit_remove(struct arena *a, struct slice text, const struct config_shape *shape,
                               struct slice *ret_text, struct err *err);
