// Drives `farhand mcp` with the client of the official SDK, and prints what it saw as one JSON object.
// usage: node mcp_client.mjs SDK FARHAND|URL WORK OUTSIDE
import { readdirSync } from "node:fs";
import net from "node:net";
import { pathToFileURL } from "node:url";

const [sdk, farhand, work, outside] = process.argv.slice(2);
const { Client } = await import(pathToFileURL(sdk + "/dist/esm/client/index.js"));
const { StdioClientTransport } = await import(pathToFileURL(sdk + "/dist/esm/client/stdio.js"));
const types = await import(pathToFileURL(sdk + "/dist/esm/types.js"));

const saw = { latest: types.LATEST_PROTOCOL_VERSION, supported: types.SUPPORTED_PROTOCOL_VERSIONS, questions: [], errors: [] };
let roots = [work], decision = "once";
const client = new Client({ name: "test", version: "0" }, { capabilities: { roots: { listChanged: true }, elicitation: {} } });
client.onerror = (error) => saw.errors.push(String(error));
client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: roots.map((path) => ({ uri: pathToFileURL(path).href, name: "root" })) }));
client.setRequestHandler(types.ElicitRequestSchema, (request) => {
    saw.questions.push(request.params.message);
    return decision === "decline" ? { action: "decline" } : { action: "accept", content: { decision } };
});

// Over HTTP there is a proxy before the server, which can cut all connections.
const isHttp = farhand.startsWith("http:"), sockets = new Set();
const cut = () => sockets.forEach((socket) => socket.destroy());
const connectHttp = async () => {
    const { StreamableHTTPClientTransport } = await import(pathToFileURL(sdk + "/dist/esm/client/streamableHttp.js"));
    const url = new URL(farhand), { port, hostname } = url;
    const proxy = net.createServer((near) => {
        const far = net.connect(port, hostname);
        for (const [from, to] of [[near, far], [far, near]]) {
            sockets.add(from);
            from.on("error", () => to.destroy()).on("close", () => { sockets.delete(from); to.destroy(); }).pipe(to);
        }
    });
    await new Promise((done) => proxy.listen(0, "127.0.0.1", done));
    proxy.unref();
    url.port = proxy.address().port;
    return new StreamableHTTPClientTransport(url, { reconnectionOptions: {
        initialReconnectionDelay: 100, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 2, maxRetries: 20 } });
};
const transport = isHttp ? await connectHttp()
    : new StdioClientTransport({ command: farhand, args: ["mcp", "--env", "local"], cwd: "/", env: process.env });
await client.connect(transport);

const run = (cmd, more = {}, options = {}) =>
    client.callTool({ name: "exec_command", arguments: { cmd, login: false, yield_time_ms: 30000, ...more } }, undefined, options);
const output = async (...args) => (await run(...args)).structuredContent.output;

saw.server = client.getServerVersion();
saw.instructions = client.getInstructions();
saw.tools = (await client.listTools()).tools.map((tool) => tool.name);
await client.ping();
saw.pwd = await output("pwd");

// A session on a terminal
const session = (await run("read name; echo hello $name; exit 5", { tty: true, yield_time_ms: 250 })).structuredContent.session_id;
saw.session = (await client.callTool({ name: "write_stdin", arguments: { session_id: session, chars: "you\n", yield_time_ms: 30000 } })).structuredContent;

// A patch
await client.callTool({ name: "apply_patch", arguments: { input: "*** Begin Patch\n*** Add File: patched\n+x\n*** End Patch\n" } });

// Questions
saw.approved = (await run(`touch ${outside}/approved`)).structuredContent.exit_code;
decision = "decline";
saw.declined = (await run(`touch ${outside}/declined`)).structuredContent.exit_code;

// Text of Bash, with a question of the rules about a forced removal
decision = "once";
const bash = (command) => client.callTool({ name: "shell", arguments: { command, workdir: work, login: false, timeout_ms: 60000 } });
saw.shell = (await bash("echo out; echo err >&2; exit 3")).structuredContent;
saw.removal = (await bash("mkdir d; rm -rf d; ls -d d; echo $?")).structuredContent;

// Files
const tool = async (name, args) => await client.callTool({ name, arguments: args });
saw.written = (await tool("write_file", { path: "file", content: "one\ntwo\n" })).structuredContent.size;
saw.read = (await tool("read_file", { path: "file", offset: 2 })).structuredContent.text;
saw.list = (await tool("list_directory", { path: "." })).structuredContent.entries.map((entry) => entry.name);
await run("printf 'GIF89a' >image");
saw.image = (await tool("view_image", { path: "image" })).content;
await run("rm file image");

// Roots
roots = [outside];
await client.sendRootsListChanged();
saw.moved = await output("touch in-the-new-root; pwd");

// Side by side, with progress and a cancellation
const told = [];
const stuck = new AbortController();
const gone = run("sleep 1000", {}, { signal: stuck.signal }).then(() => "answered", (error) => String(error));
const slow = output("echo working; sleep 2.5", {}, { onprogress: (progress) => told.push(progress) });
saw.parallel = (await Promise.all(Array.from({ length: 40 }, (_, n) => output(`echo ${n}`)))).join("");
saw.slow = await slow;
saw.progress = told;
stuck.abort("enough");
saw.gone = await gone;
saw.after = await output("echo done");

// Errors
saw.failed = (await client.callTool({ name: "exec_command", arguments: {} })).isError;
saw.unknown = await client.callTool({ name: "nope", arguments: {} }).then(() => null, (error) => error.code);
saw.outside = readdirSync(outside).sort();
saw.work = readdirSync(work).sort();

// Streams that are cut are resumed: that of a call, with what came before and after the cut, and the one for what belongs to no call
if (isHttp) {
    client.onerror = () => {};
    const before = [], after = [];
    let isCut = false;
    saw.resumed = await output("echo first; sleep 3; echo second", {}, { onprogress: (progress) => {
        (isCut ? after : before).push(progress);
        if (!isCut)
            cut();
        isCut = true;
    } });
    saw.around = [before.length, after.length];
    roots = [work];
    await client.sendRootsListChanged();
    saw.back = await output("pwd");
    saw.session_id = transport.sessionId;
    await transport.terminateSession();
    saw.terminated = await fetch(farhand, { method: "GET", headers: { accept: "text/event-stream", "mcp-session-id": saw.session_id } }).then((r) => r.status);
}
await client.close();
console.log(JSON.stringify(saw));
process.exit(0);
