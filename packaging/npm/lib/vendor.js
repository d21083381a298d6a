// vendor: where the programs of this package lie on this machine. Ends the process with a sentence when there are none for it.
"use strict";
const fs = require("node:fs");
const path = require("node:path");
const { bashFor, readOsRelease, targetOf } = require("./select.js");

function fail(text) {
    console.error(`farhand: ${text}`);
    process.exit(1);
}

/** The path of a program, or of the directory of all of them. */
function vendor(name = "") {
    const target = targetOf(process.platform, process.arch);
    if (!target)
        fail(`there are no programs for ${process.platform} on ${process.arch}: Linux on x64 or arm64 is needed`);
    const found = path.join(__dirname, "..", "vendor", target, name);
    if (!fs.existsSync(found))
        fail(`this package lacks ${found}`);
    return found;
}

/** The Bash that asks before it executes. Where its build is not in the package it is the Bash of the machine: our server sees to what any shell
 *  starts, and does not need a patched one. */
function bashOf(directory) {
    let text = "";
    try {
        text = fs.readFileSync("/etc/os-release", "utf8");
    } catch {
        // the first build, then
    }
    const built = path.join(directory, "bash", bashFor(readOsRelease(text)), "bash");
    return fs.existsSync(built) ? built : process.env.CODEX_BASH_PATH || "/bin/bash";
}

module.exports = { bashOf, vendor };
