#!/usr/bin/env node
// farhand mcp, as a name of its own: for clients whose configuration takes a command without arguments.
"use strict";
const { launch } = require("../lib/launch.js");

launch("farhand", ["mcp", ...process.argv.slice(2)]);
