/* connecting: waits until a client is connected, and takes what it has started along when a signal ends us meanwhile.
 *
 * ssh may be asking for a password on our terminal: it has turned the echo off, and Ctrl-C does not reach it. When we are to end, ssh is
 * ended first, which puts the terminal right.
 */
#pragma once

#include "farhand/farhand.h"

/* As farhand_connect. A signal that ends us does so after the client is freed. */
struct farhand *connecting(const struct farhand_options *options, struct farhand_error *ret_error);
