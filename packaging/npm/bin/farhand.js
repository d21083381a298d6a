#!/usr/bin/env node
"use strict";
const { launch } = require("../lib/launch.js");

launch("farhand", process.argv.slice(2));
