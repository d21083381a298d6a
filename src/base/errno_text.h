/* errno_text: the names of the system's errors, and the sentences that clients see for them. */
#pragma once

/* Returns the name of an errno: "ENOENT" for 2 or -2. An unknown number gives "E123", in a static buffer of the calling thread. */
const char *errno_name(int e);
/* Returns the sentence of musl: "No such file or directory", "I/O error", … */
const char *errno_text(int e);
