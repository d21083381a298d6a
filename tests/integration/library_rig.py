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


def build_program(folder, name):
    """Compiles one of the programs beside this file. Returns the program."""
    program = os.path.join(folder, name)
    done = subprocess.run(["cc", "-g", "-Wall", "-Wextra", "-Werror", *SANITIZED, "-I", os.path.join(REPO, "include"), "-o", program,
                           os.path.join(REPO, f"tests/integration/{name}.c"), "-L", FOLDER, "-lfarhand", f"-Wl,-rpath,{FOLDER}"],
                          capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return program


def build_host(folder):
    return build_program(folder, "library_host")
