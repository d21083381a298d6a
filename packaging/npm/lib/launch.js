// launch: starts the program of this machine in the place of the launcher: the same streams, the signals that come, and the same end.
"use strict";
const { spawn } = require("node:child_process");
const os = require("node:os");
const { vendor } = require("./vendor.js");

const FORWARDED = ["SIGINT", "SIGTERM", "SIGHUP"];

/** Ends as the child has ended. */
function end(code, signal) {
    if (signal) {
        FORWARDED.forEach((name) => process.removeAllListeners(name));
        process.kill(process.pid, signal);
        // A signal that node ignores has not ended us.
        setTimeout(() => process.exit(128 + os.constants.signals[signal]), 100);
        return;
    }
    process.exit(code);
}

function launch(name, args) {
    // The launcher may not know its own path when it is in a cache of npx: a client would start nothing from it later.
    if (args[0] === "mcp" && args[1] === "install" && __dirname.includes("/_npx/"))
        console.error("farhand: this copy lies in npx's cache, and may be gone tomorrow; `npm i -g farhand` makes one that stays");
    // Signals are heard before there is a child, and dealt with when there is one: handlers run from the event loop.
    for (const signal of FORWARDED)
        process.on(signal, () => {
            // A terminal sends what is typed there to the child as well.
            if (!(signal === "SIGINT" && process.stdin.isTTY))
                child.kill(signal);
        });
    const child = spawn(vendor("farhand"), args, { argv0: name, stdio: "inherit" });
    child.on("error", (error) => {
        console.error(`farhand: ${error.message}`);
        process.exit(1);
    });
    child.on("exit", end);
}

module.exports = { launch };
