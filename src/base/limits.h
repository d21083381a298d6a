/* limits: every ceiling of the program: what it bounds, why it has this value, and what happens at it.
 *
 * "Beyond", "More", "Longer" and "Then" say what happens above a limit, often with the code of the JSON-RPC error. Some limits can
 * be changed in the configuration file (core/config.h); only their defaults are here. docs/ARCHITECTURE.md explains more.
 */
#pragma once

#define KIB 1024
#define MIB (1024 * 1024)

/* One incoming message, all fragments together. Beyond: the WebSocket is closed with 1009. */
#define LIMIT_MESSAGE_BYTES (128 * MIB)
/* Messages up to this size are always assembled; larger ones share LIMIT_ASSEMBLY_TOTAL_BYTES, and a connection that gets no
 * share is not read until one is free. */
#define LIMIT_ASSEMBLY_FREE_BYTES (64 * KIB)
#define LIMIT_ASSEMBLY_TOTAL_BYTES (512LL * MIB)
/* A connection that has a share must use it: when fewer bytes than this arrive within the window, and other connections wait for a
 * share, the WebSocket is closed with 1013. */
#define LIMIT_ASSEMBLY_MIN_BYTES (1 * MIB)
#define LIMIT_ASSEMBLY_WINDOW_MS 10000
/* A message up to this size is parsed on the loop, which takes some milliseconds at worst. A larger one is parsed on a
 * thread, at most LIMIT_PARSES at once, because each parse can take as much memory again. Beyond: messages wait in order. */
#define LIMIT_PARSE_LOOP_BYTES (256 * KIB)
#define LIMIT_PARSES 8
/* A piece of memory above LIMIT_FREE_LOOP_BYTES is freed by the threads that parse, because unmapping 100 MiB takes 10 ms. When
 * LIMIT_FREE_BYTES already wait to be freed there, the loop frees the piece itself. */
#define LIMIT_FREE_LOOP_BYTES (4 * MIB)
#define LIMIT_FREE_BYTES (512LL * MIB)

/* Largest frame that we send; longer messages go out in continuation frames. */
#define LIMIT_FRAME_OUT_BYTES (1 * MIB)
/* Largest message to a client that did not announce maxMessageBytes (real clients read 64 MiB). Beyond: -32603. */
#define LIMIT_MESSAGE_OUT_BYTES (64 * MIB)

/* Outgoing queue of a connection: above the high mark its requests and the output of its processes are not read until the queue is
 * below the low mark. The queue may exceed the high mark by one answer. */
#define LIMIT_OUT_HIGH_BYTES (1 * MIB)
#define LIMIT_OUT_LOW_BYTES (256 * KIB)

/* How much one turn of the loop reads from one connection. */
#define LIMIT_READ_BYTES (64 * KIB)
/* How much one turn reads in the middle of a large frame, whose bytes go directly into the message that is being assembled. */
#define LIMIT_READ_LARGE_BYTES (256 * KIB)

/* The default of output_chunk_bytes: the most that one turn of the loop reads from one stream of a process. */
#define LIMIT_CHUNK_BYTES (64 * KIB)
/* Retained output of a process: the default of its bytes, and the number of chunks. Beyond: the oldest chunks are dropped. */
#define LIMIT_RETAINED_BYTES (1 * MIB)
#define LIMIT_RETAINED_CHUNKS 50000
/* Retained output of all processes, default. Beyond: the oldest output is dropped, first of closed processes, then of detached
 * sessions, then of attached ones. */
#define LIMIT_RETAINED_TOTAL_BYTES (1024LL * MIB)

/* Processes of a session that have closed and are kept for reads, default. Beyond: the one that closed first is forgotten. */
#define LIMIT_FINISHED_PROCESSES 4096
/* A process that has closed does not count against max_processes_per_session, unless processes that it left behind still run
 * LIMIT_ENDING_MS later: its keeper needs a moment to find out. While the keeper does not know, at most
 * LIMIT_ENDING_PROCESSES such processes may exist beyond the limit. */
#define LIMIT_ENDING_MS 1000
#define LIMIT_ENDING_PROCESSES 256

/* Bytes queued for a child's stdin: a write that finds so many waiting is itself held back. */
#define LIMIT_STDIN_BYTES (8 * MIB)
/* Bytes queued for the stdin of all processes together. Beyond: a write is refused with -32021. */
#define LIMIT_STDIN_TOTAL_BYTES (1024ULL * MIB)
/* A write up to this size is accepted even above LIMIT_STDIN_TOTAL_BYTES, if nothing is queued for its process: full queues of some
 * processes must not keep users of other processes from typing. */
#define LIMIT_STDIN_FREE_BYTES (64 * KIB)
/* How many writeIds are remembered per process, and how long each may be. Longer: -32602. */
#define LIMIT_WRITE_IDS 4096
#define LIMIT_WRITE_ID_BYTES 256

/* While commands of this user keep too many descriptors in flight, the kernel passes on none for a start, or for a file request
 * with a profile (ETOOMANYREFS). The server tries again every LIMIT_HANDOVER_RETRY_MS, for LIMIT_HANDOVER_MS. Then: the start or
 * the request fails. */
#define LIMIT_HANDOVER_RETRY_MS 10
#define LIMIT_HANDOVER_MS 1000

/* How many starts may overtake one that still waits for a processor. A start waits until its command has ended, or has run for
 * LIMIT_STARTS_SETTLE_MS since its execve. Further starts are held back. With a lower number the processors are idle at times, with
 * a higher one the slowest start takes longer. */
#define LIMIT_STARTS_AHEAD 64
#define LIMIT_STARTS_SETTLE_MS 10
/* An execve that takes longer than LIMIT_STARTS_AHEAD_MS hangs, and holds no start back. While LIMIT_STARTS_HANGING of them
 * hang, no start is held back at all. */
#define LIMIT_STARTS_AHEAD_MS 100
#define LIMIT_STARTS_HANGING 8

/* Commands in a sandbox get half of the server's hard limit on open files, so that they are refused before the server is. With
 * a lower limit than this they get all of it: half would be too few for programs, and leave no room for one message. */
#define LIMIT_OPEN_FILES_SPLIT 1024

/* A spawner that ends by itself within LIMIT_SPAWNER_LIVED_MS cannot run on this machine. The next one is started after
 * LIMIT_SPAWNER_RETRY_MS; each further end doubles that pause, up to LIMIT_SPAWNER_RETRY_LAST_MS. During the pause every start
 * fails, with the reason for which the spawner ended. */
#define LIMIT_SPAWNER_LIVED_MS 1000
#define LIMIT_SPAWNER_RETRY_MS 50
#define LIMIT_SPAWNER_RETRY_LAST_MS 10000

/* How often the server plans a sandboxed start again when files that the plan saw were changed before the sandbox was built. Then
 * the client gets -32602 or -32603. */
#define LIMIT_START_AGAIN 8

/* Descriptors that WebSocket connections leave free for commands and files: a quarter of what the hard limit leaves beside the
 * server's own, but at least _LEAST and at most _MOST. An upgrade that would take one of them is answered with 503. */
#define LIMIT_OPEN_FILES_RESERVE_LEAST 12
#define LIMIT_OPEN_FILES_RESERVE_MOST 256

/* Requests of one connection that wait (long polls, held-back writes, starts), the bytes that they hold, and the bytes
 * of all connections together. Beyond: -32021. */
#define LIMIT_PARKED_REQUESTS 4096
#define LIMIT_PARKED_BYTES (192ULL * MIB)
#define LIMIT_PARKED_TOTAL_BYTES (1024ULL * MIB)
/* Waiting requests of one connection may always hold this many bytes, however much the requests of other connections hold. */
#define LIMIT_PARKED_FREE_BYTES (64 * KIB)
/* Requests on one process that wait and come from clients of other sessions: they bound the work that each chunk of its output
 * makes, beside that for its owner. Beyond: -32021. */
#define LIMIT_GUEST_REQUESTS 1024

/* Threads for calls that may block, and how many of them one connection may keep busy. Beyond: requests wait. */
#define LIMIT_POOL_THREADS 64
#define LIMIT_POOL_PER_CONNECTION 4
/* Large buffers of finished messages that are kept for the next messages: their bytes in all, and how long they are kept after
 * the last message. Beyond: they are freed. */
#define LIMIT_BUFFER_POOL_BYTES (16 * MIB)
#define LIMIT_BUFFER_POOL_MS 500
/* The largest file that fs/readFile returns. Larger: -32600. */
#define LIMIT_READ_FILE_BYTES (512LL * MIB)
/* The most that fs/copy reads from a file whose size is shown as 0, such as files in /proc. Beyond: EFBIG. */
#define LIMIT_COPY_UNSIZED_BYTES (64LL * MIB)
/* File requests of one connection that wait or run. Beyond: the connection is not read until half of them are done. */
#define LIMIT_JOBS 256
/* The loop reads a file itself only if it is in memory and not larger than LIMIT_QUICK_READ_BYTES, and opens it only if it takes
 * no more than LIMIT_QUICK_FILE_BYTES on the disk. Otherwise a thread does. */
#define LIMIT_QUICK_READ_BYTES (64 * KIB)
#define LIMIT_QUICK_FILE_BYTES (1 * MIB)
/* How many requests of one connection the loop answers in a row. Further ones go to threads until these answers are sent. */
#define LIMIT_QUICK_REQUESTS 32
/* For how many mounts the server remembers whether the loop may read from them, and for how long. After that a thread tries
 * again. */
#define LIMIT_QUICK_MOUNTS 32
#define LIMIT_QUICK_TRUST_MS 1000
/* For this long only threads read from a mount on which the loop, or the thread that tried it, had to wait. */
#define LIMIT_QUICK_OFF_MS 10000
/* How long the server, at its end, waits for file requests that have begun. Then: they are cut off, and temporary files that they
 * leave stand in the journal. */
#define LIMIT_POOL_END_MS 2000
/* Placeholders of sandboxes that could not be removed, because their directory has become unwritable. The server tries again every
 * LIMIT_STUCK_RETRY_MS, and names them in the journal. Beyond: they stay. */
#define LIMIT_STUCK_PLACEHOLDERS 256
#define LIMIT_STUCK_RETRY_MS 2000

/* fs helpers that are kept: for one profile, and the number of profiles that have some. Beyond: idle helpers end at once, busy ones
 * after their request. */
#define LIMIT_FS_HELPERS_PER_PROFILE 4
#define LIMIT_FS_HELPER_PROFILES 8
/* The time that an fs helper may take for one request. Beyond: it is killed, and the request fails. */
#define LIMIT_FS_HELPER_MS 60000
/* How long an fs/open with a lock waits for the one who has it, such as a connection that is being closed. Beyond: EAGAIN. */
#define LIMIT_HANDLE_LOCK_MS 500
/* An fs helper that was not used for this long ends. */
#define LIMIT_FS_HELPER_IDLE_MS 30000
/* The time that bwrap may take to build the view of an fs helper. Beyond: it is killed, and the request fails. */
#define LIMIT_FS_HELPER_VIEW_MS 10000

/* How much of the newest output of a terminal and of standard error `farhand sandbox` keeps, each, to report what was refused; and
 * how many refusals it reports. Older output is not searched; further refusals are only counted. */
#define LIMIT_REFUSED_TEXT_BYTES (64 * KIB)
#define LIMIT_REFUSED_LINES 8

/* Changes below directories that lead to masks, within LIMIT_GUARD_SPAN_MS. Beyond: the guard's thread gets normal priority. */
#define LIMIT_GUARD_EVENTS 1000
#define LIMIT_GUARD_SPAN_MS 100

/* The id of a root of capabilityRoots/discoverV1, and its path as it is spelled: the answer repeats both. Longer: -32602. */
#define LIMIT_ROOT_TEXT_BYTES (64 * KIB)
/* Watches (fs/watch) of one connection. More: -32021. */
#define LIMIT_WATCHES 64
/* Directories watched for all connections: LIMIT_WATCH_DIRECTORIES counts each of them once, LIMIT_WATCH_LISTENERS once for each
 * watch that it belongs to. Beyond: -32021, or overflow when the watch exists already. */
#define LIMIT_WATCH_DIRECTORIES 65536
#define LIMIT_WATCH_LISTENERS 262144
/* Events of one watch that wait to be sent. Beyond: they are dropped, and the client gets overflow. */
#define LIMIT_WATCH_EVENTS 16384
#define LIMIT_WATCH_EVENT_BYTES (4 * MIB)
/* Events kept while new directories are being added to a watch. Beyond: they are dropped, and the client gets overflow. */
#define LIMIT_WATCH_KEPT_BYTES (8 * MIB)

/* A command can make the kernel hold the lock of its pipe while the server's loop waits for it. The spawner checks for that every
 * LIMIT_PIPE_IDLE_MS, and every LIMIT_PIPE_TICK_MS while the loop is inside of a system call. When the loop has slept there for
 * LIMIT_PIPE_HELD_MS in all, the command is killed; LIMIT_PIPE_UNSURE_MS where the kernel does not tell what the loop waits for. */
#define LIMIT_PIPE_IDLE_MS 250
#define LIMIT_PIPE_TICK_MS 50
#define LIMIT_PIPE_HELD_MS 400
#define LIMIT_PIPE_UNSURE_MS 2000
/* For LIMIT_PIPE_ALERT_MS after a command was killed for the lock of its pipe, further commands are killed after
 * LIMIT_PIPE_AGAIN_MS already (five times that where the kernel does not tell), and the checks come five times as often, so that
 * the delays of several such commands do not add up. */
#define LIMIT_PIPE_ALERT_MS 10000
#define LIMIT_PIPE_AGAIN_MS 50

/* The longest grace that process/terminate gives. More: -32602. */
#define LIMIT_GRACE_MS 60000

/* Longest wait of a long poll; more is clamped. */
#define LIMIT_WAIT_MS 600000

/* The id of a request, when it is a text: every answer repeats it. Longer: -32600 with id -1. */
#define LIMIT_ID_BYTES 1024
/* A processId. Longer: -32602. */
#define LIMIT_PROCESS_ID_BYTES 1024
/* A clientName is kept up to this length. */
#define LIMIT_CLIENT_NAME_BYTES 256

/* An HTTP head must be complete, and an idle HTTP connection must ask again, within this time. Then: closed. */
#define LIMIT_HTTP_HEAD_MS 10000
/* Connections that are no WebSocket yet; a quarter of the limit on open files where that is less. Beyond: the oldest of them is
 * closed, once it has had LIMIT_HTTP_PENDING_MS for its upgrade; until then the next connection waits. These connections are not
 * authenticated, and must not take the room of connections that are. */
#define LIMIT_HTTP_PENDING 1024
#define LIMIT_HTTP_PENDING_MS 500
/* How long a starting server waits for other servers that are about to listen in the same directory. Then: a dead socket is not
 * replaced. */
#define LIMIT_SOCKET_LOCK_MS 1000
/* Of each kind of refusal (connections, peers of a unix socket, upgrades) LIMIT_REFUSALS_LOGGED lines are logged within
 * LIMIT_REFUSALS_MS, and one line within LIMIT_ACCEPT_FAILURES_MS about connections that could not be accepted. Further ones are
 * counted, and their number is logged at the end of that time. */
#define LIMIT_REFUSALS_LOGGED 10
#define LIMIT_REFUSALS_MS 10000
#define LIMIT_ACCEPT_FAILURES_MS 1000
/* How long the peer may take to answer our close frame. Then: the connection is dropped. (stdio has no such frame: it ends when
 * everything has been written, or when its reader has gone.) */
#define LIMIT_CLOSE_MS 5000
/* When a client resumes a session that is still attached, the old connection must answer a ping within this time. */
#define LIMIT_HALF_DEAD_MS 2000
/* How long the server, at its end, waits for the processes that it has killed. */
#define LIMIT_SHUTDOWN_KILL_MS 2000
/* How long connections may take, at the very end of the server, to receive their close frame. */
#define LIMIT_FAREWELL_MS 1000
/* How long the ids of expired sessions are remembered, and how many. */
#define LIMIT_EXPIRED_MEMORY_MS 600000
#define LIMIT_EXPIRED_MEMORY 4096

/* http/request: requests that run at once, of one connection and in all. Beyond: -32021. */
#define LIMIT_HTTP_CONN_REQUESTS 64
#define LIMIT_HTTP_REQUESTS 512
/* Bytes of request bodies, and of response bodies that are collected for one answer, of all requests. Beyond: -32021. */
#define LIMIT_HTTP_BODIES_BYTES (512ULL * MIB)
/* Bytes of a response that are under way between farhand-net and a client that does not read. Beyond: the transfer pauses. */
#define LIMIT_HTTP_WINDOW_BYTES (256 * KIB)
/* One http/request/bodyDelta, before base64. */
#define LIMIT_HTTP_DELTA_BYTES (1 * MIB)
/* Bytes and number of the headers of a request or of a response, and bytes of a method; the URL counts as header bytes. Beyond:
 * -32602 for a request, -32603 for a response. */
#define LIMIT_HTTP_HEAD_BYTES (256 * KIB)
#define LIMIT_HTTP_HEADERS 1024
#define LIMIT_HTTP_METHOD_BYTES 1024
/* How much later than its timeoutMs the server ends a request that farhand-net has not ended. */
#define LIMIT_HTTP_GRACE_MS 1000
/* While farhand-net has requests, the server sends it a PING every LIMIT_HTTP_PULSE_MS. After LIMIT_HTTP_PINGS without an answer
 * it is killed, and its requests fail with -32603. One missing answer is not enough, because the server itself may have been
 * stopped. */
#define LIMIT_HTTP_PULSE_MS 3000
#define LIMIT_HTTP_PINGS 3
/* The size of a helper program that is copied into memory when the server starts, so that nobody can change it. A larger
 * program is executed from its file, and refused once the file has changed. */
#define LIMIT_HELPER_BYTES (64 * MIB)
/* Shell snapshots of a session. Beyond: the one used longest ago is dropped. */
#define LIMIT_SHELL_SNAPSHOTS 16
/* The functions of one snapshot, and its variables. Beyond: the capture fails, and commands start without a snapshot. */
#define LIMIT_SHELL_SNAPSHOT_BYTES (512 * KIB)
/* How long the shell's profile files may take during a capture. Beyond: the capture fails, and commands start without a
 * snapshot. */
#define LIMIT_SHELL_SNAPSHOT_MS 10000
/* The name of a scope of shell snapshots. Longer: -32602. */
#define LIMIT_SHELL_SCOPE_BYTES 256
/* All configuration files of one environmentConfig/read together; people write such files by hand. Beyond: -32603. */
#define LIMIT_CONFIG_BYTES (1 * MIB)
/* Names that mark the root of a project, each of which is looked for in every directory above the cwd. Beyond: -32603. */
#define LIMIT_CONFIG_MARKERS 64
/* Paths of keys in one environmentConfig/read, each of which is looked for at every key of a file. Beyond: -32602. */
#define LIMIT_CONFIG_PATHS 256
/* Redirects that are followed. Beyond: -32603. */
#define LIMIT_HTTP_REDIRECTS 10
/* A requestId. Longer: -32602. */
#define LIMIT_HTTP_REQUEST_ID_BYTES 1024
/* Approvals: questions that are open at once, of one user of the tools. Beyond: the answer is no. */
#define LIMIT_APPROVAL_QUESTIONS 64
/* What was granted for the session: commands, and paths of patches. Beyond: the oldest grant is forgotten, and asked about again. */
#define LIMIT_APPROVAL_GRANTS 1024
/* What a question shows of an action: its words or paths, its directory, why, and its permissions. Nobody reads more. Beyond: the answer is
 * no. */
#define LIMIT_APPROVAL_QUESTION_BYTES (1 * MIB)
/* A profile or additional permissions as JSON. Longer: refused. */
#define LIMIT_APPROVAL_TEXT_BYTES (1 * MIB)
/* environments.toml: its size, which bounds what one environment holds, and how many environments it may name: people write it by
 * hand. Beyond: the file is refused. */
#define LIMIT_ENVIRONMENTS_BYTES (1 * MIB)
/* The configuration file of an MCP client. Larger: `farhand mcp install` refuses to change it. */
#define LIMIT_CLIENT_CONFIG_BYTES (16 * MIB)
/* The command line that `farhand mcp install` writes there. Longer: refused. */
#define LIMIT_CLIENT_ENTRY_BYTES (64 * KIB)
#define LIMIT_ENVIRONMENTS 1024
/* Unified exec: sessions of a table. Beyond: one gives way to the new one (unified/prune.h); while calls use them there may be
 * more, one for each call. */
#define LIMIT_UNIFIED_SESSIONS 64
/* Calls of a table that are under way. More: the call is refused. */
#define LIMIT_UNIFIED_CALLS 64
/* One line that `farhand unified` reads, and the arguments of one call. Longer: the line is refused, and the next one is read. */
#define LIMIT_UNIFIED_LINE_BYTES (16 * MIB)
/* Input that waits for one process because it does not read. Beyond: write_stdin fails. */
#define LIMIT_UNIFIED_INPUT_BYTES (1 * MIB)
/* The id of a request to `farhand unified`: events and the answer repeat it. Longer: the line is refused. */
#define LIMIT_UNIFIED_ID_BYTES 256
/* A path of an argument, or one that a server tells of its machine: as the kernel. Longer: the call, or the connection, fails. */
#define LIMIT_UNIFIED_PATH_BYTES 4096
/* The absolute paths of one patch, together. Beyond: the patch is refused. */
#define LIMIT_UNIFIED_PATCH_PATHS_BYTES (64 * MIB)
/* What read_file and view_image of farhand mcp read. Longer: the call fails, and says how long the file is. */
#define LIMIT_FILE_READ_BYTES (16 * MIB)
#define LIMIT_FILE_IMAGE_BYTES (5 * MIB)
/* How long `farhand unified`, at its end, waits for the processes that it has ended. */
#define LIMIT_UNIFIED_END_MS 2000
/* How long `farhand unified` waits at its end for patches that are being applied. Beyond: the patches are left as after a kill, and the
 * next run repairs them. */
#define LIMIT_UNIFIED_PATCH_END_MS 10000
/* farhand mcp: messages of one batch, and roots that a client names. Beyond: the batch is refused, further roots are left out. */
#define LIMIT_MCP_BATCH 64
#define LIMIT_MCP_ROOTS 64
/* How long calls wait for the roots of an MCP client. Beyond: they run in the workspace that is known. */
#define LIMIT_MCP_ROOTS_MS 5000
/* farhand mcp --listen: sessions at once, unless --max-sessions says otherwise: each is a process. Beyond: 503. */
#define LIMIT_MCP_HTTP_SESSIONS 64
/* A session to which nobody is connected ends after this time, unless --session-idle says otherwise. */
#define LIMIT_MCP_HTTP_IDLE_MS 1800000
/* When there is no room for a session, that session of the same client ends to which nobody has been connected for the longest
 * time, if that is at least this time, or half of --session-idle where that is less. */
#define LIMIT_MCP_HTTP_YIELD_MS 300000ULL
/* Connections, authenticated or not. Beyond: the oldest that has not asked for anything yet gives way, or the new one is closed. */
#define LIMIT_MCP_HTTP_CONNECTIONS 1024
/* The body of a request: a message that fits a line of LIMIT_UNIFIED_LINE_BYTES. Without a session it can only be the first message.
 * Beyond: 413. */
#define LIMIT_MCP_HTTP_BODY_BYTES (15 * MIB)
#define LIMIT_MCP_HTTP_FIRST_BYTES (64 * KIB)
/* A body must have come within this time. Then: closed. */
#define LIMIT_MCP_HTTP_BODY_MS 60000
/* The bytes of request bodies that are being received, of all connections; and the bytes that the process of one session has not
 * read yet. Beyond: 503. */
#define LIMIT_MCP_HTTP_BODIES_BYTES (128 * MIB)
#define LIMIT_MCP_HTTP_QUEUE_BYTES (32 * MIB)
/* Streams of a session that have not ended, and those among them that a GET has opened with a connection each. Beyond: 429; the oldest
 * such connection is closed. */
#define LIMIT_MCP_HTTP_STREAMS 1024
#define LIMIT_MCP_HTTP_GETS 4
/* What a session keeps of its messages for a client that comes back, sent ones up to the first limit, all up to the second. Beyond: the
 * oldest are dropped, and a stream that loses a message that was not sent is closed. The newest message always stays. */
#define LIMIT_MCP_HTTP_KEPT_BYTES (4 * MIB)
#define LIMIT_MCP_HTTP_WAITING_BYTES (32 * MIB)
#define LIMIT_MCP_HTTP_KEPT_EVENTS 1024
#define LIMIT_MCP_HTTP_WAITING_EVENTS 8192
/* How much the kernel keeps of one connection's output that the network has not taken. Beyond: the output waits in its stream. */
#define LIMIT_MCP_HTTP_UNSENT_BYTES (128 * KIB)
/* One message of the process of a session. Longer: the session ends. */
#define LIMIT_MCP_HTTP_MESSAGE_BYTES (192 * MIB)
/* A request is answered with JSON when the answer is there within this time. Then: with a stream, in which a comment is sent whenever it
 * was silent for LIMIT_MCP_HTTP_PULSE_MS. */
#define LIMIT_MCP_HTTP_JSON_MS 200
#define LIMIT_MCP_HTTP_PULSE_MS 15000
/* The process of a session must answer the first message within this time. Then: the session ends, and the answer is 500. */
#define LIMIT_MCP_HTTP_START_MS 30000
/* The process of a session that ends has this time to end what it runs. Then: it is killed. */
#define LIMIT_MCP_HTTP_END_MS 15000
/* The text of a patch, and its lines: models write patches by hand. Beyond: the patch is invalid. */
#define LIMIT_PATCH_BYTES (16 * MIB)
#define LIMIT_PATCH_LINES 1000000
/* Directories that are missing above one file: each costs questions to the server, and memory. Beyond: the file cannot be written. */
#define LIMIT_PATCH_MISSING_DIRECTORIES 64
/* Denials of one patch that a question tells of, for people to read. The others are counted. */
#define LIMIT_PATCH_DENIALS 100
/* How long `farhand env add` and `farhand rules add` wait for another command that changes a file in the same directory. Then: the
 * command fails. */
#define LIMIT_FILE_LOCK_MS 2000
/* Rules about commands: the bytes of all texts of a set, which people write by hand. Beyond: the rules are refused. */
#define LIMIT_RULES_BYTES (1 * MIB)
/* Files with rules that one command reads. Beyond: the rules are refused. */
#define LIMIT_RULES_FILES 256
/* Prefix rules of a set, network rules, and names of host_executable. Beyond: the rules are refused. */
#define LIMIT_RULES 10000
/* Values that the texts of a set make, items and words that they copy or compare (a word of more than 8 bytes counts for more): a few lines can double a list again
 * and again.
 * Beyond: the rules are refused. */
#define LIMIT_RULES_STEPS 500000
/* Brackets inside of each other, and arguments of a call. Beyond: the rules are refused. */
#define LIMIT_RULES_DEPTH 64
#define LIMIT_RULES_ARGUMENTS 64
/* The name of a text of rules that a client sends: an error about the text begins with it. Longer: -32602. */
#define LIMIT_RULES_NAME_BYTES 4096
/* Interception of execve: starts of programs of one process that wait for a client's decision. Beyond: the start is denied. */
#define LIMIT_INTERCEPT_QUESTIONS 256
/* The memory of the questions about programs that are open, of all processes. Beyond: the start is denied. */
#define LIMIT_INTERCEPT_TOTAL_BYTES (256ULL * MIB)
/* The arguments of one program, as a question or a report tells them to the client. Beyond: a program that the client would have to
 * decide about is denied; a report is cut. */
#define LIMIT_INTERCEPT_ARGV_BYTES (1 * MIB)
/* The reason for which a client denies a program: the caller gets it on its standard error. Longer: -32602. */
#define LIMIT_INTERCEPT_REASON_BYTES (4 * KIB)
/* One frame between the server and the broker of a command: the arguments, a justification, which is at most as long as all rules,
 * and paths. Longer: a question is denied, a report is left out. */
#define LIMIT_INTERCEPT_FRAME_BYTES (2 * MIB + 64 * KIB)
/* The path, arguments and environment of one program, as the kernel accepts them. Beyond: execve fails with E2BIG. */
#define LIMIT_INTERCEPT_EXEC_BYTES (6 * MIB)
/* What all open questions of one process hold. Beyond: the start is denied. */
#define LIMIT_INTERCEPT_OPEN_BYTES (64 * MIB)
/* Programs of one process that run outside of the sandbox at once. Beyond: the start is denied. */
#define LIMIT_INTERCEPT_ESCALATED 1024
/* Descriptors that a program outside of the sandbox gets, and open descriptors of its caller, close-on-exec included. Beyond: the start is
 * denied. */
#define LIMIT_INTERCEPT_DESCRIPTORS 256
#define LIMIT_INTERCEPT_DESCRIPTORS_LISTED 4096
/* Answers that are remembered for a process, and the bytes of what they are about. Beyond: the client is asked again. */
#define LIMIT_INTERCEPT_REMEMBERED 1024
#define LIMIT_INTERCEPT_REMEMBERED_BYTES (4 * MIB)
/* While so many bytes wait for the server to read them, no further start is looked at: the callers wait. */
#define LIMIT_INTERCEPT_OUT_BYTES (1 * MIB)
/* How long a program outside of the sandbox has to end when its caller has died. Then it is killed. */
#define LIMIT_INTERCEPT_END_MS 500
/* One frame between a shell's wrapper and the server that it asks: what the shell wants to execute, and everything else. Longer: the
 * wrapper runs nothing. */
#define LIMIT_ESCALATE_REQUEST_BYTES (64 * MIB)
#define LIMIT_ESCALATE_ANSWER_BYTES (64 * KIB)
/* What a broker takes as the question of a wrapper: four times what the kernel accepts as arguments, because bytes grow in JSON. Longer: the
 * wrapper gets no answer and runs nothing. The same when all half-read questions of a command hold LIMIT_INTERCEPT_OPEN_BYTES. */
#define LIMIT_ESCALATE_ASKED_BYTES (24 * MIB)
/* Wrappers of one command that have a stream to its broker. Beyond: the next one waits until a stream has ended. */
#define LIMIT_ESCALATE_STREAMS 1024
/* Descriptors that wrappers of one command have handed over and that no program has yet. Beyond: the wrapper that hands over more gets no
 * answer. */
#define LIMIT_ESCALATE_HELD_FDS 1024
/* How long a wrapper may take to send what the broker waits for: its question, or the descriptors. Then it gets no answer. */
#define LIMIT_ESCALATE_WAIT_MS 30000
/* What a managed network allows, as it is told to the program that enforces it. Beyond: -32602. */
#define LIMIT_NET_POLICY_BYTES (1 * MIB)
/* Rules of a managed network, and entries of reviewDomains. Each is looked at for each connection. Beyond: -32602. */
#define LIMIT_NET_RULES 10000
/* One pattern of hosts, and of one rule its ranges of ports, its methods and one method. Beyond: -32602. */
#define LIMIT_NET_PATTERN_BYTES 1024
#define LIMIT_NET_RULE_PORTS 64
#define LIMIT_NET_RULE_METHODS 64
#define LIMIT_NET_METHOD_BYTES 64

/* farhand-egress: connections of one managed command. Beyond: its listeners accept nothing until one has ended. */
#define LIMIT_EGRESS_CONNECTIONS 256
/* Questions of one managed command that are open. Beyond: the connection is denied. */
#define LIMIT_EGRESS_QUESTIONS 256
/* Answers of one managed command that are remembered. Beyond: the oldest is forgotten, and asked about again. */
#define LIMIT_EGRESS_REMEMBERED 1024
/* The head of a request or of a response that goes through the proxy. Longer: 431, or 502. */
#define LIMIT_EGRESS_HEAD_BYTES (64 * KIB)
/* How long a client may take to send the head of a request, a name to be resolved, and a server to be reached. Then: closed, denied,
 * 502. */
#define LIMIT_EGRESS_HEAD_MS 30000
#define LIMIT_EGRESS_RESOLVE_MS 2000
/* Lookups of names for one managed command, also those that nobody waits for any more. Beyond: the name counts as one that cannot be
 * resolved. */
#define LIMIT_EGRESS_LOOKUPS 256
#define LIMIT_EGRESS_DIAL_MS 10000
/* Addresses of a name that are tried. Further ones are checked, but not tried. */
#define LIMIT_EGRESS_ADDRESSES 8
/* What waits for a server that does not read. Beyond: nothing is accepted, and no other request begins, until it has read. */
#define LIMIT_EGRESS_OUT_BYTES (1 * MIB)
/* Decisions of one managed command that are reported in a second, alone and as sums. Beyond: the sums count decisions about several
 * hosts. */
#define LIMIT_EGRESS_DECIDED 68
#define LIMIT_EGRESS_DECIDED_SUMS 32
/* Pipes between two connections through which much flows, in all. Beyond: bytes are copied. */
#define LIMIT_EGRESS_PIPES 128
/* While networks of commands are open, the server sends farhand-egress a PING every LIMIT_EGRESS_PULSE_MS. After LIMIT_EGRESS_PINGS without
 * an answer it is killed and started again, and its connections are cut. */
#define LIMIT_EGRESS_PULSE_MS 2000
#define LIMIT_EGRESS_PINGS 3
/* Messages that farhand-egress leaves unread. Beyond: it counts as hung. */
#define LIMIT_EGRESS_PACKETS 65536
/* Between two starts of a farhand-egress that dies young: none, then the first of these, then double each time, up to the second. */
#define LIMIT_EGRESS_FIRST_PAUSE_MS 100
#define LIMIT_EGRESS_PAUSE_MS 10000
/* Requests of the server to one client that are not answered. Beyond: what would be asked is denied. */
#define LIMIT_INQUIRIES 1024
/* Those of them that ask about connections of one process. Beyond: the connection is denied. One process must not use up the questions of
 * all others of its client. */
#define LIMIT_NET_TARGETS 256
/* Connections of one process that wait for an answer of the client. Beyond: they are denied. */
#define LIMIT_NET_QUESTIONS 1024
/* How much longer than policyDecisionTimeoutMs the server waits for the client's answer. Then the connection is denied. */
#define LIMIT_NET_QUESTION_GRACE_MS 5000
/* Different decisions about connections of one process that wait until the client reads. Beyond: they are only counted. */
#define LIMIT_NET_DECISIONS 64
/* Answers about connections that are remembered for a session. Beyond: the oldest is forgotten, and the client is asked again. */
#define LIMIT_NET_REMEMBERED 256
