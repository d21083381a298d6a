/* answer: writes the parts of answers that several file methods share. */
#pragma once

#include "fsop/meta.h"
#include "proto/fs.h"
#include "wire/jsonw.h"

void fs_write_uri(struct jsonw *w, struct slice path);
void fs_write_meta(struct jsonw *w, const struct fs_meta *m); /* writes members into an open object */
void fs_write_digest(struct jsonw *w, const uint8_t digest[FS_DIGEST_BYTES]); /* a member */
/* When something has failed with this errno because of the permission profile, writes the member `denied`; else nothing. */
void fs_write_denied(struct jsonw *w, int os_errno);
struct reach_refusal;
void fs_write_refusal(struct jsonw *w, const struct reach_refusal *r); /* the member `denied` */
void fs_write_nothing(struct jsonw *w);                                /* writes {} */
/* Writes the answer for a capability root that could not be searched: only the reason. */
void fs_write_root_failure(struct jsonw *w, const struct discover_root *root, const char *why);
/* Appends `n` bytes of a file from `offset` on, as base64; fewer only at the end of the file. Returns how many bytes of the file,
 * or -errno; -EMSGSIZE when the buffer's ceiling is met. */
NODISCARD ssize_t fs_encode(struct buf *out, int fd, uint64_t offset, size_t n);
