// Which programs machines get, by what their os-release says.
"use strict";
const assert = require("node:assert");
const { test } = require("node:test");
const { BASHES, bashFor, readOsRelease, targetOf } = require("../lib/select.js");

// From the systems' own files, cut to what matters.
const SAMPLES = [
    ["ubuntu-24.04", 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nNAME="Ubuntu"\nVERSION_ID="24.04"\nID=ubuntu\nID_LIKE=debian\n'],
    ["ubuntu-22.04", 'VERSION_ID="22.04"\nID=ubuntu\nID_LIKE=debian\n'],
    ["ubuntu-20.04", 'ID=ubuntu\nID_LIKE=debian\nVERSION_ID="20.04"\n'],
    ["debian-12", 'PRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\nVERSION_ID="12"\nID=debian\n'],
    ["debian-11", 'ID=debian\nVERSION_ID="11"\n'],
    ["centos-9", 'ID="centos"\nID_LIKE="rhel fedora"\nVERSION_ID="9"\n'],
    ["centos-9", 'ID="rocky"\nID_LIKE="rhel centos fedora"\nVERSION_ID="9.4"\n'],
    ["centos-9", "ID='almalinux'\nVERSION_ID='9.3'\n"],
    // The same family, another version: the first of the family.
    ["ubuntu-24.04", "ID=ubuntu\nID_LIKE=debian\nVERSION_ID=25.10\n"],
    ["debian-12", "ID=debian\nVERSION_ID=13\n"],
    ["debian-12", "ID=debian\n"],
    ["centos-9", 'ID="rhel"\nVERSION_ID="8.10"\n'],
    // A derivative is of the family that it names.
    ["ubuntu-22.04", 'ID=pop\nID_LIKE="ubuntu debian"\nVERSION_ID="22.04"\n'],
    ["ubuntu-24.04", 'ID=linuxmint\nID_LIKE="ubuntu debian"\nVERSION_ID="22"\n'],
    ["debian-12", "ID=raspbian\nID_LIKE=debian\nVERSION_ID=12\n"],
    // Debian's version counts for a system that is like both.
    ["debian-12", 'ID=x\nID_LIKE="ubuntu debian"\nVERSION_ID=12\n'],
    // No family: the first.
    ["ubuntu-24.04", "ID=arch\n"],
    ["ubuntu-24.04", "ID=fedora\nVERSION_ID=40\n"],
    ["ubuntu-24.04", ""],
    ["ubuntu-24.04", "\0\nID\n=x\nid=debian\n#ID=debian\n"],
    // Case and blanks.
    ["debian-11", ' ID="DEBIAN" \n  VERSION_ID=11\r\n'],
];

for (const [name, text] of SAMPLES)
    test(`${name} for ${JSON.stringify(text)}`, () => assert.strictEqual(bashFor(readOsRelease(text)), name));

test("targets", () => {
    assert.strictEqual(targetOf("linux", "x64"), "x86_64-linux");
    assert.strictEqual(targetOf("linux", "arm64"), "aarch64-linux");
    for (const [platform, arch] of [["linux", "ia32"], ["darwin", "arm64"], ["win32", "x64"], ["linux", "constructor"]])
        assert.ok(!targetOf(platform, arch), `${platform} ${arch}`);
});

test("the builds are those of the reference's package", () =>
    assert.deepStrictEqual(BASHES.map((bash) => bash.name), ["ubuntu-24.04", "ubuntu-22.04", "ubuntu-20.04", "debian-12", "debian-11", "centos-9"]));
