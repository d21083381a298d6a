// The types of the exec-server protocol as Farhand speaks it.
//
// Made by scripts/schema-types from the schemas beside it; do not edit.
//
// A member that is optional here and "always sent by Farhand" is one that other servers of the family leave out. Integers of
// 64 bits are numbers: above 2^53 JSON.parse rounds them.

/** Params, result, and the data of errors of every method. */
export interface Methods {
  "initialize": { params: InitializeParams; result: InitializeResult; errorData: InitializeErrorData };
  /** Farhand alone. */
  "session/list": { params: SessionListParams; result: SessionListResult; errorData: ErrorData };
  "environment/info": { params: NoParams; result: EnvironmentInfoResult; errorData: ErrorData };
  "environment/status": { params: NoParams; result: EnvironmentStatusResult; errorData: ErrorData };
  "environmentConfig/read": {
    params: EnvironmentConfigReadParams;
    result: EnvironmentConfigReadResult;
    errorData: ErrorData;
  };
  "capabilityRoots/discoverV1": {
    params: CapabilityRootsDiscoverV1Params;
    result: CapabilityRootsDiscoverV1Result;
    errorData: ErrorData;
  };
  "process/start": { params: ProcessStartParams; result: ProcessStartResult; errorData: ProcessStartErrorData };
  "process/read": { params: ProcessReadParams; result: ProcessReadResult; errorData: ErrorData };
  "process/write": { params: ProcessWriteParams; result: ProcessWriteResult; errorData: ErrorData };
  "process/signal": { params: ProcessSignalParams; result: Empty; errorData: ErrorData };
  "process/terminate": { params: ProcessTerminateParams; result: ProcessTerminateResult; errorData: ErrorData };
  /** Farhand alone. */
  "process/closeStdin": {
    params: ProcessCloseStdinParams;
    result: ProcessCloseStdinResult;
    errorData: ProcessCloseStdinErrorData;
  };
  /** Farhand alone. */
  "process/resize": { params: ProcessResizeParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "process/wait": { params: ProcessWaitParams; result: ProcessWaitResult; errorData: ErrorData };
  /** Farhand alone. */
  "process/snapshot": { params: ProcessSnapshotParams; result: ProcessSnapshotResult; errorData: ErrorData };
  /** Farhand alone. */
  "process/execDecide": { params: ProcessExecDecideParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "process/list": { params: ProcessListParams; result: ProcessListResult; errorData: ErrorData };
  "fs/readFile": { params: FsReadFileParams; result: FsReadFileResult; errorData: ErrorData };
  "fs/writeFile": { params: FsWriteFileParams; result: FsWriteFileResult; errorData: FsWriteFileErrorData };
  "fs/createDirectory": { params: FsCreateDirectoryParams; result: Empty; errorData: ErrorData };
  "fs/getMetadata": { params: FsGetMetadataParams; result: FsGetMetadataResult; errorData: ErrorData };
  "fs/canonicalize": { params: FsCanonicalizeParams; result: FsCanonicalizeResult; errorData: ErrorData };
  "fs/readDirectory": { params: FsReadDirectoryParams; result: FsReadDirectoryResult; errorData: ErrorData };
  "fs/walk": { params: FsWalkParams; result: FsWalkResult; errorData: ErrorData };
  "fs/remove": { params: FsRemoveParams; result: Empty; errorData: ErrorData };
  "fs/copy": { params: FsCopyParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/rename": { params: FsRenameParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/symlink": { params: FsSymlinkParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/readLink": { params: FsReadLinkParams; result: FsReadLinkResult; errorData: ErrorData };
  /** Farhand alone. */
  "fs/setMetadata": { params: FsSetMetadataParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/scanDirectory": { params: FsScanDirectoryParams; result: FsScanDirectoryResult; errorData: ErrorData };
  /** Farhand alone. */
  "fs/readFiles": { params: FsReadFilesParams; result: FsReadFilesResult; errorData: ErrorData };
  /** Farhand alone. */
  "fs/writeFiles": { params: FsWriteFilesParams; result: FsWriteFilesResult; errorData: ErrorData };
  /** Farhand alone. */
  "fs/digest": { params: FsDigestParams; result: FsDigestResult; errorData: ErrorData };
  /** Farhand alone. */
  "fs/checkAccess": { params: FsCheckAccessParams; result: FsCheckAccessResult; errorData: ErrorData };
  "fs/open": { params: FsOpenParams; result: FsOpenResult; errorData: ErrorData };
  "fs/readBlock": { params: FsReadBlockParams; result: FsReadBlockResult; errorData: ErrorData };
  "fs/writeBlock": { params: FsWriteBlockParams; result: Empty; errorData: ErrorData };
  "fs/close": { params: FsCloseParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/watch": { params: FsWatchParams; result: Empty; errorData: ErrorData };
  /** Farhand alone. */
  "fs/unwatch": { params: FsUnwatchParams; result: Empty; errorData: ErrorData };
  "fs/watchMissing": { params: FsWatchMissingParams; result: FsWatchMissingResult; errorData: ErrorData };
  "http/request": { params: HttpRequestParams; result: HttpRequestResult; errorData: HttpRequestErrorData };
}

/** Params and result of what the server asks clients. */
export interface ServerRequests {
  "network/policyRequest": { params: NetworkPolicyRequestParams; result: NetworkPolicyRequestResult };
}

/** The params of what the server sends without being asked. */
export interface ServerNotifications {
  /** Farhand alone. */
  "session/takenOver": SessionTakenOverParams;
  /** Farhand alone. */
  "process/started": ProcessStartedParams;
  "process/output": ProcessOutputParams;
  /** Farhand alone. */
  "process/execRequested": ProcessExecRequestedParams;
  "process/exited": ProcessExitedParams;
  "process/closed": ProcessClosedParams;
  "network/policyDecision": NetworkPolicyDecisionParams;
  /** Farhand alone. */
  "process/failed": ProcessFailedParams;
  /** Farhand alone. */
  "fs/changed": FsChangedParams;
  "fs/missingChanged": FsMissingChangedParams;
  "http/request/bodyDelta": HttpRequestBodyDeltaParams;
}

/** The params of what a client sends without an answer. */
export interface ClientNotifications {
  "initialized": InitializedParams;
}

export type Method = keyof Methods;

type WithParams<P> = null extends P ? { params?: P } : { params: P };

/** A request: a union that `method` tells apart, or the request of one method. */
export type RequestOf<M extends Method = Method> =
  { [K in M]: { id: RequestId; method: K } & WithParams<Methods[K]["params"]> }[M];

/** What answers a request of that method. */
export type AnswerOf<M extends Method = Method> =
  | { [K in M]: { id: RequestId; result: Methods[K]["result"] } }[M]
  | { [K in M]: { id: RequestId; error: RpcError & { data?: Methods[K]["errorData"] } } }[M];

/** A notification from the server: a union that `method` tells apart. */
export type ServerNotification =
  { [K in keyof ServerNotifications]: { method: K; params: ServerNotifications[K] } }[keyof ServerNotifications];

/** A notification from the client. */
export type ClientNotification =
  { [K in keyof ClientNotifications]: { method: K; params?: ClientNotifications[K] } }[keyof ClientNotifications];

// --- envelope.json: The messages of JSON-RPC, and errors

/** What surrounds the params and results of index.json. The member jsonrpc is ignored when sent, and never sent. */
export type RpcMessage = RpcRequest | RpcNotification | RpcAnswer | RpcErrorAnswer;

/**
 * Comes back as it was sent; a string has at most 1,024 bytes. -1 is also the id of an error that answers no request.
 */
export type RequestId = string | number;

export interface RpcRequest {
  id: RequestId;
  method: string;
  /** Absent is null. */
  params?: unknown;
}

export interface RpcNotification {
  id?: never;
  method: string;
  /** Absent is null. */
  params?: unknown;
}

export interface RpcAnswer {
  id: RequestId;
  method?: never;
  result: unknown;
  error?: never;
}

export interface RpcErrorAnswer {
  id: RequestId;
  method?: never;
  error: RpcError;
  /** Only where an answer of fs/readFile was broken off after its beginning had been sent. */
  result?: null;
}

export interface RpcError {
  code: ErrorCode;
  message: string;
  data?: ErrorData;
}

/**
 * -32600: not a message, wrong order, unknown or duplicate process, unknown session, a file of the wrong kind. -32601:
 * unknown method. -32602: params. -32603: the operating system refused. -32004: no such file or handle. -32010: the
 * session is attached elsewhere. -32020: the file is not what ifMatch says. -32021: a limit of the server. -32022: the
 * server is ending.
 */
export type ErrorCode = -32600 | -32601 | -32602 | -32603 | -32004 | -32010 | -32020 | -32021 | -32022;

/** Farhand alone. Any of these members, and for some methods those that index.json names. */
export interface ErrorData {
  /** Where a start or a sandbox failed: cwd, exec, pty, limits, mounts, seccomp and others. */
  step?: string;
  /** The number of the error of the operating system. */
  errno?: number;
  errnoName?: string;
  /** A word for programs. */
  reason?: string;
  /** A sentence for people. */
  remedy?: string;
  denied?: Denied;
  /** With -32021: the name of the limit. */
  limit?: string;
  /** With -32021: its value. */
  value?: number;
}

// --- session.json: Handshake and sessions

export interface InitializeParams {
  /** For logs. */
  clientName: string;
  /** Attach to this session instead of making one. */
  resumeSessionId?: string | null;
  /** With resumeSessionId: take it also from a connection that still has it. */
  takeover?: boolean | null;
  /** How long the session shall live without a connection; granted up to a setting of the server. */
  detachMs?: Uint64 | null;
  /** The largest message that this client reads; absent: 64 MiB. */
  maxMessageBytes?: Uint64 | null;
  /** Which notifications to send in addition: started, failed. Names that are not known are ignored. */
  notifications?: string[];
}

export interface InitializeResult {
  /** Looks like a UUID; its first eight digits are those of serverId. */
  sessionId: string;
  /** Always sent by Farhand. */
  environmentInfo?: EnvironmentInfo;
  /** UUID of this life of the server. Always sent by Farhand. */
  serverId?: string;
  /** The detach time that was granted. Always sent by Farhand. */
  detachMs?: Uint64;
  /** Always sent by Farhand. */
  limits?: ServerLimits;
}

/** What this server takes. */
export interface ServerLimits {
  maxMessageBytes: Uint64;
  maxFrameBytes: Uint64;
  retainedOutputBytesPerProcess: Uint64;
  maxProcessesPerSession: Uint64;
}

export interface InitializeErrorData extends ErrorData {
  /**
   * Why a session is not known: it is of another server or of an earlier life of this one, it has ended, or it never
   * was.
   */
  reason?: "otherServer" | "expired" | "unknown";
}

/** Whatever they are, they are ignored. */
export type InitializedParams = unknown;

export type SessionListParams = Record<string, unknown> | null;

export interface SessionListResult {
  sessions: SessionEntry[];
}

export interface SessionEntry {
  /** Shortened to 13 characters where it is not for this client to resume. */
  sessionId: string;
  clientName: string;
  /** Whether it has a connection. */
  attached: boolean;
  createdAtMs: TimeMs;
  /** When it ends unless somebody attaches to it; null while it has a connection. */
  expiresAtMs: TimeMs | null;
  /** How many there are, closed ones that are still readable included. */
  processes: Uint64;
}

/** Another connection has the session now; this one is closed. */
export interface SessionTakenOverParams {
  sessionId: string;
}

// --- process.json: Processes

/** The process is one of this session, by an id that session/list has shown; absent: of the own one. Farhand only. */
export type OtherSession = string | null;

/** The client's name for a process, unique in the session; at most 1,024 bytes. */
export type ProcessId = string;

/** The name of a process of the session. */
export type KnownProcessId = string;

/** One counter of each process numbers output, exit and close from 1, without holes. */
export type Seq = number;

export type Uint64OrNull = Uint64 | null;

export type OutputStream = "stdout" | "stderr" | "pty";

/** linuxSeccomp: the request had a sandbox. */
export type SandboxType = "none" | "linuxSeccomp";

export type Environment = Record<string, string>;

export type TerminalSize = number;

export interface ProcessStartParams {
  processId: ProcessId;
  /** Program and arguments; no shell is involved. A bare name is searched in the child's PATH. */
  argv: string[];
  cwd: Path;
  /** The environment: all of it, unless there is an envPolicy. */
  env: Environment;
  /** On a terminal of 24 rows and 80 columns. Required unless there is io. */
  tty?: boolean;
  /** Without a terminal: stdin is a pipe for process/write; otherwise it is empty. */
  pipeStdin?: boolean;
  /** What the program sees as its name. */
  arg0?: string | null;
  envPolicy?: EnvPolicy | null;
  sandbox?: Sandbox;
  /** With a sandbox: its only network is that of networkProxy, which must be there. Otherwise without effect. */
  enforceManagedNetwork?: boolean;
  /** A proxy of the client. Without effect here. */
  managedNetwork?: ManagedNetwork | null;
  /** Without effect here. */
  metadata?: ExecMetadata | null;
  shellSnapshot?: ShellSnapshotRequest | null;
  /** Farhand alone: in place of tty and pipeStdin. */
  io?: ProcessIo | null;
  /**
   * Farhand alone. prepared: the client has applied its policy already, and there is no sandbox. direct is the default.
   */
  kind?: "direct" | "prepared" | null;
  /** Farhand alone. */
  limits?: ProcessLimits | null;
  /** Farhand alone (execInterceptV1): rules decide about every program that the command starts. */
  intercept?: ExecIntercept | null;
  /**
   * The network of the command goes through proxies that know which hosts it may reach (capability networkProxyLaunch).
   */
  networkProxy?: NetworkProxy | null;
  /** Refused here: belongs into sandbox. */
  sandboxPolicy?: null;
  /** Refused. */
  fileSystemSandboxPolicy?: null;
  /** Refused here: belongs into sandbox. */
  permissions?: null;
  /** Refused here: belongs into sandbox. */
  permissionProfile?: null;
  /** Refused. */
  additionalPermissions?: null;
}

export interface NetworkProxy {
  proxy: NetworkProxyConfig;
  /**
   * The client is asked about hosts that the policy does not know, by network/policyRequest; after this time and five
   * seconds the connection is denied. Then processId has 1 to 256 bytes. Absent or null: nobody is asked.
   */
  policyDecisionTimeoutMs?: number | null;
  auditMetadata?: NetworkAuditMetadata | null;
  /** Without effect here. */
  environmentId?: string | null;
  /** For the log. */
  executionId?: string | null;
}

export interface NetworkProxyConfig {
  /** Must be true. */
  enabled: true;
  /** A SOCKS5 proxy beside that for HTTP. */
  enableSocks5: boolean;
  /** Without effect here. */
  enableSocks5Udp: boolean;
  /** Connections may go through the proxies of the server's environment. */
  allowUpstreamProxy: boolean;
  /**
   * Must be false where the network is enforced. Elsewhere it is without effect: nothing keeps unix sockets from the
   * command.
   */
  dangerouslyAllowAllUnixSockets: boolean;
  /** limited: GET, HEAD and OPTIONS of plain HTTP alone. */
  mode: "limited" | "full";
  /** Hosts and patterns of hosts (*.x: below x; **.x: x too; *: any, to allow alone). deny is stronger than allow. */
  domains?: Record<string, "none" | "allow" | "deny"> | null;
  /** Without effect here. */
  unixSockets?: Record<string, "allow" | "deny"> | null;
  /** Private and loopback addresses, too. */
  allowLocalBinding: boolean;
  /** Patterns of hosts that the client is asked about although they are allowed. */
  reviewDomains?: string[];
  /** Must be false: refused here. */
  credentialMasking?: false;
  /** Must be empty: refused here. */
  credentialProviders?: Record<string, never>;
}

/** Without effect here. */
export interface NetworkAuditMetadata {
  conversationId?: string | null;
  appVersion?: string | null;
  userAccountId?: string | null;
  authMode?: string | null;
  originator?: string | null;
  userEmail?: string | null;
  terminalType?: string | null;
  model?: string | null;
  slug?: string | null;
}

export type NetworkProtocol = "http" | "https_connect" | "socks5_tcp" | "socks5_udp" | "tcp" | "dns";

export interface NetworkPolicyRequestParams {
  processId: ProcessId;
  request: {
    protocol: NetworkProtocol;
    host: string;
    port: number;
  };
}

/** Any other answer, an error too, denies with the reason not_allowed. */
export interface NetworkPolicyRequestResult {
  decision: {
    /** ask denies, too. */
    type: "allow" | "deny" | "ask";
    /** Required unless it is allowed. At most 1024 bytes without control characters; empty stands for policy_denied. */
    reason?: string;
  };
  /** Farhand alone: the same host, port and protocol get the same answer for the process, or for all of the session. */
  remember?: "process" | "session" | null;
  /** Farhand alone, with remember: for how long. */
  ttlMs?: number | null;
}

export interface NetworkPolicyDecisionParams {
  processId: ProcessId;
  timestamp: string;
  /** non_domain: not the host is the reason, but how it is used. */
  scope: "domain" | "non_domain";
  decision: "allow" | "deny" | "ask";
  source: "baseline_policy" | "decider" | "mode_guard" | "proxy_state";
  /** A word, or what the client gave as its reason. */
  reason: string;
  protocol: NetworkProtocol;
  host: string;
  port: number;
  /** Of HTTP alone. */
  method?: string;
  /** The command's end of the connection. */
  client: string;
  /** The client has allowed what the policy does not. */
  policyOverride: boolean;
  /** Farhand alone: it stands for so many that are alike. */
  count?: number;
  /** Farhand alone: so many decisions before this one are told by nothing else. */
  omitted?: number;
}

export interface ExecIntercept {
  /** Texts in the language of .rules files. */
  rules: ExecRulesText[];
  /**
   * shell: only what the first program starts itself, and not that program. below: everything but that program. all is
   * the default.
   */
  scope?: "all" | "shell" | "below" | null;
  /** full: rules for a base name count only where there is none for the path. base is the default. */
  programNames?: "base" | "full" | null;
  /** deny: nobody is asked. ask is the default. */
  onPrompt?: "ask" | "deny" | null;
  /** What decides about a program that no rule matches. heuristic is the default. */
  onUnmatched?: "heuristic" | "run" | "ask" | null;
  /** Also tell of programs about which nobody was asked. false is the default. */
  report?: boolean;
  /**
   * seccomp: the kernel lets each start wait. preload: a library in each program asks; static programs are not seen.
   * any, the default: the first of these that works. wrapper: only what a shell asks about that was built to execute a
   * wrapper in place of each program.
   */
  mechanism?: "any" | "seccomp" | "preload" | "wrapper" | null;
  /**
   * With the mechanism wrapper alone: the absolute path of the wrapper. Absent: farhand-execve-wrapper of the server.
   */
  wrapper?: string | null;
}

export interface ExecRulesText {
  /** For errors and for the rule of a question; at most 4096 bytes. */
  name: string;
  /** All texts together have at most 1 MiB. */
  text: string;
}

/** Builds an environment from the server's, over which env is laid. Patterns know * and ? and ignore case. */
export interface EnvPolicy {
  inherit: "all" | "core" | "none";
  /** Keep also names like *KEY*, *SECRET*, *TOKEN*. */
  ignoreDefaultExcludes: boolean;
  exclude: string[];
  set: Environment;
  /** Empty: all. */
  includeOnly: string[];
}

export interface ManagedNetwork {
  loopbackPorts?: number[];
  allowLocalBinding?: boolean;
  allowUnixSockets?: string[];
  dangerouslyAllowAllUnixSockets?: boolean;
}

export interface ExecMetadata {
  threadId?: string | null;
  toolCallId?: string | null;
}

/** For a command [shell.path, "-lc", SCRIPT, …]: what the profile files set up is captured once for each scope. */
export interface ShellSnapshotRequest {
  /** 1 to 256 bytes. */
  scopeId: string;
  shell: ShellInfo & {
    name?: "bash" | "zsh" | "sh";
  };
}

export type ProcessIo = TerminalIo | PipeIo;

export interface TerminalIo {
  type: "pty";
  /** 24 when absent. */
  rows?: TerminalSize | null;
  /** 80 when absent. */
  cols?: TerminalSize | null;
}

export interface PipeIo {
  type: "pipe";
  stdin: "open" | "closed";
}

export type LimitMs = number | null;

export type LimitBytes = number | null;

export type LimitCount = number | null;

/** What the process may use; absent: what the server may. */
export interface ProcessLimits {
  /** From the start on. */
  wallMs?: LimitMs;
  /** Without output. */
  silenceMs?: LimitMs;
  cpuSeconds?: LimitCount;
  memoryBytes?: LimitBytes;
  openFiles?: LimitCount;
  processes?: LimitCount;
  /** The largest file that it writes. */
  fileBytes?: LimitBytes;
}

export type LimitEnforcer = "timer" | "rlimit" | "cgroup";

/** How each limit that was asked for is enforced. */
export interface EnforcedLimits {
  wallMs?: LimitEnforcer;
  silenceMs?: LimitEnforcer;
  cpuSeconds?: LimitEnforcer;
  memoryBytes?: LimitEnforcer;
  openFiles?: LimitEnforcer;
  processes?: LimitEnforcer;
  fileBytes?: LimitEnforcer;
}

export interface ProcessStartResult {
  processId: ProcessId;
  /** Always sent by Farhand. */
  sandboxType?: SandboxType;
  /** Farhand alone, always. */
  pid?: number;
  limits?: EnforcedLimits;
  /**
   * Farhand alone, with networkProxy. enforced: the command reaches nothing else. advisory: its variables name the
   * proxies, and nothing keeps it from other ways.
   */
  network?: "enforced" | "advisory";
  intercept?: ExecIntercepted;
}

/** Farhand alone, for a start with intercept. */
export interface ExecIntercepted {
  mechanism: "seccomp" | "preload" | "wrapper";
  /** What is not seen. */
  warning?: string;
}

export interface ProcessStartErrorData extends ErrorData {
  /**
   * No sandbox of this kind can be made here, the profile hides the cwd, the rules have a mistake, the first program
   * was denied, or no program can be intercepted here.
   */
  reason?: "sandboxUnavailable" | "cwdHidden" | "badRules" | "execDenied" | "interceptUnavailable";
}

export interface ExitUsage {
  userMs: Uint64;
  systemMs: Uint64;
  maxRssBytes: Uint64;
}

/**
 * terminated: a client asked for it. sandboxBroken: somebody broke the sandbox from outside. pipeHeld: it kept the lock
 * of a pipe that the server was waiting for.
 */
export type ExitReason =
  | "exited"
  | "signalled"
  | "terminated"
  | "wallLimit"
  | "silenceLimit"
  | "cpuLimit"
  | "memoryLimit"
  | "sandboxBroken"
  | "pipeHeld"
  | "sessionEnd"
  | "serverShutdown";

/** How a process ended. Farhand alone; present once the process has exited. */
export interface ExitRecord {
  /** The name of the signal that ended it (SIGKILL), or null. */
  signal?: string | null;
  coreDumped?: boolean;
  reason?: ExitReason;
  usage?: ExitUsage;
  /** Only of a command with networkProxy: how many connections were decided how, until it exited. */
  connections?: {
    allowed: Uint64;
    denied: Uint64;
  };
  /** Only of an intercepted command: how many starts of programs were decided how, until it exited. */
  intercepted?: {
    run: Uint64;
    escalated: Uint64;
    denied: Uint64;
  };
  /** Only of a process that was started with a sandbox: what was refused. */
  denials?: Denial[];
}

export interface Denial {
  operation: "write" | "connect" | "systemCall" | "unknown";
  path?: FileUri;
  /** HOST or HOST:PORT of a connect. */
  address?: string;
  /** output: a guess from a line that the command printed. signal: a death by SIGSYS. */
  source: "output" | "signal";
}

/** The status, or 128 + the number of the signal, or -1 when nobody knows; null while it runs. */
export type ExitCode = number | null;

export interface ProcessReadParams {
  sessionId?: OtherSession;
  processId: ProcessId;
  /** Chunks above this number; absent: 0. */
  afterSeq?: Uint64OrNull;
  /** Raw bytes. Chunks are not split, and the first is always there. */
  maxBytes?: Uint64OrNull;
  /** How long to wait when there is nothing to tell; at most 600,000. */
  waitMs?: Uint64OrNull;
}

export interface OutputChunk {
  seq: Seq;
  stream: OutputStream;
  chunk: Base64;
}

/** Chunks that were asked for and are no longer kept. */
export interface OutputGap {
  fromSeq: Seq;
  toSeq: Seq;
  bytes: Uint64;
}

export interface ProcessReadResult extends ExitRecord {
  chunks: OutputChunk[];
  /** The number that comes next; with maxBytes and chunks, the last of them + 1. */
  nextSeq: Seq;
  exited: boolean;
  exitCode: ExitCode;
  closed: boolean;
  /** What process/failed said. */
  failure: string | null;
  /** A guess whether the sandbox is why it failed. Always sent by Farhand. */
  sandboxDenied?: boolean;
  /** Farhand alone. */
  gap?: OutputGap;
}

export interface ProcessWriteParams {
  processId: ProcessId;
  chunk: Base64;
  /** Makes the write safe to repeat. Clients from 0.142 on always send one; at most 256 bytes. */
  writeId?: string;
}

export interface ProcessWriteResult {
  /** starting: only of other servers; here a write waits for the start. */
  status: "accepted" | "stdinClosed" | "unknownProcess" | "starting";
}

export interface ProcessSignalParams {
  sessionId?: OtherSession;
  processId: ProcessId;
  /** Other servers know only interrupt. */
  signal: "interrupt" | "terminate" | "kill" | "hangup" | "quit" | "user1" | "user2" | number;
  /** Farhand alone. group is the default. */
  scope?: "group" | "process" | "tree" | null;
}

export interface ProcessTerminateParams {
  sessionId?: OtherSession;
  processId: ProcessId;
  /** Farhand alone. force is the default. */
  mode?: TerminateForce | TerminateGraceful | null;
}

/** SIGKILL to the whole tree. */
export interface TerminateForce {
  type: "force";
}

/** SIGTERM to the group, and SIGKILL to the tree after timeoutMs if the root still lives. */
export interface TerminateGraceful {
  type: "graceful";
  timeoutMs: number;
}

export interface ProcessTerminateResult {
  /** False: it has exited or is unknown, and nothing is killed. */
  running: boolean;
  /** As in the request; absent when that had none. */
  mode?: "force" | "graceful";
}

export interface ProcessCloseStdinParams {
  processId: KnownProcessId;
}

export interface ProcessCloseStdinResult {
  /** stdinClosed: it never had one. */
  status: "closed" | "alreadyClosed" | "stdinClosed" | "unknownProcess";
}

export interface ProcessCloseStdinErrorData extends ErrorData {
  /** A terminal in raw mode has no end of input. */
  reason?: "rawTerminal";
}

export interface ProcessResizeParams {
  processId: KnownProcessId;
  rows: TerminalSize;
  cols: TerminalSize;
}

export interface ProcessWaitParams {
  sessionId?: OtherSession;
  processId: KnownProcessId;
  /** closed is the default. */
  until?: "closed" | "exited" | null;
  /** At most 600,000, which is also the default. */
  waitMs?: Uint64OrNull;
  /** Answer at the latest so long after the exit. */
  drainMs?: Uint64OrNull;
}

export interface ProcessWaitResult extends ExitRecord {
  exited: boolean;
  exitCode: ExitCode;
  closed: boolean;
  nextSeq: Seq;
  sandboxDenied: boolean;
  /** What was waited for has not come. */
  timedOut: boolean;
}

export interface ProcessSnapshotParams {
  sessionId?: OtherSession;
  processId: KnownProcessId;
  /** Of each stream at most; absent: all that is retained. */
  maxBytes?: Uint64OrNull;
}

/** Beginning and end of each stream. */
export interface ProcessSnapshotResult {
  stdout: Base64;
  stderr: Base64;
  terminal: Base64;
  /** Whether bytes are missing in any of them. */
  truncated: boolean;
  omittedBytes: OmittedBytes;
  running: boolean;
  exitCode: ExitCode;
  closed: boolean;
  nextSeq: Seq;
}

export interface OmittedBytes {
  stdout: Uint64;
  stderr: Uint64;
  terminal: Uint64;
}

export interface ProcessExecDecideParams {
  sessionId?: OtherSession;
  processId: ProcessId;
  /** Of the question. */
  requestId: string;
  decision: ExecDecision;
  /** With deny: for the program that asked; at most 4096 bytes. */
  reason?: string | null;
  /** process: the same file, arguments and cwd get the same answer below this command without a question. */
  remember?: "process" | null;
}

/** run: as the command is, in its sandbox. escalate: outside of it. */
export type ExecDecision = "run" | "escalate" | "deny";

export type ProcessListParams = {
  sessionId?: OtherSession;
  /** Only this one. */
  processId?: string | null;
  /** server: also those of other sessions that this client may see. session is the default. */
  scope?: "session" | "server" | null;
} | null;

export interface ProcessListResult {
  /** In order of start. */
  processes: ProcessEntry[];
}

export interface ProcessEntry extends ExitRecord {
  processId: ProcessId;
  /** With the scope server; shortened where it is not for this client to resume. */
  sessionId?: string;
  argv: string[];
  cwd: FileUri | null;
  tty: boolean;
  /** null until it is known. */
  pid: number | null;
  startedAtMs: TimeMs | null;
  running: boolean;
  closed: boolean;
  exitCode: ExitCode;
  lastOutputAtMs: TimeMs | null;
  /** Of output that can be read. */
  retainedBytes: Uint64;
  /** Of output that is no longer kept. */
  droppedBytes: Uint64;
  nextSeq: Seq;
  sandboxType: SandboxType;
  sandboxDenied: boolean;
  /** Of an intercepted command: programs that wait for process/execDecide. */
  openQuestions?: number;
}

/** Only when initialize asked for it. It has no number. */
export interface ProcessStartedParams {
  processId: ProcessId;
  pid: number;
}

/** Of an intercepted command: a program is to be started. It has no number. */
export interface ProcessExecRequestedParams {
  processId: ProcessId;
  /** null in a report. */
  requestId: string | null;
  /** The absolute path of the program. */
  file: string;
  /** When it is not UTF-8. */
  fileBase64?: Base64;
  argv: string[];
  /** All arguments, when one is not UTF-8. */
  argvBase64?: Base64[];
  /** Only in a report: bytes of arguments that were left out. */
  omittedBytes?: number;
  /** Of the process that wants to start it. */
  cwd: string;
  /** When it is not UTF-8. */
  cwdBase64?: Base64;
  /** The process that wants to become this program; null: the command itself, which has not begun. */
  pid: number | null;
  /**
   * ask: a question. withdrawn: nobody waits for the answer any more. The others: what was decided, by a rule or by
   * another client.
   */
  decision: "ask" | "run" | "escalate" | "deny" | "withdrawn";
  /** The strictest rule that matched; absent when none did. */
  rule?: {
    /** Of the text. */
    name: string;
    line: number;
    justification?: string;
  };
}

/**
 * Only when initialize asked for it. The server lost control of the process, or could not read all of its output. It
 * has no number.
 */
export interface ProcessFailedParams {
  processId: ProcessId;
  message: string;
}

export interface ProcessOutputParams {
  processId: ProcessId;
  seq: Seq;
  stream: OutputStream;
  /** At most 64 KiB; may end inside a character. */
  chunk: Base64;
}

/** May come before the last output: a child of the process may hold the pipe. */
export interface ProcessExitedParams extends ExitRecord {
  processId: ProcessId;
  seq: Seq;
  /** The status, or 128 + the number of the signal, or -1 when nobody knows. */
  exitCode: number;
  /** A guess whether the sandbox is why it failed. Always sent by Farhand. */
  sandboxDenied?: boolean;
}

/** Comes once and last. */
export interface ProcessClosedParams {
  processId: ProcessId;
  seq: Seq;
}

// --- files.json: Files

/** Stands outside of the order of the connection: the client waits itself for what must be in order. Farhand only. */
export type Unordered = boolean | null;

/**
 * true when absent. false: a link anywhere in the path is refused; of fs/rename and fs/symlink, among the directories.
 */
export type FollowSymlinks = boolean | null;

/** sha256: and 64 hexadecimal digits. */
export type FileDigest = string;

export interface FsReadFileParams {
  unordered?: Unordered;
  path: Path;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsReadFileResult {
  /** The whole file, of at most 512 MiB. */
  dataBase64: Base64;
}

/** The file is written only when it is as said here; otherwise -32020. */
export type IfMatch = IfAbsent | IfDigest | IfUnchanged;

export interface IfAbsent {
  absent: true;
  digest?: null;
  size?: null;
  modifiedAtMs?: null;
}

export interface IfDigest {
  absent?: null;
  digest: FileDigest;
  size?: null;
  modifiedAtMs?: null;
}

export interface IfUnchanged {
  absent?: null;
  digest?: null;
  size: Uint64;
  modifiedAtMs: TimeMs;
}

export interface FsWriteFileParams {
  unordered?: Unordered;
  path: Path;
  dataBase64: Base64;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
  /** Farhand alone. true when absent. */
  atomic?: boolean | null;
  /** Farhand alone. false when absent. */
  createParents?: boolean | null;
  /** Farhand alone. */
  mode?: FileMode | null;
  /** Farhand alone. */
  ifMatch?: IfMatch | null;
}

export interface FsWriteFileResult {
  /** Always sent by Farhand. */
  size?: Uint64;
  /** Always sent by Farhand. */
  modifiedAtMs?: TimeMs;
}

export interface FsWriteFileErrorData extends ErrorData {
  /** With -32020: what is there, or null. */
  current?: FileMetadata | null;
}

export interface FsCreateDirectoryParams {
  unordered?: Unordered;
  path: Path;
  /** true when absent. */
  recursive?: boolean | null;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsGetMetadataParams {
  unordered?: Unordered;
  path: Path;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
  /** Farhand alone. false when absent. */
  digest?: boolean | null;
}

export interface FileMetadata {
  isDirectory: boolean;
  isFile: boolean;
  isSymlink: boolean;
  /** Servers of 0.125 do not send it. Always sent by Farhand. */
  size?: Uint64;
  /** The time of birth; 0 where the file system does not tell it. */
  createdAtMs: TimeMs;
  modifiedAtMs: TimeMs;
  /** Farhand alone, always. */
  mode?: FileMode;
  /** Farhand alone, always. */
  uid?: Uint64;
  /** Farhand alone, always. */
  gid?: Uint64;
  /** Farhand alone, always. */
  links?: Uint64;
}

export interface FsGetMetadataResult extends FileMetadata {
  /** When it was asked for. */
  digest?: FileDigest;
}

export interface FsCanonicalizeParams {
  path: Path;
  sandbox?: Sandbox;
}

export interface FsCanonicalizeResult {
  path: FileUri;
}

export interface FsReadDirectoryParams {
  path: Path;
  sandbox?: Sandbox;
}

export interface FsReadDirectoryResult {
  unordered?: Unordered;
  /** Sorted by bytes. */
  entries: DirectoryEntry[];
}

export interface DirectoryEntry {
  fileName: string;
  isDirectory: boolean;
  isFile: boolean;
  /** Farhand alone: of an entry whose name is not UTF-8. */
  path?: FileUri;
}

export interface FsWalkParams {
  unordered?: Unordered;
  path: Path;
  options: WalkOptions;
  sandbox?: Sandbox;
}

export interface WalkOptions {
  /** At most 64. */
  maxDepth: Uint64;
  /** At most 10,000. */
  maxDirectories: Uint64;
  /** At most 50,000. */
  maxEntries: Uint64;
  followDirectorySymlinks: boolean;
  /** false when absent. */
  pruneHiddenDirectories?: boolean;
}

export interface FsWalkResult {
  /** Breadth first. */
  entries: WalkEntry[];
  errors: WalkError[];
  /** A limit ended the walk. */
  truncated: boolean;
}

export interface WalkEntry {
  path: FileUri;
  kind: "directory" | "file";
}

export interface WalkError {
  path: FileUri;
  message: string;
  denied?: Denied;
}

export interface FsRemoveParams {
  unordered?: Unordered;
  path: Path;
  /** true when absent. */
  recursive?: boolean | null;
  /** true when absent: nothing there is no error. */
  force?: boolean | null;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsCopyParams {
  unordered?: Unordered;
  sourcePath: Path;
  destinationPath: Path;
  recursive: boolean;
  sandbox?: Sandbox;
}

export interface FsRenameParams {
  unordered?: Unordered;
  sourcePath: Path;
  destinationPath: Path;
  /** true when absent. */
  replace?: boolean | null;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsSymlinkParams {
  unordered?: Unordered;
  path: Path;
  /** As it shall stand in the link. */
  target: string;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsReadLinkParams {
  path: Path;
  sandbox?: Sandbox;
}

export interface FsReadLinkResult {
  unordered?: Unordered;
  target?: string;
  /** In place of target when that is not UTF-8. */
  targetBase64?: Base64;
}

export interface FsSetMetadataParams {
  unordered?: Unordered;
  path: Path;
  mode?: FileMode | null;
  modifiedAtMs?: TimeMs | null;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsScanDirectoryParams {
  unordered?: Unordered;
  path: Path;
  /** Only names behind this one. */
  after?: string | null;
  /** The same for a name that is not UTF-8. */
  afterBase64?: Base64;
  limit?: number | null;
  sandbox?: Sandbox;
}

export interface FsScannedEntry {
  name?: string;
  /** In place of a name that is not UTF-8. */
  nameBase64?: Base64;
  /** Links are not followed. */
  kind: "file" | "directory" | "link" | "other";
  size: number;
  mode: FileMode;
  modifiedAtMs: TimeMs;
  /** Of a link. */
  target?: string;
  /** In place of a target that is not UTF-8. */
  targetBase64?: Base64;
}

export interface FsScanDirectoryResult {
  /** Sorted by bytes. */
  entries: FsScannedEntry[];
  /** There are more. */
  truncated: boolean;
}

export interface FsFileError {
  message: string;
  errno?: number;
  denied?: Denied;
}

/** One name in a directory; at most 255 bytes. */
export type FsName = string;

export interface FsReadFilesParams {
  unordered?: Unordered;
  /** The directory. */
  path: Path;
  names: FsName[];
  sandbox?: Sandbox;
}

export interface FsReadFile {
  dataBase64?: Base64;
  size?: number;
  mode?: FileMode;
  modifiedAtMs?: TimeMs;
  /** In place of all others. */
  error?: FsFileError;
}

export interface FsReadFilesResult {
  /** In the order of the names; fewer when the answer became too long. */
  files: FsReadFile[];
}

export interface FsNewFile {
  name: FsName;
  dataBase64: Base64;
  mode?: FileMode | null;
  modifiedAtMs?: TimeMs | null;
}

export interface FsWriteFilesParams {
  unordered?: Unordered;
  /** The directory. */
  path: Path;
  files: FsNewFile[];
  sandbox?: Sandbox;
}

export interface FsWrittenFile {
  error?: FsFileError;
}

export interface FsWriteFilesResult {
  files: FsWrittenFile[];
}

export interface FsDigestParams {
  unordered?: Unordered;
  path: Path;
  offset?: number | null;
  length?: Uint64 | null;
  followSymlinks?: FollowSymlinks;
  sandbox?: Sandbox;
}

export interface FsDigestResult {
  digest: FileDigest;
  /** How many were there to be digested. */
  bytes: number;
  /** Of the whole file. */
  size: number;
}

export interface FsAccess {
  path: Path;
  /** write: as fs/writeFile with createParents would. remove: the name itself, as fs/remove would. */
  access: "read" | "write" | "remove";
}

export interface FsCheckAccessParams {
  unordered?: Unordered;
  paths: FsAccess[];
  sandbox?: Sandbox;
}

export interface FsAccessAnswer {
  allowed: boolean;
  /** When it is not allowed: the error that the operation would have. */
  errno?: number;
  errnoName?: string;
  denied?: Denied;
}

export interface FsCheckAccessResult {
  /** In the order of the paths. */
  results: FsAccessAnswer[];
}

/** The client's name for an open file, unique in the connection; at most 32 bytes. */
export type HandleId = string;

export interface FsOpenParams {
  unordered?: Unordered;
  handleId: HandleId;
  path: Path;
  /** read is the default. replace: created or emptied. resume (Farhand alone): created or kept. */
  mode?: "read" | "replace" | "resume";
  followSymlinks?: FollowSymlinks;
  /** Farhand alone, not with read: as long as the handle is open nobody else can open the file so (errno 11). */
  lock?: boolean;
  /** The handle keeps these rights. */
  sandbox?: Sandbox;
}

export interface FsOpenResult {
  handleId: HandleId;
  /** With the mode resume. */
  size?: Uint64;
}

export interface FsReadBlockParams {
  unordered?: Unordered;
  handleId: HandleId;
  offset: Uint64;
  len: number;
  /** Without effect: the handle has the rights with which it was opened. */
  sandbox?: Sandbox;
}

export interface FsReadBlockResult {
  chunk: Base64;
  /** Fewer bytes were there than asked for. */
  eof: boolean;
}

export interface FsWriteBlockParams {
  unordered?: Unordered;
  handleId: HandleId;
  offset: Uint64;
  /** 1 to 1,048,576 bytes. */
  chunk: Base64;
  /** Without effect: the handle has the rights with which it was opened. */
  sandbox?: Sandbox;
}

export interface FsCloseParams {
  unordered?: Unordered;
  handleId: HandleId;
  /** Farhand alone: wait for the disk. false when absent. */
  sync?: boolean | null;
  /** Without effect. */
  sandbox?: Sandbox;
}

/** The client's name for a watch, unique in the connection; 1 to 64 bytes. */
export type WatchId = string;

export interface FsWatchParams {
  unordered?: Unordered;
  watchId: WatchId;
  path: Path;
  /** false when absent. */
  recursive?: boolean;
  sandbox?: Sandbox;
}

export interface FsUnwatchParams {
  unordered?: Unordered;
  watchId: WatchId;
  /** Without effect. */
  sandbox?: Sandbox;
}

export interface FsChangedParams {
  watchId: WatchId;
  events: FileEvent[];
  /** Events were lost: take these, then look again. */
  overflow: boolean;
}

export interface FileEvent {
  path: FileUri;
  kind: "created" | "modified" | "removed" | "renamed";
  /** With renamed: the name before. */
  fromPath?: FileUri;
}

export interface FsWatchMissingParams {
  unordered?: Unordered;
  /** A number that rises. */
  watchId: Uint64;
  missing: Path[];
  /** A path whose removal is told, too. */
  present?: Path | null;
  /** Farhand alone: with one nothing is watched. */
  sandbox?: Sandbox;
}

export interface FsWatchMissingResult {
  /** false: there is nothing to wait for. */
  watching: boolean;
}

/** Comes once: one of the missing paths appeared, or the present one went. */
export interface FsMissingChangedParams {
  watchId: Uint64;
}

// --- environment.json: The server's environment and configuration, and discovery

export type UriOrNull = FileUri | null;

/** The machine and the user of the server. Servers of 0.142 send only shell. */
export interface EnvironmentInfo {
  /** The login shell of the server's user. */
  shell: ShellInfo;
  /** Always sent by Farhand. */
  executorVersion?: string;
  /** Farhand alone, always. */
  executorName?: string;
  /** Always sent by Farhand. */
  cwd?: UriOrNull;
  /** Always sent by Farhand. */
  userHomeDir?: UriOrNull;
  /** Always sent by Farhand. */
  platformOs?: string;
  /** Always sent by Farhand. */
  temporaryDirectories?: UriOrNull[];
  /** Always sent by Farhand. */
  tempDir?: UriOrNull;
  /** What enforces permission profiles. Farhand alone; missing in the answer to initialize until the server knows. */
  sandboxBackend?: "namespaces" | "bubblewrap" | "landlock" | "none";
  /** Always sent by Farhand. */
  capabilities?: Capabilities;
}

/** One that is missing is false. */
export interface Capabilities {
  /** closeStdin, resize, wait, snapshot, list and the other additions to processes. */
  processControlV1?: boolean;
  /** The additions to files. */
  fsControlV1?: boolean;
  /** intercept of process/start, and process/execDecide. Absent: no program can be intercepted on this machine. */
  execInterceptV1?: boolean;
  /** Many files at once: fs/scanDirectory, fs/readFiles, fs/writeFiles, fs/digest. */
  fsBatchV1?: boolean;
  /** fs/checkAccess, and denied in errors of file requests. */
  fsAccessV1?: boolean;
  /** denials. */
  sandboxReportV1?: boolean;
  /** fs/open to write. */
  fileWriteStreaming?: boolean;
  /** valueEnvVar. */
  httpHeaderEnvVars?: boolean;
  /** networkProxy of process/start. */
  networkProxyLaunch?: boolean;
  /** reviewDomains of it. */
  networkProxyReviewDomains?: boolean;
  /** shellSnapshot of process/start. */
  shellSnapshotV2?: boolean;
  environmentConfigRead?: boolean;
  fsWatchMissing?: boolean;
  /** sandbox of a root of capabilityRoots/discoverV1. */
  capabilityDiscoverySandbox?: boolean;
  [name: string]: boolean | undefined;
}

export type EnvironmentInfoResult = EnvironmentInfo;

export interface EnvironmentStatusResult {
  status: "ready";
}

/** Keys from the root of a file on. */
export type TomlPath = string[];

/** At least one of the two lists has a path. */
export interface EnvironmentConfigReadParams {
  cwd: Path;
  configPaths: TomlPath[];
  requirementsPaths: TomlPath[];
}

export interface EnvironmentConfigReadResult {
  userHomeDir: UriOrNull;
  codexHomeDir: UriOrNull;
  hostname: string | null;
  config: ConfigStack;
  requirements: ConfigStack;
}

export interface ConfigStack {
  /** The lowest precedence first. */
  layers: ConfigLayer[];
  /** How many layers at the beginning are those of the system. */
  cloudInsertionIndex: Uint64;
}

export interface ConfigLayer {
  /** For people. */
  source: string;
  baseDir: FileUri;
  toml: string;
}

export interface CapabilityRootsDiscoverV1Params {
  roots: CapabilityRoot[];
}

export interface CapabilityRoot {
  id: string;
  /** One of another host gives an error for this root. */
  path: Path;
  /** How far the root is searched. */
  sandbox?: Sandbox;
}

export interface CapabilityRootsDiscoverV1Result {
  /** In the order of the request. */
  roots: DiscoveredRoot[];
}

export interface DiscoveredRoot {
  id: string;
  path: string;
  plugin: DiscoveredPlugin | null;
  skills: DiscoveredSkill[];
  namespaceManifests: DiscoveredFile[];
  warnings: string[];
  /** Why the root cannot be used. */
  error: string | null;
}

export interface DiscoveredPlugin {
  manifest: DiscoveredFile;
  mcpConfig: DiscoveredFile | null;
  appsConfig: DiscoveredFile | null;
}

export interface DiscoveredSkill {
  instructions: DiscoveredFile;
  metadata: DiscoveredFile | null;
}

export interface DiscoveredFile {
  path: FileUri;
  contents: string;
}

// --- http.json: Requests of HTTP

export interface HttpRequestParams {
  method: string;
  /** http or https. */
  url: string;
  /** At most 1,024 bytes; not in use by another stream of the connection. */
  requestId: string;
  headers?: HttpRequestHeader[];
  bodyBase64?: Base64 | null;
  /** Bounds the whole, redirects and body included. */
  timeoutMs?: Uint64 | null;
  /** follow is the default. */
  redirectPolicy?: "follow" | "stop";
  /** The body follows the answer as http/request/bodyDelta. */
  streamResponse?: boolean;
}

export interface HttpRequestHeader {
  name: string;
  value: string;
  /** A variable of the server whose value is put behind value. */
  valueEnvVar?: string | null;
}

export interface HttpRequestResult {
  status: number;
  /** Repeats are kept. */
  headers: HttpHeader[];
  /** Empty with streamResponse. */
  bodyBase64: Base64;
}

export interface HttpHeader {
  /** In lower case. */
  name: string;
  value: string;
}

export interface HttpRequestErrorData extends ErrorData {
  /** The body does not fit into one message to this client. */
  reason?: "answerTooLarge";
}

export interface HttpRequestBodyDeltaParams {
  requestId: string;
  /** From 1, without holes. */
  seq: number;
  /** At most 1 MiB of the body. */
  deltaBase64: Base64;
  /** This is the last one. */
  done: boolean;
  /** In the last one: why the body is not whole. */
  error: string | null;
}

// --- common.json: Parts of params and results

/** An absolute path of the server's machine, taken byte for byte, or a file: URI. */
export type Path = string;

/** A path in an answer. What is not UTF-8 is percent-encoded. */
export type FileUri = string;

/** Standard alphabet, padding required, no white space, unused bits zero. */
export type Base64 = string;

/** May be larger than what a double holds exactly. */
export type Uint64 = number;

/** Milliseconds since 1970. */
export type TimeMs = number;

/** Permission bits with set-uid, set-gid and sticky, as a number. */
export type FileMode = number;

/** The params of methods that have none. */
export type NoParams = null | Record<string, never>;

/** A result that says only that it is done. */
export type Empty = Record<string, unknown>;

/** A policy in place of a profile; it is mapped to one. */
export interface OldSandbox {
  sandboxPolicy: SandboxPolicy;
  sandboxPolicyCwd?: Path | null;
  permissions?: null;
  fileSystemSandboxPolicy?: null;
  additionalPermissions?: null;
}

/** A permission profile to enforce, or null for none. */
export type Sandbox = SandboxContext | OldSandbox | null;

/**
 * Farhand alone. The rule of the permission profile that was the reason of an error; an error without it has another
 * reason.
 */
export interface Denied {
  /** What the profile refuses; to make, rename or remove is to write. */
  operation: "read" | "write";
  /** What it refuses it for: where the links that could be followed have led. */
  path: FileUri;
  /**
   * readOnly: nothing may be written. outside: it may only be read, other paths may be written. noEntry: no entry names
   * it. entry: an entry refuses it. protected: a protected name in a writable directory, or what such a name points at.
   * pattern: it matches a denied pattern. own: it belongs to the sandbox or to the server, whatever the profile says.
   */
  rule: "readOnly" | "outside" | "noEntry" | "entry" | "protected" | "pattern" | "own";
  /** The path of the entry or of the protected name, links resolved, or the pattern. */
  entry?: string;
}

export interface ShellInfo {
  /** bash, zsh, sh. */
  name: string;
  path: string;
}

// --- sandbox.json: The sandbox object of fs/* and process/start

/** Members that are not known are ignored, but for those of older clients that asked for a sandbox. */
export interface SandboxContext {
  permissions: {
    type: "managed";
    file_system: {
      type: "restricted";
      entries: ProfileWireEntries;
      glob_scan_max_depth?: ProfileGlobDepth;
    } | ProfileUnrestrictedFiles;
    network: ProfileNetwork;
  } | ProfileDisabled & {
    network?: ProfileNetwork | null;
  } | ProfileExternal | {
    network?: ProfileUntaggedNetwork;
    file_system?: ProfileUntaggedWireFiles;
  };
  cwd?: ProfileWirePath | null;
  /** When it is absent the cwd stands in for it. */
  workspaceRoots?: ProfileWirePath[];
  sandboxOverride?: "noOverride" | "escalatedSandboxWithRestrictions" | "bypassSandboxFirstAttempt";
  userHomeDir?: ProfileWirePath | null;
  temporaryDirectories?: ProfileWirePath[] | null;
  windowsSandboxLevel?: "disabled" | "restricted-token" | "elevated" | "mxc";
  windowsSandboxPrivateDesktop?: boolean | null;
  windowsSandboxProxySettingsMode?: "reconcile" | "preserve" | null;
  useLegacyLandlock?: boolean;
}

// --- profile.json: Permission profile, as stored

/** Members that are not known are ignored. The older form without `type` is profile-untagged.json. */
export type PermissionProfile = {
  type: "managed";
  file_system: {
    type: "restricted";
    entries: ProfileStoredEntries;
    glob_scan_max_depth?: ProfileGlobDepth;
  } | ProfileUnrestrictedFiles;
  network: ProfileNetwork;
} | ProfileDisabled | ProfileExternal;

// --- profile-untagged.json: Permission profile from before the tag, as stored

/** Always managed and restricted: without file_system nothing is granted. */
export interface UntaggedPermissionProfile {
  network?: ProfileUntaggedNetwork;
  file_system?: ProfileUntaggedStoredFiles;
}

// --- entries.json: Parts of permission profiles

/** Plain and absolute. A path of Windows is kept and matches nothing here. */
export type ProfileStoredPath = string;

/** A file: URI of this host, or a plain absolute path. */
export type ProfileWirePath = string;

export type ProfileText = string;

/** none is an older name of deny. */
export type ProfileAccess = "read" | "write" | "deny" | "none";

export type ProfileNetwork = "restricted" | "enabled";

/** How far below its fixed part a pattern is looked for; absent: no bound. */
export type ProfileGlobDepth = number | null;

export interface ProfileSpecial {
  /** current_working_directory is an older name of project_roots. */
  kind: "root" | "minimal" | "current_working_directory" | "project_roots" | "tmpdir" | "slash_tmp" | "unknown";
  subpath?: ProfileText | null;
  path?: string;
}

export interface ProfileGlobTarget {
  type: "glob_pattern";
  pattern: ProfileText;
}

export interface ProfileSpecialTarget {
  type: "special";
  value: ProfileSpecial;
}

export type ProfileStoredTarget = {
  type: "path";
  path: ProfileStoredPath;
} | ProfileGlobTarget | ProfileSpecialTarget;

export type ProfileWireTarget = {
  type: "path";
  path: ProfileWirePath;
} | ProfileGlobTarget | ProfileSpecialTarget;

export interface ProfileEntry {
  access: ProfileAccess;
  missing_path_behavior?: "skip" | null;
  path: unknown;
}

export type ProfileStoredEntries = (ProfileEntry & {
  path?: ProfileStoredTarget;
})[];

export type ProfileWireEntries = (ProfileEntry & {
  path?: ProfileWireTarget;
})[];

export type ProfileUntaggedNetwork = {
  enabled?: boolean | null;
} | null;

export type ProfileUntaggedStoredFiles = null | {
  entries: ProfileStoredEntries;
  glob_scan_max_depth?: ProfileGlobDepth;
} | {
  read?: ProfileStoredPath[] | null;
  write?: ProfileStoredPath[] | null;
};

export type ProfileUntaggedWireFiles = null | {
  entries: ProfileWireEntries;
  glob_scan_max_depth?: ProfileGlobDepth;
} | {
  read?: ProfileWirePath[] | null;
  write?: ProfileWirePath[] | null;
};

export interface ProfileUnrestrictedFiles {
  type: "unrestricted";
  entries?: null;
}

/** No sandbox at all. */
export interface ProfileDisabled {
  type: "disabled";
  file_system?: null;
}

/** Somebody else isolates the files. */
export interface ProfileExternal {
  type: "external";
  network: ProfileNetwork;
  file_system?: null;
}

// --- additional-permissions.json: Additional permissions: an overlay over a profile

/** What is not mentioned stays as the profile says. A pattern can only deny. */
export interface AdditionalPermissions {
  network?: ProfileUntaggedNetwork;
  file_system?: ProfileUntaggedStoredFiles;
}

// --- sandbox-policy.json: Sandbox policy of older clients, in both spellings

/** The tag and the members are of the same spelling; members that are not known are refused. */
export type SandboxPolicy =
  | PolicyFullAccess
  | PolicyFullAccessApp
  | PolicyReadOnly
  | PolicyReadOnlyApp
  | PolicyExternal
  | PolicyExternalApp
  | PolicyWorkspaceWrite
  | PolicyWorkspaceWriteApp;

export type PolicyRoots = ProfileStoredPath[];

/** What may be read; absent: everything. include_platform_defaults is true when absent. */
export type PolicyReadAccess = {
  type: "full-access";
} | {
  type: "restricted";
  include_platform_defaults?: boolean;
  readable_roots?: PolicyRoots;
};

export type PolicyReadAccessApp = {
  type: "fullAccess";
} | {
  type: "restricted";
  includePlatformDefaults?: boolean;
  readableRoots?: PolicyRoots;
};

export interface PolicyFullAccess {
  type: "danger-full-access";
}

export interface PolicyFullAccessApp {
  type: "dangerFullAccess";
}

export interface PolicyReadOnly {
  type: "read-only";
  access?: PolicyReadAccess;
  network_access?: boolean;
}

export interface PolicyReadOnlyApp {
  type: "readOnly";
  access?: PolicyReadAccessApp;
  networkAccess?: boolean;
}

export interface PolicyExternal {
  type: "external-sandbox";
  network_access?: ProfileNetwork;
}

export interface PolicyExternalApp {
  type: "externalSandbox";
  networkAccess?: ProfileNetwork;
}

export interface PolicyWorkspaceWrite {
  type: "workspace-write";
  writable_roots?: PolicyRoots;
  read_only_access?: PolicyReadAccess;
  network_access?: boolean;
  exclude_tmpdir_env_var?: boolean;
  exclude_slash_tmp?: boolean;
}

export interface PolicyWorkspaceWriteApp {
  type: "workspaceWrite";
  writableRoots?: PolicyRoots;
  readOnlyAccess?: PolicyReadAccessApp;
  networkAccess?: boolean;
  excludeTmpdirEnvVar?: boolean;
  excludeSlashTmp?: boolean;
}
