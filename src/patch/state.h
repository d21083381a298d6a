/* state: what is known of a file on the server: whether it is there, its kind, size, mode and digest.
 *
 * Two states are compared by digest where both have one, else by size and time. Files above STATE_DIGEST_MAX have no digest: to compute
 * it would cost one more reading of a large file.
 */
#pragma once

#include "patch/ask.h"

#define DIGEST_BYTES 32                              /* SHA-256 */
#define STATE_DIGEST_MAX ((uint64_t)8 * 1024 * 1024) /* larger files are known by size and time */

enum file_kind {
        FILE_ABSENT,
        FILE_REGULAR,
        FILE_LINK, /* a symbolic link that is itself meant */
        FILE_DIRECTORY,
        FILE_OTHER, /* a FIFO, a device, a socket */
};

struct file_state {
        enum file_kind kind;
        uint64_t size;
        int64_t modified_ms;
        bool has_mode; /* the server tells mode, owner and links */
        uint32_t mode; /* permission bits, 07777 */
        uint32_t uid, gid;
        uint64_t links;
        bool has_digest;
        uint8_t digest[DIGEST_BYTES];
        const char *target; /* FILE_LINK: the text of the link; NULL: not known */
};

/* A question about one path, and its answer. Begins with `path` set and the rest zero. */
struct look {
        const char *path;  /* absolute */
        bool follows;      /* links are followed; otherwise a link anywhere in the path is a failure */
        bool wants_digest; /* of a regular file that is not too large */
        struct file_state state;
        bool is_link;                  /* the last name is a link; `state` is that of its target */
        const struct failure *failure; /* NULL: `state` is there */
};

/* Asks for the state of a path: the answer is there after asks_wait. A missing file is a state (FILE_ABSENT), not a failure, also when its
 * directory is missing. */
void look_send(struct asks *s, struct look *look);
/* Asks for one state and waits. */
void look_now(struct asks *s, struct look *look);

/* Is a file that has the first state still what the second says? Modes and owners do not count. */
NODISCARD bool state_is_same(const struct file_state *a, const struct file_state *b);

void digest_of(struct slice bytes, uint8_t ret[DIGEST_BYTES]);
/* The digest as the protocol spells it: "sha256:" and hexadecimal digits. */
#define DIGEST_TEXT_BYTES (7 + 2 * DIGEST_BYTES + 1)
void digest_write(const uint8_t digest[DIGEST_BYTES], char ret[DIGEST_TEXT_BYTES]);
NODISCARD bool digest_read(struct slice text, uint8_t ret[DIGEST_BYTES]);
/* Gives a state the digest and the size of the content in memory. */
void state_set_content(struct file_state *state, struct slice bytes);
