"""libfarhand as other programs get it: what it exports, and that programs build against an installed copy and run."""

import json
import os
import re
import shutil
import subprocess
import tempfile

import pytest

from farhand_client import BIN, PATIENCE, REPO
from library_rig import FOLDER, HAS_LIBRARY, SANITIZED, SHARED, STATIC
from test_install import install

SECONDS = 60 * PATIENCE
pytestmark = pytest.mark.skipif(not HAS_LIBRARY, reason="not a build with the library")

def names(*args):
    """The names of nm's lines, without their versions."""
    done = subprocess.run(["nm", "--defined-only", *args], capture_output=True, text=True, timeout=SECONDS, check=True)
    return sorted(re.sub(r"@@FARHAND_0$", "", line.split()[2]) for line in done.stdout.splitlines()
                  if len(line.split()) == 3 and line.split()[1] != "A")


def listed():
    with open(os.path.join(REPO, "src/client/farhand.symbols"), encoding="utf-8") as f:
        return f.read().split()


def declared():
    with open(os.path.join(REPO, "include/farhand/farhand.h"), encoding="utf-8") as f:
        return sorted(re.findall(r"^FARHAND_API[^(]*?\b(farhand_\w+)\(", f.read(), re.M))


def test_the_list_has_what_the_header_declares():
    assert listed() == sorted(listed()) == declared()


def what_the_library_knows():
    """The sources of the library, where the names of methods and members stand in quotes, and its manual page."""
    with open(os.path.join(REPO, "man/farhand.3.scd"), encoding="utf-8") as f:
        known = f.read()
    for room in ("src/client", "src/question"):
        for name in os.listdir(os.path.join(REPO, room)):
            if name.endswith(".c") and not name.endswith("_test.c"):
                with open(os.path.join(REPO, room, name), encoding="utf-8") as f:
                    known += f.read()
    return known


def test_every_method_has_a_function_or_the_manual_says_why_not():
    with open(os.path.join(REPO, "docs/schema/index.json"), encoding="utf-8") as f:
        methods = json.load(f)["methods"]
    known = what_the_library_knows()
    assert not [method for method in methods if f'"{method}"' not in known and f"*{method}*" not in known]


def members_of(schema, folder, name):
    """The names of the members that a schema allows, also by reference. Those that must be null are left out."""
    if "$ref" in schema:
        where, _, at = schema["$ref"].partition("#")
        if where:
            with open(os.path.join(folder, where), encoding="utf-8") as f:
                return members_of(resolve(json.load(f), at), folder, where)
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            return members_of(resolve(json.load(f), at), folder, name)
    found = {key for key, value in schema.get("properties", {}).items() if value.get("type") != "null"}
    return found.union(*(members_of(part, folder, name) for key in ("allOf", "anyOf") for part in schema.get(key, [])))


def resolve(document, at):
    for part in at.strip("/").split("/"):
        document = document[part]
    return document


def test_every_param_is_written_by_a_function_or_the_manual_says_why_not():
    folder = os.path.join(REPO, "docs/schema")
    with open(os.path.join(folder, "index.json"), encoding="utf-8") as f:
        methods = json.load(f)["methods"]
    known = what_the_library_knows()
    wanted = {(method, member) for method, its in methods.items() for member in members_of(its["params"], folder, "index.json")}
    assert ("fs/writeFile", "ifMatch") in wanted and ("process/start", "limits") in wanted
    assert not {(method, member) for method, member in wanted if f'"{member}"' not in known and f"*{member}*" not in known}


def test_both_libraries_export_the_list_and_nothing_else():
    assert names("-D", SHARED) == listed()
    assert names("-g", STATIC) == listed()


def test_every_name_has_its_version_and_the_library_its_soname():
    done = subprocess.run(["readelf", "-W", "-d", "--dyn-syms", SHARED], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert "[libfarhand.so.0]" in done.stdout and "TEXTREL" not in done.stdout
    assert {line.split()[-1] for line in done.stdout.splitlines() if " farhand_" in line} == {f"{n}@@FARHAND_0" for n in listed()}


@pytest.fixture(scope="module")
def root():
    """The directory below which `make install` has put a copy. Programs find the library there by pkg-config only."""
    if not os.path.exists(os.path.join(FOLDER, "build.ninja")) or not shutil.which("meson") or not shutil.which("pkg-config"):
        pytest.skip("no meson or no pkg-config")
    with tempfile.TemporaryDirectory(prefix="fh-lib-") as path:
        prefix = install(FOLDER, path)
        [found] = [place for place, _, files in os.walk(prefix) if "farhand.pc" in files]
        yield path, found


def pkg_config(root, *args):
    env = {**os.environ, "PKG_CONFIG_PATH": root[1], "PKG_CONFIG_SYSROOT_DIR": root[0]}
    return subprocess.run(["pkg-config", *args, "farhand"], env=env, capture_output=True, text=True, timeout=SECONDS,
                          check=True).stdout.split()


def build(root, tmp, compiler, name, flags):
    shutil.copy(os.path.join(REPO, "tests/integration/library_program.c"), f"{tmp}/{name}")
    done = subprocess.run([compiler, "-Wall", "-Wextra", "-Werror", "-o", f"{tmp}/program", f"{tmp}/{name}", *flags], capture_output=True,
                          text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr
    lib = os.path.dirname(root[1])
    return subprocess.run([f"{tmp}/program", BIN], env={**os.environ, "LD_LIBRARY_PATH": lib}, capture_output=True, text=True,
                          timeout=SECONDS, check=False)


@pytest.mark.parametrize("compiler,name", [("cc", "program.c"), ("c++", "program.cc")])
def test_a_program_with_the_shared_library(root, tmp, compiler, name):
    if not shutil.which(compiler):
        pytest.skip(f"no {compiler}")
    quiet = ["-Wno-missing-field-initializers"] if compiler == "c++" else []  # the -Wextra of C++ wants every member
    done = build(root, tmp, compiler, name, pkg_config(root, "--cflags", "--libs") + SANITIZED + quiet)
    assert (done.stdout, done.returncode) == ("hello 3 15\n", 0), done.stderr
    needed = subprocess.run(["readelf", "-d", f"{tmp}/program"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    assert "libfarhand.so.0" in needed and "nettle" not in needed


def test_a_program_with_the_static_library(root, tmp):
    flags = pkg_config(root, "--static", "--cflags", "--libs")
    assert "-lnettle" in flags and "-pthread" in flags
    static = " ".join(flags).replace("-lfarhand", "-l:libfarhand.a").split()
    done = build(root, tmp, "cc", "program.c", static + SANITIZED)
    assert (done.stdout, done.returncode) == ("hello 3 15\n", 0), done.stderr
    needed = subprocess.run(["readelf", "-d", f"{tmp}/program"], capture_output=True, text=True, timeout=SECONDS, check=True).stdout
    assert "libfarhand" not in needed


def test_a_program_without_any_shared_library(root, tmp):
    if SANITIZED:
        pytest.skip("sanitizers need shared libraries")
    # A static libc says that getaddrinfo wants its shared libraries; that is a warning of the linker.
    done = build(root, tmp, "cc", "program.c", ["-static", *pkg_config(root, "--static", "--cflags", "--libs")])
    assert (done.stdout, done.returncode) == ("hello 3 15\n", 0), done.stderr
