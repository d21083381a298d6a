"""The inside of a World (world.py): runs as root of network and mount namespaces of its own, and is the whole internet there.

Every address is local, so whatever leaves a sandbox arrives here, at a service or before the eyes of the witness, which
writes down every packet. A name server answers the names below and writes down every question; only NAMES exist. Lines of JSON
on stdin are orders, lines on stdout are answers; the end of stdin ends everything.
"""

import asyncio
import ctypes
import json
import os
import socket
import ssl
import struct
import sys

MS_REC, MS_PRIVATE, MS_BIND = 0x4000, 1 << 18, 4096
RTM_NEWROUTE, RTM_NEWLINK = 24, 16
NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE = 1, 4, 0x400
RTN_LOCAL, RT_TABLE_LOCAL, RTA_OIF = 2, 255, 4
PACKET_OUTGOING, ETH_P_ALL = 4, 3
A, CNAME, AAAA, SVCB, HTTPS = 1, 5, 28, 64, 65

PUBLIC, OTHER, PUBLIC_6 = "93.184.216.34", "93.184.216.36", "2606:2800::34"
# name -> addresses, or lists of them for one question of its kind after another; None: no answer ever comes.
NAMES = {
    "good.test": [PUBLIC],
    "other.test": [OTHER],
    "*.sub.test": ["93.184.216.35"],
    "six.test": [PUBLIC_6],
    "both.test": [PUBLIC, PUBLIC_6],
    "priv.test": ["10.1.2.3"],
    "meta.test": ["169.254.169.254"],
    "loop.test": ["127.0.0.1"],
    "zero.test": ["0.0.0.0"],
    "mixed.test": ["10.1.2.3", PUBLIC],
    "mapped.test": ["::ffff:10.1.2.3"],
    "nat64.test": ["64:ff9b::a01:203"],
    "sixtofour.test": ["2002:a01:203::1"],
    "ula.test": ["fd00::1"],
    "alias.test": ["CNAME priv.test"],
    "chain.test": ["CNAME good.test"],
    "rebind.test": [[PUBLIC], ["127.0.0.1"]],
    "many.test": [f"93.184.{n // 200 + 1}.{n % 200 + 1}" for n in range(400)],
    "empty.test": [],
    "slow.test": None,
}

log = []
tasks = set()


def note(kind, **what):
    log.append({"kind": kind, **what})


def keep(coroutine):
    task = asyncio.ensure_future(coroutine)
    tasks.add(task)
    task.add_done_callback(tasks.discard)


# The machine


def netlink(kind, body):
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as s:
        s.bind((0, 0))
        s.send(struct.pack("=IHHII", 16 + len(body), kind, NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE, 1, 0) + body)
        answer = s.recv(4096)
        error = struct.unpack("=i", answer[16:20])[0]
        if error:
            raise OSError(-error, os.strerror(-error))


def make_everything_local():
    lo = socket.if_nametoindex("lo")
    netlink(RTM_NEWLINK, struct.pack("=BxHiII", socket.AF_UNSPEC, 0, lo, 1, 1))
    oif = struct.pack("=HHI", 8, RTA_OIF, lo)
    for family in (socket.AF_INET, socket.AF_INET6):
        scope = 254 if family == socket.AF_INET else 0
        try:
            netlink(RTM_NEWROUTE, struct.pack("=BBBBBBBBI", family, 0, 0, 0, RT_TABLE_LOCAL, 4, scope, RTN_LOCAL, 0) + oif)
        except OSError:
            if family == socket.AF_INET:
                raise
            note("no-ipv6")


def put_files(folder):
    libc = ctypes.CDLL(None, use_errno=True)

    def mount(source, target, flags):
        if libc.mount(source.encode(), target.encode(), None, flags, None) != 0:
            raise OSError(ctypes.get_errno(), f"mount {target}")

    mount("none", "/", MS_REC | MS_PRIVATE)
    for name, text in (("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n"),
                       ("hosts", "127.0.0.1 localhost\n::1 localhost\n93.184.216.34 hosts.test\n10.1.2.3 hosts-private.test\n"),
                       ("nsswitch.conf", "passwd: files\ngroup: files\nhosts: files dns\n")):
        target = os.path.realpath(f"/etc/{name}")
        if os.path.exists(target):
            with open(f"{folder}/{name}", "w", encoding="ascii") as f:
                f.write(text)
            mount(f"{folder}/{name}", target, MS_BIND)


# Names


def name_bytes(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.split(".") if part) + b"\0"


def answers_of(name, kind, asked):
    """The records of the answer: (owner, type, data). None: no answer; NotImplementedError: no such name."""
    known = NAMES.get(name, NAMES.get("*." + name.partition(".")[2], NotImplementedError))
    if known is None or known is NotImplementedError:
        return known
    if known and isinstance(known[0], list):
        known = known[min(asked, len(known) - 1)]
    records = []
    for value in known:
        if value.startswith("CNAME "):
            target = value.partition(" ")[2]
            records.append((name, CNAME, name_bytes(target)))
            records += answers_of(target, kind, asked) or []
        elif (":" in value) == (kind == AAAA) and kind in (A, AAAA):
            records.append((name, kind, socket.inet_pton(socket.AF_INET6 if kind == AAAA else socket.AF_INET, value)))
    return records


counts = {}


def dns_answer(query):
    """The answer to a packet, or None."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1:at + 1 + query[at]].decode("latin-1"))
        at += 1 + query[at]
    kind = struct.unpack(">H", query[at + 1:at + 3])[0]
    name = ".".join(labels).lower()
    note("dns", name=name, type=kind)
    asked = counts.get((name, kind), 0)
    counts[name, kind] = asked + 1
    records = answers_of(name, kind, asked)
    if records is None:
        return None
    code = 3 if records is NotImplementedError else 0
    records = [] if code else records
    body = b"".join(name_bytes(owner) + struct.pack(">HHIH", t, 1, 0, len(data)) + data for owner, t, data in records)
    return query[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0) + query[12:at + 5] + body


class NameServer(asyncio.DatagramProtocol):
    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, data, addr):
        try:
            answer = dns_answer(data)
        except IndexError:
            note("dns-nonsense")
            return
        if answer is not None and len(answer) > 1232:
            answer = answer[:2] + struct.pack(">H", 0x8380) + answer[4:6] + b"\0" * 6 + data[12:data.index(b"\0", 12) + 5]
        if answer is not None:
            self.transport.sendto(answer, addr)


async def dns_by_tcp(reader, writer):
    try:
        while True:
            size = struct.unpack(">H", await reader.readexactly(2))[0]
            answer = dns_answer(await reader.readexactly(size))
            if answer is None:
                await reader.read()
                return
            writer.write(struct.pack(">H", len(answer)) + answer)
            await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


# Services


async def read_head(reader):
    """The first line and the headers, names in lower case, in their order; None at the end."""
    head = await reader.readuntil(b"\r\n\r\n")
    lines = head[:-4].decode("latin-1").split("\r\n")
    return lines[0], [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]


async def read_body(reader, headers):
    got = dict(headers)
    if got.get("transfer-encoding", "").lower() == "chunked":
        size, total = -1, 0
        while size:
            size = int((await reader.readuntil(b"\r\n")).split(b";")[0], 16)
            await reader.readexactly(size + 2)
            total += size
        return total
    left = total = int(got.get("content-length", "0"))
    while left:
        left -= len(await reader.readexactly(min(left, 1 << 16)))
    return total


def file_answer(path):
    """A file below the folder `files` of the world, which tests fill: what package managers and git ask for."""
    where = os.path.normpath(os.path.join(sys.argv[1], path.partition("?")[0].lstrip("/")))
    if os.path.isdir(where):
        where += "/index.html"
    if not where.startswith(os.path.join(sys.argv[1], "files")) or not os.path.isfile(where):
        return b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"
    with open(where, "rb") as f:
        data = f.read()
    kind = b"text/html" if where.endswith(".html") else b"application/json" if where.endswith(".json") else b"application/octet-stream"
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, len(data)) + data


async def http_answer(writer, method, path, body):
    """What the path asks for: /big/N bytes with a length, /chunked/N, /old/N until the end, /slow/MS, /hang, /reset, /files/…."""
    kind, _, amount = path.strip("/").partition("/")
    if kind == "files":
        answer = file_answer(path)
        writer.write(answer if method != "HEAD" else answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
        return True
    amount = int(amount) if amount.isdigit() else 0
    block = b"0123456789abcdef" * 4096
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nx-up: 1\r\n"
    if kind == "hang":
        await asyncio.sleep(3600)
    if kind == "reset":
        writer.transport.abort()
        return False
    if kind == "big":
        writer.write(head + b"content-length: %d\r\n\r\n" % amount)
        for at in range(0, amount, len(block)):
            writer.write(block[:amount - at])
            await writer.drain()
        return True
    if kind == "old":
        writer.write(head + b"connection: close\r\n\r\n")
        for at in range(0, amount, len(block)):
            writer.write(block[:amount - at])
            await writer.drain()
        return False
    if kind == "slow":
        await asyncio.sleep(amount / 1000)
    chunks = [body]
    if kind == "chunked":
        chunks = [block[:amount - at] for at in range(0, amount, len(block))]
    writer.write(head + b"transfer-encoding: chunked\r\n\r\n")
    if method != "HEAD":
        for chunk in chunks:
            writer.write(b"%X\r\n%s\r\n" % (len(chunk), chunk))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
    return True


async def http(reader, writer):
    """Says on each request what came: `UP METHOD PATH body=N {headers}`, and writes it down with the address at which it came."""
    address, port = writer.get_extra_info("sockname")[:2]
    tls = writer.get_extra_info("ssl_object")
    try:
        going = True
        while going:
            first, headers = await read_head(reader)
            method, path, version = first.split(" ")
            if dict(headers).get("expect", "").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            size = await read_body(reader, headers)
            note("http", method=method, path=path, headers=headers, body=size, address=address, port=port, tls=tls is not None,
                 sni=getattr(tls, "sni", None))
            shown = json.dumps(dict(headers), separators=(",", ":"))
            going = await http_answer(writer, method, path, f"UP {method} {path} body={size} {shown}\n".encode())
            going = going and version == "HTTP/1.1" and dict(headers).get("connection", "").lower() != "close"
            await writer.drain()
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, ConnectionError, ssl.SSLError):
        pass
    finally:
        writer.close()


async def echo(reader, writer):
    """Says `E:` and what it gets; bytes after the first piece come back as they are. A client that ends its half gets the rest."""
    note("echo", address=writer.get_extra_info("sockname")[0], port=writer.get_extra_info("sockname")[1])
    try:
        prefix = b"E:"
        while True:
            data = await reader.read(1 << 16)
            if not data:
                break
            writer.write(prefix + data)
            prefix = b""
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def silent(reader, writer):
    note("silent", port=writer.get_extra_info("sockname")[1])
    try:
        await reader.read()
        note("silent-end")
    except ConnectionError:
        note("silent-end")
    finally:
        writer.close()


async def flood(_reader, writer):
    """Sends for ever, and writes down when nobody takes it any more."""
    try:
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            await asyncio.sleep(0)
    except ConnectionError:
        note("flood-end")
    finally:
        writer.close()


async def banner(reader, writer):
    """Speaks first, as ssh does."""
    writer.write(b"SSH-2.0-world\r\n")
    await echo(reader, writer)


async def upstream_proxy(reader, writer):
    """A proxy of somebody else: answers requests itself and says what it was asked."""
    try:
        first, headers = await read_head(reader)
        note("proxied", line=first, headers=headers)
        if first.startswith("CONNECT "):
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            await echo(reader, writer)
        else:
            method, path, _ = first.split(" ")
            await http_answer(writer, method, "/", f"UP {method} {path} body=0 {json.dumps(dict(headers))}\n".encode())
    except (asyncio.IncompleteReadError, ConnectionError, ValueError):
        pass
    finally:
        writer.close()


SERVICES = {"http": http, "https": http, "echo": echo, "silent": silent, "flood": flood, "banner": banner, "proxy": upstream_proxy}


def tls_context(folder):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(f"{folder}/cert.pem", f"{folder}/key.pem")

    def remember(connection, sni, _context):
        connection.sni = sni

    context.sni_callback = remember
    return context


async def serve(what, port, folder):
    context = tls_context(folder) if what == "https" else None
    await asyncio.start_server(SERVICES[what], None, port, ssl=context, backlog=4096, limit=1 << 21)


# The witness


def describe(packet):
    """(protocol, address, port) of the packets that begin something; None for the rest."""
    version = packet[0] >> 4
    if version == 4:
        protocol, rest = packet[9], packet[(packet[0] & 15) * 4:]
        address = socket.inet_ntop(socket.AF_INET, packet[16:20])
    elif version == 6:
        protocol, rest = packet[6], packet[40:]
        address = socket.inet_ntop(socket.AF_INET6, packet[24:40])
    else:
        return ("other", packet[:8].hex(), 0)
    if protocol == socket.IPPROTO_TCP:
        return ("tcp", address, struct.unpack(">H", rest[2:4])[0]) if rest[13] & 0x12 == 2 else None
    if protocol == socket.IPPROTO_UDP:
        source, port = struct.unpack(">HH", rest[:4])
        return ("udp", address, port) if source != 53 else None
    if (protocol, rest[0]) == (socket.IPPROTO_ICMP, 3):
        return None  # a port unreachable, to somebody who gave up waiting for the name server
    return (str(protocol), address, 0)


def watch(loop):
    witness = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    witness.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
    witness.bind(("lo", ETH_P_ALL))
    witness.setblocking(False)

    def look():
        for _ in range(256):
            try:
                packet, (_, _, direction, _, _) = witness.recvfrom(128)
            except BlockingIOError:
                return
            if direction == PACKET_OUTGOING and packet:
                seen = describe(packet)
                if seen:
                    note("packet", protocol=seen[0], address=seen[1], port=seen[2])

    loop.add_reader(witness, look)
    return look


# Orders


async def relay(path, port, swap=None):
    """Lets those outside reach a TCP port of this world through a unix socket. Without a path: through another port, which it returns,
    and with `swap`, two words of one length, of which one stands for the other in what comes back."""
    old, new = (word.encode() for word in swap or ("", ""))

    async def one(reader, writer):
        try:
            there, back = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            writer.close()
            return

        async def pump(source, sink, is_answer):
            try:
                while data := await source.read(1 << 20):
                    sink.write(data.replace(old, new) if old and is_answer else data)
                    await sink.drain()
            except ConnectionError:
                pass
            finally:
                sink.close()

        await asyncio.gather(pump(reader, back, False), pump(there, writer, True))

    if path is None:
        return (await asyncio.start_server(one, "127.0.0.1", 0)).sockets[0].getsockname()[1]
    await asyncio.start_unix_server(one, path)
    os.chmod(path, 0o666)
    return None


async def obey(order, folder, look):
    what = order["order"]
    if what == "log":
        # All that the kernel has seen so far is written down first.
        await asyncio.sleep(0)
        look()
        return log[order.get("since", 0):]
    if what == "serve":
        await serve(order["what"], order["port"], folder)
    elif what == "relay":
        return await relay(order["path"], order["port"], order.get("swap"))
    elif what == "names":
        NAMES.update(order["names"])
        counts.clear()
    elif what == "mark":
        look()
        return len(log)
    return None


async def main(folder, without):
    loop = asyncio.get_running_loop()
    make_everything_local()
    put_files(folder)
    look = watch(loop)
    await loop.create_datagram_endpoint(NameServer, ("127.0.0.1", 53))
    await asyncio.start_server(dns_by_tcp, "127.0.0.1", 53)
    for what, port in (("http", 80), ("http", 8080), ("https", 443), ("https", 8443), ("echo", 7), ("silent", 9), ("flood", 19),
                       ("banner", 22), ("proxy", 3129)):
        if port not in without:
            await serve(what, port, folder)
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    print(json.dumps({"ready": True}), flush=True)
    while line := await reader.readline():
        try:
            answer = {"answer": await obey(json.loads(line), folder, look)}
        except OSError as error:
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [int(port) for port in sys.argv[2:]]))
