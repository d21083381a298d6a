/* ssh: how a far machine is made ready for a WebSocket over the stdio of ssh. Pure.
 *
 * ssh runs a small script there. The script looks for a farhand of our version: in the user's cache directory, then in PATH. When
 * there is none it asks for one with a line; the client answers with a line that has size and digest, and the program behind it. The
 * script checks the digest, renames the program into place and starts `farhand connect --listen stdio`. All of this goes over one
 * connection of ssh, so that a person is asked for a password once. Bytes of a WebSocket follow the line `ready`.
 *
 * What the far machine prints is hostile. Lines that are not the script's (of login scripts, of the operator) are skipped, at most
 * SSH_NOISE_MAX bytes of them, and never shown.
 */
#pragma once

#include "base/arena.h"
#include "base/err.h"
#include "base/slice.h"
#include "transport/endpoint.h"

#define SSH_NOISE_MAX 65536
#define SSH_WORD_MAX 64 /* bytes of the name of a machine or of a system */

/* Returns the arguments of ssh, in the arena. A quiet ssh asks the user nothing and prints nothing: it is for recoveries and links. */
NODISCARD const char *const *ssh_argv(struct arena *a, const char *ssh, const struct endpoint *endpoint,
                                      bool is_quiet);

enum ssh_word {
        SSH_NOISE, /* the line is not the script's */
        SSH_READY, /* the WebSocket begins */
        SSH_NEED,  /* the script waits for the program: `machine` and `system` are set */
        SSH_FAIL,  /* the script gives up: `step` and `text` say why */
};

struct ssh_said {
        enum ssh_word word;
        struct slice machine, system; /* as uname -m and uname -s print them */
        struct slice step, text;
};

/* Takes the next line out of `in`. Returns its length with its end; 0 when no line is complete. */
NODISCARD size_t ssh_next(struct slice in, struct ssh_said *ret);

/* Both fill *err and return its code: for what the script says when it gives up, and for an ssh that has ended, by its wait status. */
int ssh_refused(const struct endpoint *endpoint, const struct ssh_said *said, struct err *err);
int ssh_ended(const struct endpoint *endpoint, int wait_status, struct err *err);
