"""Programs as they are in a managed network that is enforced: they find their way by the variables, to what is granted and to nothing else.

Each runs with a server of the world for what it fetches, over https where it can. What the machine does not have is skipped.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import zipfile

import pytest

from farhand_client import PATIENCE
from network_rig import PYTHON, Network, allow
from world import PUBLIC, world_or_skip

FETCH = """
import http.client, json, ssl, sys, urllib.request
context = ssl.create_default_context(cafile=sys.argv[2])
print(urllib.request.urlopen(sys.argv[1], context=context, timeout=20).read().decode())
"""
REQUESTS = """
import sys
try:
    import requests
except ImportError:
    from pip._vendor import requests
print(requests.get(sys.argv[1], verify=sys.argv[2], timeout=20).text)
"""
ASYNCIO = """
import asyncio, os, ssl, sys, urllib.parse
async def main():
    there, proxy = urllib.parse.urlsplit(sys.argv[1]), urllib.parse.urlsplit(os.environ['HTTPS_PROXY'])
    reader, writer = await asyncio.open_connection(proxy.hostname, proxy.port)
    writer.write(f'CONNECT {there.hostname}:443 HTTP/1.1\\r\\nHost: {there.hostname}:443\\r\\n\\r\\n'.encode())
    head = await reader.readuntil(b'\\r\\n\\r\\n')
    assert b' 200 ' in head, head
    context = ssl.create_default_context(cafile=sys.argv[2])
    await writer.start_tls(context, server_hostname=there.hostname)
    writer.write(f'GET {there.path} HTTP/1.1\\r\\nHost: {there.hostname}\\r\\nConnection: close\\r\\n\\r\\n'.encode())
    print((await reader.read()).decode())
asyncio.run(main())
"""
NODE = """
const [major, minor] = process.versions.node.split('.').map(Number);
if (major < 24 && !(major === 22 && minor >= 21)) { console.log('too old'); process.exit(77); }
fetch(process.argv[1]).then(async (r) => { console.log(await r.text()); process.exit(r.ok ? 0 : 1); }, 
    (e) => { console.error(e); process.exit(1); });
"""
JAVA = """
import java.net.*; import java.net.http.*; import java.security.*; import java.security.cert.*; import javax.net.ssl.*; import java.io.*;
public class Fetch {
    public static void main(String[] a) throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType()); store.load(null);
        store.setCertificateEntry("ca", CertificateFactory.getInstance("X.509").generateCertificate(new FileInputStream(a[1])));
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm()); trust.init(store);
        SSLContext tls = SSLContext.getInstance("TLS"); tls.init(null, trust.getTrustManagers(), null);
        URI proxy = URI.create(System.getenv("HTTPS_PROXY"));
        HttpClient client = HttpClient.newBuilder().sslContext(tls).version(HttpClient.Version.HTTP_1_1)
            .proxy(ProxySelector.of(new InetSocketAddress(proxy.getHost(), proxy.getPort()))).build();
        HttpResponse<String> r = client.send(HttpRequest.newBuilder(URI.create(a[0])).build(), HttpResponse.BodyHandlers.ofString());
        System.out.println(r.body()); System.exit(r.statusCode() == 200 ? 0 : 1);
    }
}
"""
# name -> (what the machine must have, the script; $U is https://HOST, $P http://HOST, $CA the authority, $W the directory)
PROGRAMS = {
    "curl": (["curl"], 'curl -sS -f -m 20 --cacert "$CA" "$U/files/hello"'),
    "curl of http": (["curl"], 'curl -sS -f -m 20 "$P/files/hello"'),
    "curl by socks": (["curl"], 'curl -sS -f -m 20 --cacert "$CA" -x "$ALL_PROXY" "$U/files/hello"'),
    "wget": (["wget"], 'wget -q -T 20 -t 1 --ca-certificate="$CA" -O - "$U/files/hello"'),
    "git": (["git"], 'GIT_SSL_CAINFO="$CA" git clone -q "$U/files/repo.git" "$W/clone" && cat "$W/clone/hello"'),
    "git of http": (["git"], 'git clone -q "$P/files/repo.git" "$W/clone" && cat "$W/clone/hello"'),
    "pip": (["pip"], '$PIP download -q --no-cache-dir --disable-pip-version-check --retries 0 --timeout 20 --cert "$CA" '
                     '-i "$U/files/simple" --no-deps -d "$W/wheels" worldly && '
                     'unzip -p "$W"/wheels/worldly-1.0-py3-none-any.whl worldly.py'),
    "npm": (["npm", "node"], 'cd "$W" && npm install --silent --no-audit --no-fund --cafile="$CA" --registry="$U/files/npm/" '
                             '--cache "$W/cache" --fetch-retries=0 worldly && cat node_modules/worldly/hello'),
    "apt": (["apt-get"], 'printf "deb [trusted=yes] %s/files/apt ./\\n" "$P" > "$W/sources.list" && '
                         'mkdir -p "$W/lists/partial" "$W/apt-cache/partial" && '
                         'O="-o Dir::Etc::SourceList=$W/sources.list -o Dir::Etc::SourceParts=/dev/null -o Dir::State::Lists=$W/lists '
                         '-o Dir::Cache=$W/apt-cache -o APT::Sandbox::User= -o Dir::State::status=/dev/null -o Acquire::Languages=none" && '
                         'apt-get -qq $O -o Acquire::Retries=0 -o Debug::NoLocking=1 --error-on=any update && '
                         'apt-cache $O show worldly'),
    "python urllib": ([PYTHON], 'python3 "$W/fetch.py" "$U/files/hello" "$CA"'),
    "python requests": (["pip"], '$PY "$W/requests_.py" "$U/files/hello" "$CA"'),
    "python asyncio": ([PYTHON], 'python3 "$W/asyncio_.py" "$U/files/hello" "$CA"'),
    "node fetch": (["node"], 'NODE_EXTRA_CA_CERTS="$CA" node -e "$(cat "$W/fetch.js")" "$U/files/hello"'),
    "java": (["java", "javac"], 'java -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xmx128m "$W/Fetch.java" "$U/files/hello" "$CA"'),
}
# Together they would take too long for every run.
QUICK = ["curl", "curl of http", "curl by socks", "git", "python urllib", "python asyncio"]


def python_with_pip():
    for python in (PYTHON, shutil.which("python3")):
        if python and subprocess.run([python, "-m", "pip", "--version"], capture_output=True, check=False).returncode == 0:
            return os.path.realpath(subprocess.run([python, "-c", "import sys; print(sys.executable)"], capture_output=True, check=True,
                                                   text=True).stdout.strip())
    return None


PIP_PYTHON = python_with_pip()


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(data.encode() if isinstance(data, str) else data)


def fill(top):
    """What the programs fetch: a file, a repository of git, packages of pip, npm and apt."""
    put(f"{top}/hello", "hello from the world\n")
    work = f"{top}/work"
    put(f"{work}/hello", "hello from the world\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=w", "-c", "user.email=w@w", "commit", "-q", "-m", "m"]):
        subprocess.run(["git", *command], cwd=work, check=True, capture_output=True)
    subprocess.run(["git", "clone", "-q", "--bare", work, f"{top}/repo.git"], check=True, capture_output=True)
    subprocess.run(["git", "update-server-info"], cwd=f"{top}/repo.git", check=True)

    wheel = io.BytesIO()
    with zipfile.ZipFile(wheel, "w") as z:
        z.writestr("worldly.py", "# hello from the world\n")
        z.writestr("worldly-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: worldly\nVersion: 1.0\n")
        z.writestr("worldly-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("worldly-1.0.dist-info/RECORD", "")
    name = "worldly-1.0-py3-none-any.whl"
    put(f"{top}/simple/worldly/{name}", wheel.getvalue())
    put(f"{top}/simple/worldly/index.html", f'<html><body><a href="{name}">{name}</a></body></html>')

    ball = io.BytesIO()
    with tarfile.open(fileobj=ball, mode="w:gz") as t:
        for path, text in (("package/package.json", '{"name":"worldly","version":"1.0.0"}'), ("package/hello", "hello from the world\n")):
            info = tarfile.TarInfo(path)
            info.size = len(text)
            t.addfile(info, io.BytesIO(text.encode()))
    put(f"{top}/npm/worldly.tgz", ball.getvalue())
    put(f"{top}/npm/worldly/index.html", json.dumps({
        "name": "worldly", "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": {
            "name": "worldly", "version": "1.0.0", "dist": {"tarball": "https://good.test/files/npm/worldly.tgz",
                                                            "shasum": hashlib.sha1(ball.getvalue()).hexdigest()}}}}))

    packages = "Package: worldly\nVersion: 1.0\nArchitecture: all\nMaintainer: w <w@w>\nFilename: ./worldly.deb\nSize: 1\n" \
               f"SHA256: {'0' * 64}\nDescription: hello from the world\n\n"
    put(f"{top}/apt/Packages", packages)
    put(f"{top}/apt/Packages.gz", gzip.compress(packages.encode()))
    sums = "".join(f" {hashlib.sha256(data).hexdigest()} {len(data)} {name}\n" for name, data in (
        ("Packages", packages.encode()), ("Packages.gz", gzip.compress(packages.encode(), mtime=0))))
    put(f"{top}/apt/Packages.gz", gzip.compress(packages.encode(), mtime=0))
    put(f"{top}/apt/Release", f"Date: Mon, 16 Nov 2026 00:00:00 UTC\nSHA256:\n{sums}")
    subprocess.run(["chmod", "-R", "a+rX", top], check=True)


@pytest.fixture(scope="module")
def network():
    with world_or_skip() as world, Network(world) as one:
        fill(f"{world.folder}/files")
        yield one


def needed(names):
    for name in names:
        if name == "pip" and PIP_PYTHON is None:
            pytest.skip("no python with pip")
        if name != "pip" and shutil.which(name) is None:
            pytest.skip(f"no {name}")


def run(network, program, proxy, host="good.test"):
    where = network.dir(f"w/{program.replace(' ', '-')}-{next(network._names)}")  # pylint: disable=protected-access
    for name, text in (("fetch.py", FETCH), ("requests_.py", REQUESTS), ("asyncio_.py", ASYNCIO), ("fetch.js", NODE), ("Fetch.java", JAVA)):
        put(f"{where}/{name}", text)
    subprocess.run(["chown", "-R", str(network.uid), where], check=True)
    env = {"PATH": os.environ["PATH"] if program == "npm" else "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": where, "U": f"https://{host}",
           "P": f"http://{host}", "CA": f"{network.world.folder}/ca.pem", "W": where, "TMPDIR": where,
           "PIP": f"{PIP_PYTHON} -m pip", "PY": str(PIP_PYTHON),
           "LC_ALL": "C.UTF-8", "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "DEBIAN_FRONTEND": "noninteractive"}
    ended = network.sh(PROGRAMS[program][1], proxy, env=env, timeout=120 * PATIENCE)
    if ended.code == 77:
        pytest.skip(f"{program}: {ended.out.decode().strip()}")
    return ended


@pytest.mark.parametrize("program", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in PROGRAMS])
def test_a_program_in_a_managed_network(network, program):
    needed(PROGRAMS[program][0])
    since = network.world.mark()
    ended = run(network, program, allow("good.test"))
    assert ended.code == 0 and b"hello from the world" in ended.out, ended
    assert network.world.asked(since) == {"good.test"}
    assert network.world.packets(since) <= {("tcp", PUBLIC, 80), ("tcp", PUBLIC, 443)}
    since = network.world.mark()
    refused = run(network, program, allow("else.test"))
    assert refused.code != 0 and b"hello from the world" not in refused.out, refused
    assert network.world.asked(since) == network.world.packets(since) == set()
    assert {(d["host"], d["decision"]) for d in refused.decisions} <= {("good.test", "deny")}
