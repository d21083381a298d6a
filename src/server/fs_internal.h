/* fs_internal: what the files of the file methods share. */
#pragma once

#include "fsop/meta.h"
#include "wire/jsonw.h"

#define FS_METHOD(wire_name, params)                                     \
        .name = wire_name, .family = "filesystem", .needs = NEEDS_READY, \
        .params_size = sizeof(struct params), .decode = params##_decode

void fs_write_uri(struct jsonw *w, struct slice path);
void fs_write_digest(struct jsonw *w, const uint8_t digest[FS_DIGEST_BYTES]);
void fs_write_meta(struct jsonw *w, const struct fs_meta *m); /* members */
/* Appends `n` bytes of a file from `offset` on, as base64; fewer only at its end. Returns how many; -EMSGSIZE when the
 * buffer's ceiling is met, other -errno. */
NODISCARD ssize_t fs_encode(struct buf *out, int fd, uint64_t offset, size_t n);
void fs_write_nothing(struct jsonw *w); /* {} */
