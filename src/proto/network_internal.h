/* network_internal: the part of networkProxy that is about credentials. */
#pragma once

#include "proto/decode.h"

/* Checks the members credentialMasking and credentialProviders of `proxy`. Returns whether they ask for anything. */
NODISCARD bool network_credentials_decode(struct decoder *d);
