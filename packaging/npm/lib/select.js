// select: which of the programs in vendor/ a machine gets. Reads no file and starts nothing, so that a test can ask for any machine.
"use strict";

/** The Bash builds, in the order in which they are looked through. */
const BASHES = [
    { name: "ubuntu-24.04", ids: ["ubuntu"], version: "24.04" },
    { name: "ubuntu-22.04", ids: ["ubuntu"], version: "22.04" },
    { name: "ubuntu-20.04", ids: ["ubuntu"], version: "20.04" },
    { name: "debian-12", ids: ["debian"], version: "12" },
    { name: "debian-11", ids: ["debian"], version: "11" },
    { name: "centos-9", ids: ["centos", "rhel", "rocky", "almalinux"], version: "9" },
];

/** The directory below vendor/ of a platform and an architecture, as node names them; null: there is none. */
function targetOf(platform, arch) {
    const machine = new Map([["x64", "x86_64"], ["arm64", "aarch64"]]).get(arch);
    return platform === "linux" && machine ? `${machine}-linux` : null;
}

/** What a file os-release says: os-release(5). */
function readOsRelease(text) {
    const found = {};
    for (const line of text.split("\n")) {
        const m = /^\s*([A-Z_]+)=(?:"([^"]*)"|'([^']*)'|(\S*))\s*$/.exec(line);
        if (m)
            found[m[1]] = m[2] ?? m[3] ?? m[4];
    }
    const words = (text) => (text ?? "").toLowerCase().split(/\s+/).filter(Boolean);
    return { ids: [...words(found.ID), ...words(found.ID_LIKE)], version: found.VERSION_ID ?? "" };
}

/** The name of the Bash build: that of the system and its version, or else the first of the same family, or else the first. */
function bashFor({ ids, version }) {
    const family = BASHES.filter((bash) => bash.ids.some((id) => ids.includes(id)));
    return (family.find((bash) => version.startsWith(bash.version)) ?? family[0] ?? BASHES[0]).name;
}

module.exports = { BASHES, bashFor, readOsRelease, targetOf };
