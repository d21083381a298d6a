"""Builds the programs of the tests of libfarhand: against the library of the build that is tested."""

import os
import subprocess

from farhand_client import PATIENCE, REPO

FOLDER = os.path.dirname(os.path.abspath(os.environ.get("FARHAND_BIN") or os.path.join(REPO, "build", "farhand")))
SHARED, STATIC = os.path.join(FOLDER, "libfarhand.so"), os.path.join(FOLDER, "libfarhand.a")
HAS_LIBRARY = os.path.exists(SHARED)


def is_sanitized():
    with open(SHARED, "rb") as f:
        return b"__asan_init" in f.read()


SANITIZED = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"] if HAS_LIBRARY and is_sanitized() else []


def build_host(folder):
    """Compiles library_host.c. Returns the program."""
    program = os.path.join(folder, "library_host")
    done = subprocess.run(["cc", "-g", "-Wall", "-Wextra", "-Werror", *SANITIZED, "-I", os.path.join(REPO, "include"), "-o", program,
                           os.path.join(REPO, "tests/integration/library_host.c"), "-L", FOLDER, "-lfarhand", f"-Wl,-rpath,{FOLDER}"],
                          capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return program
