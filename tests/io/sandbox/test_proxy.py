"""The proxy of a sandbox: which hosts it lets through, and what is granted."""

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import HAS_BUBBLEWRAP, room, sh
from tests.waiting import until
from treadle.confinement import PortGrant
from treadle.io.sandbox import bubblewrap, relay
from treadle.io.sandbox import proxy as proxy_module
from treadle.io.sandbox.proxy import Granted, Proxy, _asked, relayed, variables

FETCH = "python3 -c 'import sys,urllib.request as u; print(u.urlopen(sys.argv[1], timeout=60).read().decode())' "

TWO_ADDRESSES = """
import asyncio, socket
from treadle.io.sandbox.proxy import Proxy, variables

async def main():
    first, last = dict.fromkeys(one[4][0] for one in socket.getaddrinfo("localhost", 80))
    server = await asyncio.start_server(lambda reader, writer: writer.close(), last, 0)
    proxy = Proxy(("localhost",))
    await proxy.start()
    reader, writer = await asyncio.open_unix_connection(proxy.path)
    writer.write(b"CONNECT localhost:%d HTTP/1.1\\r\\n\\r\\n" % server.sockets[0].getsockname()[1])
    print((await reader.readline()).decode().strip())
    writer.close()
    proxy.close()

asyncio.run(main())
"""

PRIVATE = """
import asyncio
from treadle.io.sandbox.proxy import Proxy

async def main():
    proxy = Proxy(("near.example", "here.example", "*.pattern.example", "granted.example"), public=("granted.example",))
    await proxy.start()
    for name in ("near.example", "a.pattern.example", "granted.example", "here.example"):
        reader, writer = await asyncio.open_unix_connection(proxy.path)
        writer.write(f"CONNECT {name}:443 HTTP/1.1\\r\\n\\r\\n".encode())
        print(name, "private address" in (await reader.read()).decode())
        writer.close()
    proxy.close()

asyncio.run(main())
"""


async def serve_one(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    body = head.split(b"\r\n")[0]
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%b" % (len(body), body))
    await writer.drain()
    writer.close()


if HAS_BUBBLEWRAP:

    async def test_a_listed_host_is_reached_and_no_other(tmp_path: Path) -> None:
        server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
        async with server:
            port = server.sockets[0].getsockname()[1]
            walls = room(tmp_path, network="off", hosts=("localhost",))
            done = await sh(walls, f"{FETCH} http://localhost:{port}/a?b=c", tmp_path)
            assert "GET /a?b=c HTTP/1.1" in done.text  # not the form that is meant for proxies
            done = await sh(walls, f"{FETCH} http://127.0.0.1:{port}/; exec 9<>/dev/tcp/127.0.0.1/{port}", tmp_path)
            assert "403" in done.text and "refused" in done.text.lower()
            done = await sh(walls, "exit 7", tmp_path)
            assert done.code == 7

    async def test_each_address_of_a_host_is_tried(tmp_path: Path) -> None:
        """On a machine where localhost has two addresses, and somebody listens only on the last of them."""
        hosts, program = tmp_path / "hosts", tmp_path / "program.py"
        hosts.write_text("127.0.0.2 localhost\n127.0.0.1 localhost\n")
        program.write_text(TWO_ADDRESSES)
        machine = [bubblewrap.find(), "--dev-bind", "/", "/", "--ro-bind", hosts, "/etc/hosts"]
        done = subprocess.run([*machine, sys.executable, program], capture_output=True, text=True, timeout=60)
        assert (done.stdout, done.stderr) == ("HTTP/1.1 200 Connection established\n", "")

    async def test_only_a_name_that_was_listed_leads_into_the_local_network_and_none_to_this_machine(
        tmp_path: Path,
    ) -> None:
        hosts, program = tmp_path / "hosts", tmp_path / "program.py"
        near = ("near.example", "a.pattern.example", "granted.example")
        hosts.write_text("".join(f"10.1.2.3 {name}\n" for name in near) + "127.0.0.1 here.example\n")
        program.write_text(PRIVATE)
        machine = [bubblewrap.find(), "--unshare-net", "--dev-bind", "/", "/", "--ro-bind", hosts, "/etc/hosts"]
        done = subprocess.run([*machine, sys.executable, program], capture_output=True, text=True, timeout=60)
        said = dict(line.split() for line in done.stdout.splitlines())
        assert said == dict.fromkeys([*near, "here.example"], "True") | {"near.example": "False"}, done.stderr


async def ask(proxy: Proxy, request: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(proxy.path)
    writer.write(request)
    writer.write_eof()
    async with asyncio.timeout(60):
        answer = await reader.read(4096)
    writer.close()
    return answer


async def test_a_tunnel_carries_bytes_both_ways_and_only_to_the_listed_port() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.read(100))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    proxy = Proxy((f"localhost:{port}",))
    await proxy.start()
    try:
        async with server:
            reader, writer = await asyncio.open_unix_connection(proxy.path)
            writer.write(f"CONNECT localhost:{port} HTTP/1.1\r\n\r\n".encode())
            assert b"200" in await reader.readuntil(b"\r\n\r\n")
            writer.write(b"ping")
            assert await reader.readexactly(4) == b"ping"
            writer.close()
            assert b"403" in await ask(proxy, b"CONNECT localhost:1 HTTP/1.1\r\n\r\n")
    finally:
        proxy.close()


async def test_what_is_not_a_request_is_refused_and_the_next_one_is_served() -> None:
    proxy = Proxy(("localhost", "*.example.com"))
    await proxy.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(proxy_module, "SECONDS", 0.01)
            reader, writer = await asyncio.open_unix_connection(proxy.path)
            assert (await reader.read()).endswith(b"treadle: no answer in time\n")
            writer.close()
        why = b"this proxy accepts CONNECT and http:// addresses, not "
        for target in (b"https://localhost/x", b"http:///x"):
            assert why + target in await ask(proxy, b"GET " + target + b" HTTP/1.1\r\n\r\n")
        for junk in (b"\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n", b"CONNECT x HTTP/1.1\r\n\r\n", b"\0" * 100_000, b"GET"):
            assert b"403" in await ask(proxy, junk)
        assert b"may not be reached" in await ask(proxy, b"CONNECT evil.com:443 HTTP/1.1\r\n\r\n")
        assert b"may not be reached" in await ask(proxy, b"CONNECT example.com.evil.com:443 HTTP/1.1\r\n\r\n")
    finally:
        proxy.close()


async def test_whether_another_host_is_reached_is_asked_and_a_slow_answer_is_waited_for() -> None:
    server = await asyncio.start_server(serve_one, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    asked: list[tuple[str, int]] = []
    decided = asyncio.Event()

    async def reaching(host: str, port: int) -> bool:
        asked.append((host, port))
        await decided.wait()
        return host == "127.0.0.1"

    proxy = Proxy(("example.com",), reaching)
    await proxy.start()
    try:
        async with server:
            waiting = asyncio.create_task(ask(proxy, f"GET http://127.0.0.1:{port}/x HTTP/1.1\r\n\r\n".encode()))
            await until(lambda: bool(asked))
            decided.set()
            assert b"GET /x HTTP/1.1" in await waiting
            answer = await ask(proxy, f"GET http://localhost:{port}/x HTTP/1.1\r\n\r\n".encode())
            assert b"403" in answer and b"add localhost to --network" in answer
            assert asked == [("127.0.0.1", port), ("localhost", port)]
    finally:
        proxy.close()


def test_servers_inside_are_reached_without_it_unless_the_list_means_those_outside() -> None:
    assert variables(("a.example",), {})["no_proxy"] == "localhost,127.0.0.1,::1"
    assert variables(("a.example", "localhost:80"), {})["NO_PROXY"] == ""
    assert variables((), {})["https_proxy"] == "http://127.0.0.1:3128"
    assert variables(("localhost",), {}, ["127.0.0.2"])["NO_PROXY"] == "127.0.0.2"
    words = relayed(["a", "b"], [PortGrant(3128, "/x"), PortGrant(1, "/y", "127.0.0.2")])
    assert words[3:] == [relay.__file__, "127.0.0.1:3128=/x,127.0.0.2:1=/y", "a", "b"]


async def test_a_group_covers_what_its_tool_names_and_otherwise_it_is_said_why_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CARGO_HOME", str(tmp_path))
    (tmp_path / "config.toml").write_text('[registries.near]\nindex = "sparse+https://crates.example/"\n')
    _asked.cache_clear()
    plain = Proxy(("near.example", "*.far.example"))
    grouped = Proxy(("crates", "near.example"), public=("near.example",))
    try:
        assert await plain._is_listed("near.example", 443) and not await plain._is_listed("a.far.example", 443)
        assert not await grouped._is_listed("near.example", 443)
        assert _asked.cache_info().misses == 0, "no tool is asked about a name that is listed"
        assert await grouped._is_listed("crates.example", 443)
        with pytest.raises(proxy_module.Refused, match=r"may not be reached") as refused:
            await grouped._is_listed("other.example", 443)
        assert "cargo" not in str(refused.value)
        _asked.cache_clear()
        (tmp_path / "config.toml").unlink()
        with pytest.raises(proxy_module.Refused, match=r"may not be reached.*\. crates is .*, but cargo says no reg"):
            await grouped._is_listed("crates.example", 443)
        _asked.cache_clear()
        with pytest.raises(proxy_module.Refused) as refused:
            await plain._is_listed("other.example", 443)
        assert "says no registry" not in str(refused.value) and _asked.cache_info().misses == 0
    finally:
        _asked.cache_clear()
        plain.close()
        grouped.close()


async def test_bytes_go_both_ways_to_the_socket_that_was_granted_and_so_does_the_end(tmp_path: Path) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write((await reader.read()).upper())
        writer.close()

    place = str(tmp_path / "outside")
    async with await asyncio.start_unix_server(answer, place), asyncio.timeout(60):
        passage = Granted(place)
        await passage.start()
        assert stat.S_IMODE(os.stat(passage.path).st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(passage.path)
        writer.write(b"hello" * 50_000)
        writer.write_eof()
        assert await reader.read() == b"HELLO" * 50_000
        writer.close()
        passage.close()
    assert not os.path.exists(os.path.dirname(passage.path))


async def test_where_nothing_listens_the_connection_ends(tmp_path: Path) -> None:
    passage = Granted(str(tmp_path / "nothing"))
    await passage.start()
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_unix_connection(passage.path)
        assert await reader.read() == b""
        writer.close()
    passage.close()
