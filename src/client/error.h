/* error: fills the public error of the library. */
#pragma once

#include "base/compat.h"
#include "base/err.h"
#include "farhand/farhand.h"
#include "wire/rpc.h"

/* All functions here return the code of the error. `ret` may be NULL. */
int error_set(struct farhand_error *ret, int code, const char *fmt, ...) PRINTF_LIKE(3, 4);
int error_from_err(struct farhand_error *ret, const struct err *err);
int error_copy(struct farhand_error *ret, const struct farhand_error *from);
/* Fills the error that a server has answered with. Its code is -EREMOTEIO. */
int error_from_message(struct farhand_error *ret, const struct rpc_message *m);
