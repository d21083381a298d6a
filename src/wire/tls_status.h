/* tls_status: how the TLS helper tells the client library that it has not reached the server: as an HTTP answer with this status. No
 * server has it; a server that sends it nevertheless is refused with the words that it chose, as with any other status. */
#pragma once

#define TLS_STATUS_FAILED 599
