"""What every request passes: nobody gets in by another name, another page, a guess, or sheer size."""

import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.serve.conftest import Follow, StartWeb, Web
from treadle.serve import gate
from treadle.serve.envelope import RequestRefused
from treadle.serve.tokens import Right, Tokens

ANONYMOUS = {"authorization": ""}


async def sent(
    checks: gate.Gate, path: str = "/x", *, body: tuple[bytes, ...] = (b"",), kind: str = "http", **given: str
) -> list[Any]:
    """What a request to it gets, without any network."""
    headers = {"host": "x", **{name.replace("_", "-"): value for name, value in given.items()}}
    scope = {
        "type": kind,
        "method": headers.pop("method", "GET"),
        "path": path,
        "headers": [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()],
        "client": ("10.0.0.1", 1),
    }
    pieces = [{"type": "http.request", "body": each, "more_body": True} for each in body]
    answers: list[Any] = []

    async def receive() -> Any:
        return pieces.pop(0)

    async def send(message: Any) -> None:
        answers.append(message)

    await checks(scope, receive, send)
    return answers


def gated(tmp_path: Path, **options: Any) -> gate.Gate:
    """A gate before an app that reads all pieces of the body, and says how much it read and for whom."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            return await send({"type": "started"})
        size = 0
        try:
            while len((await receive())["body"]) and (size := size + 1):
                pass
            device = scope["device"].name if scope["device"] else None
            await send({"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"public")]})
            await send({"type": "http.response.body", "body": f"{size} {device}".encode()})
        except RequestRefused as refused:
            await send({"type": "http.response.start", "status": refused.status, "headers": []})

    tokens = Tokens(str(tmp_path / "tokens.json"))
    return gate.Gate(app, tokens, names=("X",), public=lambda path: path == "/public", cookie="c", **options)


async def test_a_request_is_judged_before_anything_is_done_for_it(tmp_path: Path) -> None:
    checks = gated(tmp_path, hint="ask someone")
    _, token = checks.tokens.make("script", "all")
    bearer = f"Bearer {token}"

    async def status(path: str = "/x", **options: Any) -> int:
        return int((await sent(checks, path, **options))[0]["status"])

    assert await sent(checks, kind="lifespan") == [{"type": "started"}]
    start, body = await sent(checks, authorization=bearer, body=(b"a", b"b", b""))
    assert body["body"] == b"2 script" and dict(start["headers"])[b"cache-control"] == b"public"
    assert dict(start["headers"])[b"x-frame-options"] == b"DENY"
    refused = await sent(checks)
    assert refused[0]["status"] == 401 and b"ask someone" in refused[1]["body"]
    assert dict(refused[0]["headers"])[b"cache-control"] == b"no-store"
    assert (await sent(checks, "/public"))[1]["body"] == b"0 None"
    assert await status("/public", host="y") == 421 and await status("/public", host="X:80") == 200
    assert await status("/public", authorization="Bearer wrong") == 401, "a wrong token is never overlooked"
    for length, answer in (("x", 413), (str(gate.BODY_MAX + 1), 413), (str(gate.BODY_MAX), 200), ("-1", 413)):
        assert await status("/public", content_length=length) == answer
    for last, answer in ((b"", 200), (b"x", 413)):
        pieces = (b"x" * (gate.BODY_MAX - 1), b"x", last, b"")
        assert await status("/public", body=pieces) == answer
    closed = await sent(checks, kind="websocket")
    assert closed[0]["type"] == "websocket.close" and closed[0]["code"] == 1008 and "token" in closed[0]["reason"]


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 200),
        ({"method": "POST"}, 200),
        ({"method": "POST", "sec_fetch_site": "cross-site"}, 403),
        ({"sec_fetch_site": "cross-site"}, 200),
        ({"method": "POST", "sec_fetch_site": "same-site"}, 200),
        ({"method": "POST", "origin": "http://x"}, 200),
        ({"method": "POST", "origin": "http://x:80"}, 200),
        ({"origin": "https://x", "host": "x:443"}, 200),
        ({"origin": "http://x:81"}, 403),
        ({"origin": "http://y"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://[::1]:80"}, 403),
    ],
)
async def test_where_a_request_of_a_script_may_come_from(tmp_path: Path, given: dict[str, str], status: int) -> None:
    checks = gated(tmp_path)
    bearer = f"Bearer {checks.tokens.make('script', 'all')[1]}"
    assert (await sent(checks, authorization=bearer, **given))[0]["status"] == status


@pytest.mark.parametrize(
    ("given", "status"),
    [
        ({}, 200),
        ({"method": "HEAD"}, 200),
        ({"method": "POST"}, 403),
        ({"method": "POST", "sec_fetch_site": "same-origin"}, 200),
        ({"method": "POST", "sec_fetch_site": "same-site"}, 403),
        ({"method": "POST", "sec_fetch_site": "cross-site", "origin": "http://x"}, 403),
        ({"method": "POST", "origin": "http://x"}, 200),
    ],
)
async def test_where_a_request_of_a_page_may_come_from(tmp_path: Path, given: dict[str, str], status: int) -> None:
    checks = gated(tmp_path)
    _, cookie, proof = checks.tokens.make_page("page", "all")
    found = await sent(checks, cookie=f"a=b; c={cookie}", x_treadle_proof=proof, **given)
    assert found[0]["status"] == status
    for wrong in ({"cookie": f"d={cookie}"}, {"cookie": f"c={cookie}", "x_treadle_proof": "wrong"}):
        headers = {"x_treadle_proof": proof, **wrong}
        assert (await sent(checks, **headers))[0]["status"] == 401


def test_wrong_ones_are_counted_for_each_address_and_forgotten_after_a_minute(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks, now = gated(tmp_path), [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    for _ in range(gate.FAILURES_MAX):
        checks.note_failure("a", "one")
    with pytest.raises(RequestRefused, match="too many wrong tokens") as refused:
        checks.note_failure("a", "one")
    assert refused.value.status == 429 and refused.value.retry_after_ms == 60_000
    checks.note_failure("a", "another")
    checks.note_failure("b", "one")
    now[0] += 60
    checks.note_failure("a", "one")
    for number in range(gate.GUESSES_MAX - 1):
        checks.note_failure("a", str(number))
    with pytest.raises(RequestRefused):
        checks.note_failure("a", "the last")


@pytest.mark.parametrize(
    ("given", "token"),
    [
        ("Bearer abc", "abc"),
        ("bearer abc", "abc"),
        ("Basic eDphYmM=", "abc"),
        ("basic eDphYmM=", "abc"),
        ("Basic !", ""),
        ("Digest abc", ""),
        ("", ""),
    ],
)
def test_a_token_comes_as_it_is_or_as_a_password(given: str, token: str) -> None:
    assert gate._token(given) == token


async def test_without_a_token_there_is_only_the_page_itself(alone: Web) -> None:
    for path in ("/", "/style.css", "/healthz", "/readyz"):
        assert (await alone.http.get(path, headers=ANONYMOUS)).status_code == 200, path
    for path in ("/api/v1/terminals", "/api/v1/orders", "/metrics", "/openapi.json", "/api/v1/changes", "/nothing"):
        response = await alone.http.get(path, headers=ANONYMOUS)
        assert response.status_code == 401 and response.json()["code"] == "unauthorized", path


async def test_a_name_that_was_made_to_point_here_is_refused(alone: Web) -> None:
    port = alone.listening.port
    odd = (
        f"127.0.0.1:{port}@evil",
        f"localhost:{port}:80",
        "127.0.0.1:",
        "127.0.0.1:x",
        "[::1",
        "[::1]x:1",
        "localhost/a",
    )
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil", *odd):
        response = await alone.http.get("/", headers={"host": name})
        assert response.status_code == 421, name
    for name in (f"localhost:{alone.listening.port}", "127.0.0.1", f"[::1]:{alone.listening.port}"):
        assert (await alone.http.get("/healthz", headers={"host": name})).status_code == 200, name


def page_of(web: Web, right: Right = "all") -> tuple[dict[str, str], dict[str, str]]:
    """What a browser sends to every port of the machine, and what only our own page adds."""
    _, cookie, proof = web.server.site.tokens.make_page("page", right)
    return {"authorization": "", "cookie": f"{web.server.gate.cookie}={cookie}"}, {gate.PROOF_HEADER: proof}


async def test_a_cookie_that_another_port_was_sent_opens_nothing(alone: Web) -> None:
    cookie, proof = page_of(alone)
    value = cookie["cookie"].partition("=")[2]
    stolen = (
        cookie,
        {**cookie, "origin": alone.address},
        {**cookie, gate.PROOF_HEADER: value},
        {**cookie, gate.PROOF_HEADER: page_of(alone)[1][gate.PROOF_HEADER]},
        {"authorization": f"Bearer {value}"},
        {"authorization": f"Bearer {proof[gate.PROOF_HEADER]}"},
        {**cookie, "authorization": f"Bearer {value}", **proof},
        {"authorization": "", **proof},
    )
    for headers in stolen:
        for path in ("/api/v1/me", "/api/v1/devices", "/metrics", "/api/v1/changes"):
            answer = await alone.http.get(path, headers=headers)
            assert answer.status_code == 401, (path, headers)
            assert answer.headers["www-authenticate"] == 'Bearer realm="treadle"'
    assert (await alone.http.get("/api/v1/me", headers={**cookie, **proof})).status_code == 200


async def test_a_socket_from_another_origin_or_without_a_token_is_refused(alone: Web, follow: Follow) -> None:
    url = alone.address.replace("http", "ws") + "/socket"
    token = {"authorization": f"Bearer {alone.token}"}
    whole, proof = page_of(alone)
    cookie = {"cookie": whole["cookie"]}
    protocols = ("treadle", f"treadle.proof.{proof[gate.PROOF_HEADER]}")
    tries: tuple[tuple[dict[str, str], tuple[str, ...]], ...] = (
        ({**token, "origin": "https://evil.example"}, ()),
        ({**cookie, "origin": "https://evil.example"}, protocols),
        ({**cookie, "origin": alone.address}, ()),
        ({**cookie, "origin": alone.address}, ("treadle", "treadle.proof.wrong")),
        (cookie, protocols),
        ({}, protocols),
        ({}, ()),
        ({**token, "host": "evil.example"}, ()),
    )
    for headers, offered in tries:
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            async with _socket(url, headers, offered) as open_socket:
                await open_socket.recv()
    async with _socket(url, {**cookie, "origin": alone.address}, protocols) as ours:
        assert ours.subprotocol == "treadle" and "hello" in str(await ours.recv())


def _socket(url: str, headers: dict[str, str], offered: tuple[str, ...]) -> connect:
    protocols = [Subprotocol(each) for each in offered] or None
    return connect(url, additional_headers=headers, subprotocols=protocols, proxy=None)


async def test_no_path_leads_anywhere_but_to_what_is_listed(alone: Web) -> None:
    port = alone.listening.port
    tricks = (
        "/../../etc/passwd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/style.css/../../serve.py",
        "//etc/passwd",
        "/%00",
        "/style.css%00",
        "/..%5c..%5cetc",
        "/api/v1/terminals/..%2f..%2fetc/screen",
        "/api/v1/terminals/%2e%2e/screen",
        "/api/v1/orders/..%2fx",
        "/serve.py",
        "/web/index.html",
    )
    for trick in tricks:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        request = f"GET {trick} HTTP/1.1\r\nhost: localhost:{port}\r\nauthorization: Bearer {alone.token}\r\n"
        writer.write(f"{request}connection: close\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), 60)
        writer.close()
        await writer.wait_closed()
        assert answer.split()[1] in (b"400", b"404", b"405"), (trick, answer[:200])
        assert b"root:" not in answer and b"import" not in answer


async def test_who_guesses_on_this_machine_shuts_out_nobody_else_on_it(
    alone: Web, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gate, "GUESSES_MAX", 30)
    guesses = [{"authorization": f"Bearer guess{number}"} for number in range(31)]
    answers = [(await alone.http.get("/api/v1/me", headers=each)).status_code for each in guesses]
    assert set(answers[:30]) == {401} and answers[-1] == 429
    login = await alone.http.post("/login", json={"code": "guess"}, headers=ANONYMOUS)
    assert login.status_code == 429
    assert (await alone.http.get("/api/v1/me")).status_code == 200
    cookie, proof = page_of(alone)
    assert (await alone.http.get("/api/v1/me", headers={**cookie, **proof})).status_code == 200
    code = alone.server.site.tokens.link("", "watch")
    assert (await alone.http.post("/login", json={"code": code}, headers=ANONYMOUS)).status_code == 200


async def test_a_device_that_asks_without_end_is_held_back(alone: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "RATE", 0.001)
    monkeypatch.setattr(gate, "BURST", 3.0)
    other = alone.headers("watch")
    answers = [(await alone.http.get("/api/v1/me")).status_code for _ in range(6)]
    assert answers[0] == 200 and answers[-1] == 429
    assert (await alone.http.get("/api/v1/me", headers=other)).status_code == 200


async def test_every_answer_says_what_a_browser_may_do_with_it(alone: Web) -> None:
    for path in ("/", "/api/v1/me", "/nothing", "/healthz"):
        headers = (await alone.http.get(path)).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy and "http" not in policy
        assert headers["x-content-type-options"] == "nosniff" and headers["x-frame-options"] == "DENY"


async def test_another_user_of_the_machine_gets_nothing_over_the_socket_file(serving: StartWeb, tmp_path: Path) -> None:
    path = tmp_path / "page.sock"
    web = await serving(terminals=str(tmp_path), listening={"unix": str(path)})
    assert os.stat(path).st_mode & 0o077 == 0 and web.listening.port == 0
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    assert b"200 OK" in await reader.read()
    writer.close()
    if os.geteuid() == 0:  # only then can another process be tried
        code = "import socket, sys; socket.socket(socket.AF_UNIX).connect(sys.argv[1])"
        argv = ["/usr/bin/env", "-i", "python3", "-c", code, str(path)]
        os.chmod(tmp_path, 0o755)
        other = await asyncio.create_subprocess_exec(*argv, user=65534, group=65534, stderr=-1, cwd="/")
        _, said = await other.communicate()
        assert b"PermissionError" in said, said


async def test_no_token_code_or_answer_link_is_in_any_log(alone: Web, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    code = alone.server.site.tokens.link("", "watch")
    signed = await alone.http.post("/login", json={"code": code}, headers=ANONYMOUS)
    cookie = signed.cookies[alone.server.gate.cookie]
    link = f"/a/abc/1/allow/9999999999/{alone.server.site.tokens.sign('abc.1 allow', 9999999999.0)}"
    for path in ("/api/v1/me", "/api/v1/nothing", link, f"/{alone.token}", f"/api/v1/me?token={alone.token}"):
        await alone.http.get(path)
    await alone.http.post("/api/v1/devices", content=b"{", headers={"content-type": "application/json"})
    url = alone.address.replace("http", "ws") + "/socket"
    async with connect(url, additional_headers={"authorization": f"Bearer {alone.token}"}, proxy=None) as socket:
        await socket.send("nonsense")
        await socket.recv()
    clients = ("httpx2", "httpcore2", "websockets.client")
    ours = "\n".join(each.getMessage() for each in caplog.records if not each.name.startswith(clients))
    for secret in (code, cookie, signed.json()["proof"], alone.token, link):
        assert secret not in ours
