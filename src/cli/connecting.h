/* connecting: waits until a client is connected. When a signal ends us meanwhile, it ends first what the client has started.
 *
 * ssh may be asking for a password on our terminal: it has turned the echo off, and Ctrl-C does not reach it. When we are to end, ssh is
 * ended first, which puts the terminal right.
 */
#pragma once

#include "farhand/farhand.h"

/* Does what farhand_connect does. A signal that ends us does so after the client is freed. */
struct farhand *connect_with_signals(const struct farhand_options *options, struct farhand_error *ret_error);
