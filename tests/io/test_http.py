"""The HTTP client, against servers that are written byte by byte."""

import asyncio
import gzip
import socket
import ssl
import zlib
from base64 import b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.certificates import certificate
from treadle.io import http as http_module
from treadle.io.http import BadAddress, BrokenAnswer, CannotConnect, HttpClient, TooSilent, WrongPeer, proxy_for

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi"

HALF = OK[:20]


class Service:
    """Sends its answers in turn and keeps the requests. Without `hold` it closes the connection after each.

    With `hold` it does so after None, which is no answer, and after half of one.
    """

    def __init__(self, *answers: bytes | None, hold: bool = False) -> None:
        self.answers = list(answers)
        self.asked: list[bytes] = []
        self.connections = 0
        self.hold = hold
        self.port = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self.answers:
                head = await reader.readuntil(b"\r\n\r\n")
                size = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                self.asked.append(head + await reader.readexactly(size))
                answer = self.answers.pop(0)
                writer.write(answer or b"")
                await writer.drain()
                if not self.hold or answer in (None, HALF):
                    return
            await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(service: Service, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    async with await asyncio.start_server(service.serve, "127.0.0.1", 0, ssl=tls) as server:
        service.port = server.sockets[0].getsockname()[1]
        yield f"{'https' if tls else 'http'}://127.0.0.1:{service.port}"


@asynccontextmanager
async def client(idle: float = 60.0, direct: bool = True, socket: str = "") -> AsyncIterator[HttpClient]:
    made = HttpClient({"x-test": "1"}, connect_seconds=60.0, idle_seconds=idle, direct=direct, socket=socket)
    try:
        yield made
    finally:
        await made.aclose()


async def get(http: HttpClient, url: str, body: bytes = b"") -> tuple[int, bytes]:
    async with asyncio.timeout(60), http.request("POST" if body else "GET", url, body) as response:
        return response.status, b"".join([chunk async for chunk in response.chunks()])


async def test_a_body_and_its_length_are_sent_and_the_answer_is_read() -> None:
    service = Service(OK)
    async with serving(service) as url, client() as http:
        assert await get(http, f"{url}/v1/x?y=1", b'{"a":1}') == (200, b"hi")
    (asked,) = service.asked
    assert asked.startswith(b"POST /v1/x?y=1 HTTP/1.1\r\n") and asked.endswith(b'\r\n\r\n{"a":1}')
    assert f"host: 127.0.0.1:{service.port}".encode() in asked.lower() and b"x-test: 1" in asked.lower()


async def test_a_request_may_have_headers_of_its_own_and_without_a_body_it_has_no_length() -> None:
    service = Service(OK, OK)
    async with serving(service) as url, client() as http:
        async with http.request("GET", url.replace("//", "//me@"), headers={"X-Test": "2", "Authorization": "mine"}):
            pass
        await get(http, url.replace("//", "//me@"))
    first, second = (asked.lower() for asked in service.asked)
    assert first.startswith(b"get / http/1.1\r\n") and b"x-test: 2" in first and b"x-test: 1" not in first
    assert b"authorization: mine" in first and b"basic" not in first and b"content-length" not in first
    assert b"x-test: 1" in second and b"authorization: basic " + b64encode(b"me:").lower() in second


@pytest.mark.parametrize(("most", "read"), [(1, b"h"), (2, b"hi"), (3, b"hi")])
async def test_no_more_of_a_body_is_read_than_was_wanted(most: int, read: bytes) -> None:
    async with serving(Service(OK)) as url, client() as http, http.request("GET", url) as response:
        assert await response.beginning(most) == read


async def test_a_body_that_is_too_long_is_an_error_and_never_a_short_one() -> None:
    async with serving(Service(OK, OK)) as url, client() as http:
        async with http.request("GET", url) as response:
            assert await response.whole(2) == b"hi"
        async with http.request("GET", url) as response:
            with pytest.raises(BrokenAnswer, match="more than 1 bytes"):
                await response.whole(1)


async def test_a_connection_is_used_again_once_the_answer_was_read() -> None:
    service = Service(OK, OK, hold=True)
    async with serving(service) as url, client() as http:
        assert [await get(http, url) for _ in range(2)] == [(200, b"hi")] * 2
    assert service.connections == 1


async def test_after_what_was_wanted_the_end_is_waited_for_a_little_so_that_the_connection_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_module, "LINGER", 0.05)
    endless = b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nhi"
    for answer, kept in ((OK, 1), (endless, 0)):
        async with serving(Service(answer, OK, hold=True)) as url, client() as http:
            async with http.request("GET", url) as response:
                chunks = response.chunks()
                assert await anext(chunks) == b"hi"
                await response.linger(chunks)
            assert len(http._idle) == kept


async def test_the_beginning_is_given_as_soon_as_it_is_there() -> None:
    more = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi"
    async with serving(Service(more, b"", hold=True)) as url, client(idle=0.5) as http:
        async with http.request("GET", url) as response:
            assert await response.beginning(2) == b"hi"


async def test_a_connection_is_not_used_again_when_the_answer_was_not_read_to_its_end() -> None:
    service = Service(OK, OK, hold=True)
    async with serving(service) as url, client() as http:
        async with http.request("GET", url) as response:
            assert response.status == 200
        assert await get(http, url) == (200, b"hi")
    assert service.connections == 2


async def test_a_connection_that_was_closed_meanwhile_is_not_used_again() -> None:
    service = Service(b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\nhi", OK)
    async with serving(service) as url, client() as http:
        assert await get(http, url) == (200, b"hi")
        assert await get(http, url) == (200, b"hi")
    assert service.connections == 2


async def test_a_connection_that_is_closed_while_we_ask_again_is_replaced_unseen() -> None:
    service = Service(OK, None, OK, hold=True)
    async with serving(service) as url, client() as http:
        assert [await get(http, url, b"x") for _ in range(2)] == [(200, b"hi")] * 2
    assert service.connections == 2 and len(service.asked) == 3


@pytest.mark.parametrize(
    ("answers", "asked"),
    [((None,), 1), ((OK, None, None), 3), ((OK, HALF, OK), 2)],
    ids=["a new connection", "two in a row", "half an answer"],
)
async def test_a_request_is_not_repeated_after(answers: tuple[bytes | None, ...], asked: int) -> None:
    service = Service(*answers, hold=True)
    async with serving(service) as url, client() as http:
        with pytest.raises(BrokenAnswer):
            for _ in answers:
                await get(http, url, b"x")
    assert len(service.asked) == asked


async def test_small_chunks_that_came_together_are_given_together() -> None:
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"2\r\nab\r\n" * 500 + b"0\r\n\r\n"
    async with serving(Service(chunked)) as url, client() as http, http.request("GET", url) as response:
        parts = [chunk async for chunk in response.chunks()]
    assert b"".join(parts) == b"ab" * 500 and len(parts) < 50


@pytest.mark.parametrize("coding", ["gzip", "x-gzip", "GZIP ", "deflate", "identity"])
async def test_what_was_packed_unasked_is_unpacked(coding: str) -> None:
    data = b"word " * 1_000_000
    packed = data if coding == "identity" else zlib.compress(data) if coding == "deflate" else gzip.compress(data)
    head = f"HTTP/1.1 200 OK\r\ncontent-encoding: {coding}\r\ncontent-length: {len(packed)}\r\n\r\n"
    async with serving(Service(head.encode() + packed)) as url, client() as http:
        assert await get(http, url) == (200, data)


async def test_interim_answers_are_passed_over() -> None:
    async with serving(Service(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + OK)) as url, client() as http:
        assert await get(http, url) == (200, b"hi")


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\nhi\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: -1\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\ncontent-encoding: gzip\r\ncontent-length: 2\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\n" + b"x: " + b"y" * 200_000 + b"\r\n\r\n",
        b"HTTP/1.1 101 Switching\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    ],
    ids=[
        "nothing",
        "not http",
        "too short",
        "no last chunk",
        "bad chunk",
        "bad length",
        "not gzip",
        "long head",
        "101",
    ],
)
async def test_a_broken_answer_is_an_error_and_never_a_short_one(answer: bytes) -> None:
    async with serving(Service(answer)) as url, client() as http:
        with pytest.raises(BrokenAnswer):
            await get(http, url)


async def test_an_unknown_packing_is_refused() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-encoding: br\r\ncontent-length: 2\r\n\r\nhi"
    async with serving(Service(head)) as url, client() as http:
        with pytest.raises(BadAddress, match="packed as br"):
            await get(http, url)


async def test_a_service_that_says_nothing_is_not_waited_for_without_end() -> None:
    async with serving(Service(b"", hold=True)) as url, client(idle=0.05) as http:
        with pytest.raises(TooSilent, match=r"nothing for 0\.05 s"):
            await get(http, url)


async def test_a_connection_that_is_not_made_is_not_waited_for_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    async def open_connection(*where: object, **how: object) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "open_connection", open_connection)
    http = HttpClient({}, connect_seconds=0.01, idle_seconds=60.0)
    with pytest.raises(CannotConnect, match=r"no connection within 0\.01 s"):
        await get(http, "http://x.example/")
    await http.aclose()


@pytest.mark.parametrize("url", ["ftp://x/", "http://", "http://[::1", "http://x:99999999/", "nothing"])
async def test_what_is_no_address_is_refused_before_anything_is_opened(url: str) -> None:
    async with client() as http:
        with pytest.raises(BadAddress, match="is not an address of http or https|Invalid IPv6|out of range"):
            await get(http, url)


@pytest.mark.parametrize("value", ["secret\nx: y", "secret \u20ac"])
async def test_a_header_that_http_cannot_carry_is_refused_without_its_text(value: str) -> None:
    async with serving(Service(OK)) as url, client() as http:
        with pytest.raises(BadAddress, match="what HTTP cannot carry") as refused:
            async with http.request("GET", url, headers={"x-api-key": value}):
                pass
    assert "secret" not in str(refused.value) and refused.value.__suppress_context__


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/", "http://no-such-host.invalid/", f"http://{'x' * 80}.example/"])
async def test_who_cannot_be_reached_is_told_apart_from_who_broke_off(url: str) -> None:
    async with client() as http:
        with pytest.raises(CannotConnect):
            await get(http, url)


@pytest.mark.parametrize(("code", "kind"), [(socket.EAI_NONAME, WrongPeer), (socket.EAI_AGAIN, CannotConnect)])
async def test_a_name_that_does_not_exist_is_told_apart_from_one_that_nobody_could_look_up(
    code: int, kind: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise socket.gaierror(code, "the resolver's words")

    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    async with client() as http:
        with pytest.raises(CannotConnect, match="the resolver's words") as refused:
            await get(http, "http://far.example/")
    assert type(refused.value) is kind


async def test_a_unix_socket_in_place_of_the_address(tmp_path: Path) -> None:
    service = Service(OK)
    async with (
        await asyncio.start_unix_server(service.serve, tmp_path / "s"),
        client(socket=str(tmp_path / "s")) as http,
    ):
        assert await get(http, "http://localhost/v1") == (200, b"hi")


# Certificates and proxies...
@pytest.fixture
def sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """The server's side of TLS for `localhost`, with a certificate that the system trusts."""
    pem = certificate(tmp_path, "localhost")
    monkeypatch.setenv("SSL_CERT_FILE", str(pem))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem)
    return context


async def test_the_certificates_of_the_system_are_trusted_and_must_be_for_the_name(sealed: ssl.SSLContext) -> None:
    service = Service(OK, OK)
    async with serving(service, sealed) as url, client() as http:
        assert await get(http, f"https://localhost:{service.port}/") == (200, b"hi")
        with pytest.raises(WrongPeer, match="(?i)certificate"):
            await get(http, url)


async def test_a_certificate_that_nobody_vouches_for_is_refused(
    sealed: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "none").mkdir()
    other = certificate(tmp_path / "none", "other")
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    service = Service(OK)
    async with serving(service, sealed), client() as http:
        with pytest.raises(WrongPeer, match="(?i)certificate"):
            await get(http, f"https://localhost:{service.port}/")


async def test_an_http_proxy_is_asked_for_the_whole_address(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(OK)
    async with serving(service) as url:
        http = HttpClient({}, connect_seconds=60.0, idle_seconds=60.0)
        monkeypatch.setenv("HTTP_PROXY", url.replace("//", "//me:secret@"))
        assert await get(http, "http://models.example/v1") == (200, b"hi")
        await http.aclose()
    assert service.asked[0].startswith(b"GET http://models.example/v1 HTTP/1.1\r\n")
    assert b"proxy-authorization: Basic " + b64encode(b"me:secret") in service.asked[0]


def tunnel(port: Callable[[], int], seen: list[bytes]) -> Callable[..., object]:
    """A proxy that connects every CONNECT to one port."""

    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await reader.readuntil(b"\r\n\r\n"))
        there = await asyncio.open_connection("127.0.0.1", port())
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(pass_on(reader, there[1]), pass_on(there[0], writer))
        except ConnectionError:
            pass
        finally:
            there[1].close()
            writer.close()

    return serve


async def test_https_goes_through_a_tunnel_of_the_proxy_and_is_sealed_inside(
    sealed: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, seen = Service(OK), list[bytes]()
    async with (
        serving(service, sealed),
        await asyncio.start_server(tunnel(lambda: service.port, seen), "127.0.0.1", 0) as proxy,  # type: ignore[arg-type]
        client(direct=False) as http,
    ):
        port = proxy.sockets[0].getsockname()[1]
        monkeypatch.setenv("HTTPS_PROXY", f"me:secret@127.0.0.1:{port}")
        assert await get(http, "https://localhost:444/v1") == (200, b"hi")
    assert seen[0].startswith(b"CONNECT localhost:444 HTTP/1.1\r\n")
    assert b"proxy-authorization: Basic " + b64encode(b"me:secret") in seen[0]
    assert service.asked[0].startswith(b"GET /v1 HTTP/1.1\r\n") and b"secret" not in service.asked[0]


async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    service = Service(b"HTTP/1.1 407 Proxy Authentication Required\r\ncontent-length: 0\r\n\r\n")
    async with serving(service) as url, client(direct=False) as http:
        monkeypatch.setenv("https_proxy", url)
        with pytest.raises(CannotConnect, match=f"the proxy 127.0.0.1:{service.port} answered 407"):
            await get(http, "https://[::1]/v1")
    assert service.asked[0].startswith(b"CONNECT [::1] HTTP/1.1\r\n") and b"authorization" not in service.asked[0]


async def test_a_proxy_of_another_kind_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://127.0.0.1:1")
    async with client(direct=False) as http:
        with pytest.raises(BadAddress, match="socks5://127.0.0.1 is not an HTTP proxy"):
            await get(http, "http://models.example/v1")


PROXY = {"HTTP_PROXY": "http://plain:1", "https_proxy": "sealed:2"}


@pytest.mark.parametrize(
    ("url", "env", "proxy"),
    [
        ("https://a.example/v1", {}, None),
        ("http://a.example/v1", PROXY, "http://plain:1"),
        ("https://a.example/v1", PROXY, "http://sealed:2"),
        ("https://a.example/v1", {"ALL_PROXY": "any:3"}, "http://any:3"),
        ("https://a.example/v1", {**PROXY, "NO_PROXY": "b.example"}, "http://sealed:2"),
        ("https://a.example/v1", {**PROXY, "no_proxy": "b.example, a.example"}, None),
        ("https://x.a.example/v1", {**PROXY, "no_proxy": ".a.example"}, None),
        ("https://a.example/v1", {**PROXY, "NO_PROXY": "*"}, None),
        ("https://10.1.2.3/v1", {**PROXY, "NO_PROXY": "10.0.0.0/8"}, None),
        ("https://11.1.2.3/v1", {**PROXY, "NO_PROXY": "10.0.0.0/8,rubbish/9"}, "http://sealed:2"),
        ("https://10.1.2.3/v1", {**PROXY, "NO_PROXY": "10.9.9.9/8"}, None),
        ("https://[fd00::1]/v1", {**PROXY, "NO_PROXY": "fd00::/8"}, None),
    ],
)
def test_the_environment_says_which_proxy_leads_to_a_host(
    url: str, env: dict[str, str], proxy: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    found = proxy_for(urlsplit(url))
    assert (found.geturl() if found else None) == proxy
