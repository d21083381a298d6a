#!/usr/bin/env node
// The server under the name and with the options of the package @openai/codex-shell-tool-mcp. npm makes no link to it, because the
// name may be taken: farhand-names does, on request.
"use strict";
const { launch } = require("../lib/launch.js");
const { bashOf, vendor } = require("../lib/vendor.js");

const bash = bashOf(vendor());
const wrapper = vendor("farhand-execve-wrapper");
launch("codex-exec-mcp-server", ["--execve", wrapper, "--bash", bash, ...process.argv.slice(2)]);
