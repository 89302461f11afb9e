"""What every request passes: nobody gets in by another name, another page, a guess, or sheer size."""

import asyncio
import os
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from tests.serve.conftest import Follow, StartWeb, Web
from treadle.serve import gate
from treadle.serve.server import WebServer
from treadle.serve.tokens import Right, Tokens

ANONYMOUS = {"authorization": ""}


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


async def test_a_page_of_another_origin_may_do_nothing(alone: Web) -> None:
    origins = ("https://evil.example", "null", "http://127.0.0.1:1", "http://localhost.evil.example", "file://")
    for origin in origins:
        response = await alone.http.get("/api/v1/terminals", headers={"origin": origin})
        assert response.status_code == 403, origin
        assert "access-control-allow-origin" not in response.headers
    preflight = await alone.http.request(
        "OPTIONS", "/api/v1/terminals", headers={"origin": origins[0], "access-control-request-method": "POST"}
    )
    assert preflight.status_code == 403
    own = await alone.http.get("/api/v1/terminals", headers={"origin": alone.address})
    assert own.status_code == 200


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


async def test_a_page_has_its_own_right_whatever_token_is_beside_it(alone: Web) -> None:
    cookie, proof = page_of(alone, "watch")
    assert (await alone.http.get("/api/v1/me", headers={**cookie, **proof})).json()["right"] == "watch"
    from_us = {**cookie, **proof, "origin": alone.address}
    assert (await alone.http.post("/api/v1/devices", json={}, headers=from_us)).status_code == 403


async def test_a_cookie_is_only_taken_from_our_own_pages(alone: Web) -> None:
    cookie, proof = page_of(alone)
    ours = {**cookie, **proof}
    assert (await alone.http.get("/api/v1/me", headers=ours)).status_code == 200
    bare = await alone.http.post("/api/v1/devices", json={}, headers=ours)
    assert bare.status_code == 403
    from_us = await alone.http.post("/api/v1/devices", json={}, headers={**ours, "origin": alone.address})
    assert from_us.status_code == 201
    across = {**ours, "sec-fetch-site": "cross-site"}
    assert (await alone.http.post("/api/v1/devices", json={}, headers=across)).status_code == 403


async def test_over_tls_no_other_server_of_the_name_can_set_the_cookie(tmp_path: Path) -> None:
    plain, secure = (
        WebServer(address=address, names=("x",), terminals=str(tmp_path), tokens=Tokens(str(tmp_path / "tokens")))
        for address in ("http://x:1", "https://x:1")
    )
    assert plain.gate.cookie == "treadle_1" and secure.gate.cookie == "__Host-treadle_1"


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


async def test_a_body_is_bounded_whether_it_says_its_size_or_not(alone: Web) -> None:
    huge = {"content-type": "application/json", "content-length": str(10**9)}
    reader, writer = await asyncio.open_connection("127.0.0.1", alone.listening.port)
    lines = "".join(f"{name}: {value}\r\n" for name, value in huge.items())
    head = f"POST /login HTTP/1.1\r\nhost: localhost:{alone.listening.port}\r\n{lines}\r\n"
    writer.write(head.encode())
    assert b" 413 " in await asyncio.wait_for(reader.readline(), 60)
    writer.close()

    async def endless() -> "object":
        for _ in range(64):
            yield b"x" * 65536

    response = await alone.http.post("/api/v1/devices", content=endless(), headers={"content-type": "application/json"})
    assert response.status_code == 413


async def test_guessing_ends_after_a_few_tries_and_costs_others_nothing(alone: Web) -> None:
    wrong = {"authorization": "Bearer wrong"}
    answers = [(await alone.http.get("/api/v1/me", headers=wrong)).status_code for _ in range(gate.FAILURES_MAX + 1)]
    assert answers[0] == 401 and answers[-1] == 429
    response = await alone.http.get("/healthz", headers=ANONYMOUS)
    assert response.status_code == 200


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
