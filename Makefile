# Thin: every target is one call of meson (through scripts/build) or of a script. `make run` and `make test` do all
# set-up on a fresh Debian 12; everything is made under build/.

PREFIX       ?= /usr/local
DESTDIR      ?=
FUZZ_SECONDS ?= 60
ARGS         ?=

STATIC_MAX_BYTES = 2000000

.PHONY: all run test soak asan fuzz install static format bench check check-compilers valgrind clean build

all: build

build:
	@scripts/build build

run:
	@scripts/setup build
	@scripts/build build
	@exec build/farhand serve $(ARGS)

test:
	@scripts/setup test
	@scripts/build build
	@scripts/run-tests build

# Load and faults with larger numbers and another seed each time (FARHAND_SEED=N repeats one); about ten minutes.
soak:
	@scripts/setup test
	@scripts/build build
	@FARHAND_BIN=build/farhand FARHAND_SLOW=1 /usr/bin/python3 -m pytest -q -rP -p no:cacheprovider \
		tests/integration/test_load.py tests/integration/test_system_limits.py \
		tests/integration/test_cuts.py tests/integration/test_kill9.py

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

# REFERENCE=/path/to/codex measures the reference server beside ours; ARGS="--quick" and others: build/bench --help.
bench: static
	@scripts/build build
	@exec build/bench $(ARGS)

install:
	@scripts/build build
	@meson configure build -Dprefix='$(PREFIX)'
	@DESTDIR='$(DESTDIR)' meson install -C build --strip

static:
	@scripts/setup build
	@scripts/build build/static -Dstatic=true -Dtests=false
	@strip build/static/farhand
	@scripts/check-size build/static/farhand $(STATIC_MAX_BYTES)

format:
	@scripts/check-format --fix

check:
	@scripts/check-includes
	@scripts/check-format

check-compilers:
	@scripts/check-compilers

clean:
	rm -rf build
