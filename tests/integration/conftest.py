"""Fixtures of the integration tests. FARHAND_BIN names the binary, FARHAND_SLOW=1 runs the tests marked slow, FARHAND_SCHEMA=1
holds every message against docs/schema."""

import os
import shutil
import signal
import tempfile

import pytest

from farhand_client import BIN, WITNESSES, Client, Server


def heed_signals():
    """Gives a handler that does nothing to each signal that the caller ignores (`make test &` in a script: SIGINT, SIGQUIT; nohup:
    SIGHUP). Children would inherit that it is ignored, and tests would wait for ever; a handler is reset by execve."""
    for signo in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these itself
        if signal.getsignal(signo) == signal.SIG_IGN:
            signal.signal(signo, lambda *_: None)


def pytest_configure(config):
    heed_signals()
    config.addinivalue_line("markers", "slow: waits for an expiry of 10 s or more; needs FARHAND_SLOW=1")
    if not os.access(BIN, os.X_OK):
        pytest.exit(f"no server binary at {BIN}; build it or set FARHAND_BIN", returncode=2)


def pytest_collection_modifyitems(items):
    if os.environ.get("FARHAND_SLOW") == "1":
        return
    skip = pytest.mark.skip(reason="slow: set FARHAND_SLOW=1")
    for item in items:
        if "slow" in item.keywords:
            item.add_marker(skip)


@pytest.fixture(scope="module")
def server():
    with Server() as s:
        yield s


@pytest.fixture
def client(server):
    with Client(server.url) as c:
        yield c
        assert not c.bad, f"messages that no server may send: {c.bad[:3]}"


@pytest.fixture(autouse=True)
def witnessed():
    yield
    found = [witness.faults.pop() for witness in WITNESSES for _ in range(len(witness.faults))]
    assert not found, "messages that docs/schema does not allow:\n" + "\n".join(found[:5])


@pytest.fixture
def tmp():
    # Short names: the path of a unix socket has 107 bytes at most.
    path = tempfile.mkdtemp(prefix="fh-")
    yield path
    shutil.rmtree(path, ignore_errors=True)
