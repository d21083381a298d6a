/* file_result: writes the results of the tools for files into their calls. */
#pragma once

#include "unified/table_internal.h"

/* Write the content of a file, as lines or as an image. Both return why the bytes cannot be a result, or NULL. */
NODISCARD const char *file_result_text(struct unified_call *c, struct slice bytes);
NODISCARD const char *file_result_image(struct unified_call *c, struct slice bytes);
void file_result_written(struct unified_call *c);
/* Writes what a server has listed; what is not understood is left out. */
void file_result_list(struct unified_call *c, const struct json_doc *d);
