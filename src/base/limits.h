/* limits: every ceiling in one place: what it bounds, why this number, what happens at it.
 *
 * Those that an operator may want to change are defaults of the configuration file (server/config.h) and only their
 * default stands here. docs/ARCHITECTURE.md explains; nothing in the program is unbounded.
 */
#pragma once

#define KIB 1024
#define MIB (1024 * 1024)

/* One incoming message, all fragments together. Beyond: close 1009. */
#define LIMIT_MESSAGE_BYTES (128 * MIB)
/* Messages up to this size are assembled without asking; larger ones share LIMIT_ASSEMBLY_TOTAL_BYTES, and a connection
 * that gets no share is not read until one is free. */
#define LIMIT_ASSEMBLY_FREE_BYTES (64 * KIB)
#define LIMIT_ASSEMBLY_TOTAL_BYTES (512LL * MIB)
/* A share must be used: less than this many bytes in this time, while others wait, closes 1013. */
#define LIMIT_ASSEMBLY_MIN_BYTES (1 * MIB)
#define LIMIT_ASSEMBLY_WINDOW_MS 10000

/* Largest frame that we send; longer messages go out in continuation frames. */
#define LIMIT_FRAME_OUT_BYTES (1 * MIB)
/* Largest message to a client that did not announce maxMessageBytes (real clients read 64 MiB). Beyond: -32603. */
#define LIMIT_MESSAGE_OUT_BYTES (64 * MIB)

/* Outgoing queue of a connection: past the high mark its requests and its processes' output are not read until it is
 * below the low mark. What is in flight when the mark is met may be one answer more. */
#define LIMIT_OUT_HIGH_BYTES (1 * MIB)
#define LIMIT_OUT_LOW_BYTES (256 * KIB)

/* What one turn reads of a connection. */
#define LIMIT_READ_BYTES (64 * KIB)
/* The same in the middle of a large frame, which is read straight to where its message is assembled. */
#define LIMIT_READ_LARGE_BYTES (256 * KIB)

/* The default of output_chunk_bytes: the most that one turn reads of one stream. */
#define LIMIT_CHUNK_BYTES (64 * KIB)
/* Retained output of a process, default; and its chunks. Beyond: oldest chunks go. */
#define LIMIT_RETAINED_BYTES (1 * MIB)
#define LIMIT_RETAINED_CHUNKS 50000
/* Retained output of all processes, default. Beyond: oldest of closed, then detached, then attached. */
#define LIMIT_RETAINED_TOTAL_BYTES (1024LL * MIB)

/* Bytes queued for a child's stdin: a write that finds so many waiting is itself held back. */
#define LIMIT_STDIN_BYTES (8 * MIB)
/* The same of all processes: a write that does not fit any more is refused with -32021. */
#define LIMIT_STDIN_TOTAL_BYTES (1024ULL * MIB)
/* writeIds remembered per process, each at most so long. Longer: -32602. */
#define LIMIT_WRITE_IDS 4096
#define LIMIT_WRITE_ID_BYTES 256

/* Requests of one connection that wait (long polls, held-back writes, starts), the bytes that they hold, and the bytes
 * of all connections together. Beyond: -32021. */
#define LIMIT_PARKED_REQUESTS 4096
#define LIMIT_PARKED_BYTES (192ULL * MIB)
#define LIMIT_PARKED_TOTAL_BYTES (1024ULL * MIB)

/* Threads for calls that may block, and how many of them one connection may keep busy. Beyond: requests wait. */
#define LIMIT_POOL_THREADS 64
#define LIMIT_POOL_PER_CONNECTION 4
/* Large buffers of messages that are done with, kept for the next ones, so many bytes in all; and for so long after the
 * last one. Beyond: given back. */
#define LIMIT_SPARES_BYTES (16 * MIB)
#define LIMIT_SPARES_MS 500
/* A file that fs/readFile answers with. Larger: -32600. */
#define LIMIT_READ_FILE_BYTES (512LL * MIB)
/* File requests of one connection that wait or run. Beyond: it is not read until half of them are done. */
#define LIMIT_JOBS 256
/* At the end of the server, this long for file work that has begun. Then: left to the kernel and the journal. */
#define LIMIT_POOL_END_MS 2000

/* Processes for file requests with a permission profile that are kept: of one profile, and profiles that have some. Beyond:
 * those that nobody uses go, and others when they have done what they do. */
#define LIMIT_FILERS_PER_PROFILE 4
#define LIMIT_FILER_PROFILES 8
/* What such a process may take for one request. Beyond: it is killed, and the request fails. */
#define LIMIT_FILER_MS 60000
/* One that nobody has used for so long ends. */
#define LIMIT_FILER_IDLE_MS 30000

/* fs/watch of a connection. More: -32021. */
#define LIMIT_WATCHES 64
/* Directories watched for all connections, each counted once, and with each watch that it belongs to. Beyond: -32021, or
 * overflow when the watch is there already. */
#define LIMIT_WATCH_DIRECTORIES 65536
#define LIMIT_WATCH_LISTENERS 262144
/* What waits to be told of one watch. Beyond: forgotten, and overflow. */
#define LIMIT_WATCH_EVENTS 16384
#define LIMIT_WATCH_EVENT_BYTES (4 * MIB)
/* Events kept while new directories are being added to a watch. Beyond: overflow. */
#define LIMIT_WATCH_KEPT_BYTES (8 * MIB)

/* The longest grace that process/terminate gives. More: -32602. */
#define LIMIT_GRACE_MS 60000

/* Longest wait of a long poll; more is clamped. */
#define LIMIT_WAIT_MS 600000

/* A processId. Longer: -32602. */
#define LIMIT_PROCESS_ID_BYTES 1024
/* A clientName is kept up to this length. */
#define LIMIT_CLIENT_NAME_BYTES 256

/* An HTTP head must be complete, and an idle HTTP connection must ask again, within this time. Then: closed. */
#define LIMIT_HTTP_HEAD_MS 10000
/* After our close frame the peer has this long to answer. Then: dropped. (stdio, which has no such frame, ends when all
 * is taken, or with its reader.) */
#define LIMIT_CLOSE_MS 5000
/* A resume that meets an attached session: the old connection must answer a ping within this time. */
#define LIMIT_HALF_DEAD_MS 2000
/* After the kill at shutdown, this long for the kernel to end what it holds. */
#define LIMIT_SHUTDOWN_KILL_MS 2000
/* At the very end connections have this long to take their close frame. */
#define LIMIT_FAREWELL_MS 1000
/* Ids of expired sessions are remembered so long, and so many. */
#define LIMIT_EXPIRED_MEMORY_MS 600000
#define LIMIT_EXPIRED_MEMORY 4096

/* http/request: requests that run at once, of one connection and in all. Beyond: -32021. */
#define LIMIT_HTTP_CONN_REQUESTS 64
#define LIMIT_HTTP_REQUESTS 512
/* Bytes of request bodies, and of response bodies that are collected for one answer, of all requests. Beyond: -32021. */
#define LIMIT_HTTP_BODIES_BYTES (512ULL * MIB)
/* Bytes of a response that are under way between farhand-net and a client that does not read: then the transfer pauses. */
#define LIMIT_HTTP_WINDOW_BYTES (256 * KIB)
/* One http/request/bodyDelta, before base64. */
#define LIMIT_HTTP_DELTA_BYTES (1 * MIB)
/* URL, method and headers of a request, and the headers of a response; and how many. Beyond: -32602, -32603. */
#define LIMIT_HTTP_HEAD_BYTES (256 * KIB)
#define LIMIT_HTTP_HEADERS 1024
#define LIMIT_HTTP_METHOD_BYTES 1024
/* How much later than its timeoutMs a request is ended here, when farhand-net has not ended it. */
#define LIMIT_HTTP_GRACE_MS 1000
/* While it has requests, farhand-net is asked so often whether it is there. So many in a row without a word: killed, its
 * requests -32603. Several, so that a server which itself was stopped for a while does not take its helper for dead. */
#define LIMIT_HTTP_PULSE_MS 3000
#define LIMIT_HTTP_PINGS 3
/* Redirects that are followed. Beyond: -32603. */
#define LIMIT_HTTP_REDIRECTS 10
/* A requestId. Longer: -32602. */
#define LIMIT_HTTP_REQUEST_ID_BYTES 1024
