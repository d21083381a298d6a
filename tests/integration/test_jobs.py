"""Requests that wait: what they hold in memory, what they hold back, and what becomes of them when something ends."""

import pytest

from farhand_client import Server
from fs_helpers import IS_SANITIZED, MIB, make, noise, send, status_kib

# Memory that nobody accounts for


@pytest.mark.skipif(IS_SANITIZED, reason="the sanitizer keeps freed memory")
def test_small_answers_that_nobody_reads_hold_no_large_buffers(tmp):
    """A buffer that a large answer has left is the next answer's; one of a few bytes must not keep it."""
    make(f"{tmp}/large", noise(MIB))
    make(f"{tmp}/larger", noise(16 * MIB))
    with Server() as server, server.connect() as reader, server.connect() as idler:
        for client in reader, idler:
            client.result(send(client, "open", handleId="h", path=f"{tmp}/large"))
        idler.pause_reading()
        send(idler, "readFile", path=f"{tmp}/larger")  # more than the kernel's buffers take: the others are behind it
        before = None
        for n in range(150):
            reader.result(send(reader, "readBlock", handleId="h", offset=0, len=MIB))
            send(idler, "readBlock", handleId="h", offset=0, len=1)
            before = before or (n == 10 and status_kib(server.proc.pid, "VmRSS"))
        assert status_kib(server.proc.pid, "VmRSS") - before < 32 * 1024
        idler.abort()
