/* tls_status: the status of the HTTP answer by which farhand-net tells the client library that it has made no TLS connection.
 *
 * Servers do not use this status. A server that sends it nevertheless is refused as with any other status: the error shows the text
 * of its answer.
 */
#pragma once

#define TLS_STATUS_FAILED 599
