#!/usr/bin/env node
// farhand-names [--remove] NAME [DIRECTORY]: makes, or removes, a command of another name that this package can be called by.
"use strict";
const fs = require("node:fs");
const path = require("node:path");

const NAMES = { "codex-exec-mcp-server": path.join(__dirname, "codex-exec-mcp-server.js") };

function fail(text, code = 1) {
    console.error(`farhand-names: ${text}`);
    process.exit(code);
}

/** What the name leads to now: the path that a link has, null where there is nothing, or false for anything else. */
function leadsTo(link) {
    const st = fs.lstatSync(link, { throwIfNoEntry: false });
    return !st ? null : st.isSymbolicLink() && path.resolve(path.dirname(link), fs.readlinkSync(link));
}

const words = process.argv.slice(2);
const removes = words[0] === "--remove";
const [name, directory, ...more] = removes ? words.slice(1) : words;
if (!Object.hasOwn(NAMES, name ?? "") || more.length > 0)
    fail(`usage: farhand-names [--remove] NAME [DIRECTORY]\nThe names are: ${Object.keys(NAMES).join(", ")}`, 2);

// Without a directory: where npm has put the link that this program was called by.
const link = path.join(path.resolve(directory ?? path.dirname(process.argv[1])), name);
const is = leadsTo(link);
if (is !== null && is !== NAMES[name])
    fail(`${link} is there already, and is not ours`);
if (removes && is)
    fs.unlinkSync(link);
else if (!removes && !is)
    fs.symlinkSync(path.relative(fs.realpathSync(path.dirname(link)), fs.realpathSync(NAMES[name])), link);
console.log(`${link}${removes ? (is ? " is removed" : " was not there") : ` -> ${NAMES[name]}`}`);
