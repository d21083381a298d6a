#!/usr/bin/python3
"""patch.py [--rounds N] [--rows NAME,…] [--json FILE]: times apply_patch beside that of the reference, which REFERENCE names.

Small patches: an update of a source file of 20 KiB in three places, and a new file. Here, both are programs that are started for one patch. Far
away ours speaks to a server on loopback; the reference's program is run by the reference's own server, because it has no other way on the command
line. The large target has 1 GiB of lines; the reference refuses files above 512 MiB. Without REFERENCE only ours is measured.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

from cli import FARHAND, Row, farhand_server, show

LARGE_BYTES = 1 << 30
LINE = "this is the ordinary line number %08d of a file that a patch changes\n"
REFERENCE = os.environ.get("REFERENCE")


def source_lines(count):
    return "".join(LINE % i for i in range(count))


def update(path, numbers):
    return f"*** Update File: {path}\n" + "".join(f"@@\n-{LINE % i}+changed {i}\n" for i in numbers)


class Folder:
    """A directory with the programs under the names by which they are called. Makes targets there, and patches for them."""

    def __init__(self, folder):
        self.folder = folder
        for name, program in (("ours", FARHAND), ("theirs", REFERENCE)):
            os.mkdir(f"{folder}/{name}")
            if program:
                os.symlink(os.path.abspath(program), f"{folder}/{name}/apply_patch")
        self.ours, self.theirs = f"{folder}/ours/apply_patch", f"{folder}/theirs/apply_patch"
        self.small = source_lines(300)

    def small_patch(self, target):
        with open(f"{target}/f", "w", encoding="ascii") as f:
            f.write(self.small)
        return f"*** Begin Patch\n{update(f'{target}/f', (10, 150, 290))}*** Add File: {target}/new\n+a new file\n*** End Patch"

    def large_patch(self, target):
        with open(f"{target}/f", "w", encoding="ascii") as f:
            for start in range(0, LARGE_BYTES // len(LINE % 0), 100000):
                f.write("".join(LINE % i for i in range(start, start + 100000)))
        return f"*** Begin Patch\n{update(f'{target}/f', (10, 7000000))}*** End Patch"


def is_done(target):
    with open(f"{target}/f", encoding="ascii") as f:
        return any(line == "changed 10\n" for line in f)


@contextlib.contextmanager
def reference_server(folder):
    if not REFERENCE:
        yield None
        return
    os.mkdir(f"{folder}/home")
    server = subprocess.Popen([REFERENCE, "exec-server", "--listen", "ws://127.0.0.1:0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              text=True, env={**os.environ, "CODEX_HOME": f"{folder}/home"})
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait()


def with_reference(contenders, name, make):
    return {**contenders, name: make} if REFERENCE else contenders


def rows(made, url, reference_url):
    folder, third = made.folder, {"farhand": 1 / 3}
    yield Row("patch-here", "`apply_patch`, a small patch here",
              with_reference({"farhand": lambda t: [made.ours, made.small_patch(t)]}, "reference",
                             lambda t: [made.theirs, made.small_patch(t)]), third, folder, is_done, repeat=10)
    far = [FARHAND, "apply-patch", "--url", url, "-C", "/"]
    yield Row("patch-far", "`apply-patch`, a small patch through a server",
              with_reference({"farhand": lambda t: [*far, made.small_patch(t)]}, "reference", lambda t: [
                  FARHAND, "run", "-n", "--url", reference_url, "-C", "/", "--", made.theirs, made.small_patch(t)]), third, folder, is_done, repeat=10)
    yield Row("patch-large", "`apply_patch`, a target of 1 GiB",
              {"farhand": lambda t: [made.ours, made.large_patch(t)], "farhand, a server": lambda t: [*far, made.large_patch(t)]},
              {}, folder, is_done, is_large=True)


def main():
    parser = argparse.ArgumentParser(description="Times apply_patch beside that of the reference.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--rows", default="")
    parser.add_argument("--json")
    args = parser.parse_args()
    results = []
    if not REFERENCE:
        print("patches are not compared: REFERENCE names no program")
    with tempfile.TemporaryDirectory(prefix="fh-bench-", dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        os.environ["XDG_STATE_HOME"] = f"{folder}/state"  # records of these patches are nobody's
        with farhand_server() as url, reference_server(folder) as reference_url:
            print("| work | contender | time | memory | ratio, goal |\n| --- | --- | --: | --: | --- |")
            for row in rows(Folder(folder), url, reference_url):
                if not args.rows or row.name in args.rows.split(","):
                    results.append(row.measure(args.rounds if row.repeat > 1 else min(args.rounds, 3)))
                    show(results[-1])
                    shutil.rmtree(f"{folder}/{row.name}", ignore_errors=True)
    if args.json:
        with open(args.json, "w", encoding="ascii") as f:
            json.dump(results, f, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
