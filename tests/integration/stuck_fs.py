#!/usr/bin/python3
"""stuck_fs.py DIRECTORY: a FUSE file system whose files misbehave, spoken to the kernel without any library.

It must run in a mount namespace of its own, as root. It says "ready" when it is mounted, and serves until its stdin
ends; each line there lets go of everything that is held. The name says what a file does:

    plain   behaves                     stuck…  cannot be looked up until let go
    slow…   cannot be read until then   eio     fails every read
    half    fails from its middle on    short   ends in its middle, though its size says otherwise
    kept…   small, and the kernel may keep what it knows of it for an hour
"""

import ctypes
import errno
import os
import select
import stat
import struct
import sys

SIZE = 8 * 1024 * 1024
LOOKUP, FORGET, GETATTR, SETATTR, OPEN, READ, STATFS, RELEASE = 1, 2, 3, 4, 14, 15, 17, 18
FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, INTERRUPT, BATCH_FORGET = 25, 26, 27, 28, 29, 36, 42
PARALLEL_DIROPS = 1 << 18
DIRECT_IO = 1
IN_HEADER = struct.Struct("<IIQQIIIHH")
KINDS = ("plain", "stuck", "slow", "eio", "half", "short", "kept")
KEPT_SIZE, KEPT_S = 1000, 3600


class StuckFs:
    def __init__(self, fd):
        self.fd = fd
        self.names = {1: ""}
        self.held = []
        self.is_open = False

    def node_of(self, name):
        for node, known in self.names.items():
            if known == name:
                return node
        node = len(self.names) + 1
        self.names[node] = name
        return node

    def is_kept(self, node):
        return self.names.get(node, "").startswith("kept")

    def valid_s(self, node):
        return KEPT_S if self.is_kept(node) or node == 1 else 0

    def attributes(self, node):
        mode = stat.S_IFDIR | 0o755 if node == 1 else stat.S_IFREG | 0o644
        size = 4096 if node == 1 else KEPT_SIZE if self.is_kept(node) else SIZE
        return struct.pack("<6Q10I", node, size, size // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def answer(self, unique, data=b"", error=0):
        try:
            os.write(self.fd, struct.pack("<IiQ", 16 + len(data), -error, unique) + data)
        except FileNotFoundError:
            pass  # the request was interrupted meanwhile

    def serve_one(self):
        try:
            message = os.read(self.fd, 1 << 20)
        except BlockingIOError:
            return  # the process that asked was killed before the request was read
        _, opcode, unique, node, *_ = IN_HEADER.unpack_from(message)
        body = message[IN_HEADER.size:]
        if opcode in (FORGET, BATCH_FORGET, INTERRUPT):
            return
        name = self.names.get(node, "")
        if opcode == LOOKUP:
            name = body.rstrip(b"\0").decode(errors="replace")
        is_held = opcode == LOOKUP and name.startswith("stuck") or opcode == READ and name.startswith("slow")
        if is_held and not self.is_open:
            self.held.append((opcode, unique, node, name, body))
            print(f"held {name}", flush=True)
        else:
            self.act(opcode, unique, node, name, body)

    def act(self, opcode, unique, node, name, body):
        if opcode == INIT:
            self.answer(unique, struct.pack("<4I2H2I2H8I", 7, 31, 65536, PARALLEL_DIROPS, 64, 48, 131072, 1, 32, 0,
                                            *[0] * 8))
        elif opcode == LOOKUP and not name.startswith(KINDS):
            self.answer(unique, error=errno.ENOENT)
        elif opcode == LOOKUP:
            found = self.node_of(name)
            self.answer(unique, struct.pack("<4Q2I", found, 0, self.valid_s(found), self.valid_s(found), 0, 0) + self.attributes(found))
        elif opcode in (GETATTR, SETATTR):
            self.answer(unique, struct.pack("<QII", self.valid_s(node), 0, 0) + self.attributes(node))
        elif opcode in (OPEN, OPENDIR):
            self.answer(unique, struct.pack("<QII", 0, DIRECT_IO if opcode == OPEN and not self.is_kept(node) else 0, 0))
        elif opcode == READ:
            _, offset, size = struct.unpack_from("<QQI", body)
            self.read(unique, name, offset, size)
        elif opcode in (RELEASE, RELEASEDIR, FLUSH, READDIR):
            self.answer(unique)
        elif opcode == STATFS:
            self.answer(unique, bytes(80))
        else:
            self.answer(unique, error=errno.ENOSYS)

    def read(self, unique, name, offset, size):
        end = SIZE // 2 if name.startswith(("half", "short")) else KEPT_SIZE if name.startswith("kept") else SIZE
        if name.startswith("eio") or name.startswith("half") and offset >= end:
            self.answer(unique, error=errno.EIO)
        else:
            self.answer(unique, b"x" * max(0, min(size, end - offset)))

    def let_go(self):
        self.is_open = True
        held, self.held = self.held, []
        for request in held:
            self.act(*request)


def main():
    fd = os.open("/dev/fuse", os.O_RDWR)
    libc = ctypes.CDLL(None, use_errno=True)
    options = f"fd={fd},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    if libc.mount(b"stuck", os.fsencode(sys.argv[1]), b"fuse", 0, options) != 0:
        sys.exit(f"mount: {os.strerror(ctypes.get_errno())}")
    served = StuckFs(fd)
    served.serve_one()  # INIT comes before all else
    os.set_blocking(fd, False)  # a request can be withdrawn after select has announced it
    print("ready", flush=True)
    while True:
        ready, _, _ = select.select([fd, sys.stdin], [], [])
        if sys.stdin in ready:
            if not os.read(sys.stdin.fileno(), 100):
                return
            served.let_go()
        if fd in ready:
            served.serve_one()


if __name__ == "__main__":
    main()
