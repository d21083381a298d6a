/* toml_edit: adds our entry to the text of config.toml of Codex, and takes it away again. Every other byte stays as it is. Pure.
 *
 * The entry is a table at the end of the text, behind a blank line. In a text whose last line has no line end the table has none either: that
 * is how toml_edit_remove knows what stood there before.
 */
#pragma once

#include "install/entry.h"

/* As json_edit_add. */
NODISCARD int toml_edit_add(struct arena *a, const struct slice *text, const struct config_shape *shape,
                            const struct entry *entry, struct slice *ret_text, struct err *err);
/* As json_edit_remove; -EEXIST when the entry is there, but not as a table of its own. The tables below that of the entry go too. */
NODISCARD int toml_edit_remove(struct arena *a, struct slice text, const struct config_shape *shape,
                               struct slice *ret_text, struct err *err);
