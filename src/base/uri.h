/* uri: converts between paths and their two spellings on the wire, the native one and file: URIs.
 *
 * A string that begins with '/' is a native absolute path: no byte of a name is changed. A string whose scheme is `file` (any
 * case) is a URI: percent-decoded to bytes, host empty or localhost. From both, `.`, `..`, doubled slashes and slashes at the
 * end are removed lexically, so that both spellings of a path give the same path.
 * Paths are bytes without NUL, not text. Pure functions; nothing here looks at the file system.
 */
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "base/slice.h"

enum uri_result {
        URI_OK = 0,
        URI_NOT_ABSOLUTE, /* neither '/' nor a scheme in front: relative or empty */
        URI_BAD_SCHEME,   /* has a scheme other than file; *ret_detail = the scheme */
        URI_QUERY,        /* has a query */
        URI_FRAGMENT,
        URI_CREDENTIALS, /* user@host */
        URI_PORT,
        URI_SLASH,     /* %2F: a name cannot hold a slash, and an escape is not a separator (RFC 3986, 2.2) */
        URI_NUL,       /* %00, or a NUL in a native path */
        URI_FOREIGN,   /* another host, or a drive letter first: invalid on this platform */
        URI_MALFORMED, /* bad percent escape in the opaque form, bad base64, host that cannot be parsed */
};

/* Converts either spelling to a path. *ret_path lives in the arena and ends in a NUL. *ret_detail (may be NULL) is set for
 * URI_BAD_SCHEME. */
NODISCARD enum uri_result uri_to_path(struct arena *a, struct slice text, struct slice *ret_path,
                                      struct slice *ret_detail);

/* Appends file:// and the percent-encoded path; for a path that a URI cannot spell, the opaque form
 * file:///%00/bad/path/B64URL. Returns 0; -EINVAL when `path` is no absolute path; -ENOBUFS when `out` has no room. */
NODISCARD int uri_from_path(struct buf *out, struct slice path);
