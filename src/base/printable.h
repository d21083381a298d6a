/* printable: text from outside as a terminal may show it.
 *
 * Control characters, also those beyond ASCII and those that turn the direction of writing, and bytes that are not UTF-8 are
 * written as escapes: such text can neither move the cursor nor look like another line. Everything else stays as it is.
 */
#pragma once

#include "base/arena.h"
#include "base/slice.h"

/* Room for a character that is written so, with its NUL. */
#define PRINTABLE_CHAR_BYTES 16

/* Writes the first character of a text, which is not empty. Returns how many bytes of the text that was. */
size_t printable_char(struct slice s, char ret[static PRINTABLE_CHAR_BYTES]);

/* How many bytes of a text the following show; an ellipsis stands for the rest. */
#define PRINTABLE_BYTES_MAX 512

/* Returns the text in the arena, with a NUL behind it: `\x1b` for a byte, `\u{202e}` for a character beyond ASCII. */
NODISCARD const char *printable_text(struct arena *a, struct slice s);
/* Returns a JSON text of any length as one line: outside of ASCII and for DEL as above, but with the escapes of JSON, and blanks for line
 * ends and tabs, which JSON has between its tokens only. It means what the text meant. */
NODISCARD const char *printable_json(struct arena *a, struct slice json);
NODISCARD const char *printable_str(struct arena *a, const char *s);
