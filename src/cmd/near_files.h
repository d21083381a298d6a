/* near_files: file requests on this machine without a server: the methods of the server, called in this process.
 *
 * For one patch, starting a server takes longer than all its file requests. The functions are those that the threads of a server call; there is no
 * profile here, so that no fs helper is needed. Temporary files are recorded in a journal, as by a server.
 */
#pragma once

#include "patch/ask.h"

extern const struct patch_near near_files;

/* Ends what the requests have begun: the journal. */
void near_files_end(void);
