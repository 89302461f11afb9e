"""What every request passes: nobody gets in by another name, another page, a guess, or sheer size."""

import asyncio
import os
from pathlib import Path

import pytest
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from tests.serve.conftest import Follow, StartWeb, Web
from treadle.serve import gate

ANONYMOUS = {"authorization": ""}


async def test_without_a_token_there_is_only_the_page_itself(alone: Web) -> None:
    for path in ("/", "/style.css", "/healthz", "/readyz"):
        assert (await alone.http.get(path, headers=ANONYMOUS)).status_code == 200, path
    for path in ("/api/v1/terminals", "/api/v1/orders", "/metrics", "/openapi.json", "/api/v1/changes", "/nothing"):
        response = await alone.http.get(path, headers=ANONYMOUS)
        assert response.status_code == 401 and response.json()["error"]["code"] == "unauthorized", path


async def test_a_name_that_was_made_to_point_here_is_refused(alone: Web) -> None:
    for name in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil"):
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


async def test_a_cookie_is_only_taken_from_our_own_pages(alone: Web) -> None:
    cookie = {"authorization": "", "cookie": f"treadle_{alone.listening.port}={alone.token}"}
    assert (await alone.http.get("/api/v1/me", headers=cookie)).status_code == 200
    bare = await alone.http.post("/api/v1/devices", json={}, headers=cookie)
    assert bare.status_code == 403
    from_us = await alone.http.post("/api/v1/devices", json={}, headers={**cookie, "origin": alone.address})
    assert from_us.status_code == 201
    across = {**cookie, "sec-fetch-site": "cross-site"}
    assert (await alone.http.post("/api/v1/devices", json={}, headers=across)).status_code == 403


async def test_a_socket_from_another_origin_or_without_a_token_is_refused(alone: Web, follow: Follow) -> None:
    url = alone.address.replace("http", "ws") + "/socket"
    token = {"authorization": f"Bearer {alone.token}"}
    cookie = {"cookie": f"treadle_{alone.listening.port}={alone.token}"}
    tries = (
        {**token, "origin": "https://evil.example"},
        {**cookie, "origin": "https://evil.example"},
        cookie,
        {},
        {**token, "host": "evil.example"},
    )
    for headers in tries:
        with pytest.raises((InvalidStatus, ConnectionClosed)):
            async with connect(url, additional_headers=headers, proxy=None) as open_socket:
                await open_socket.recv()
    async with connect(url, additional_headers={**cookie, "origin": alone.address}, proxy=None) as ours:
        assert "hello" in str(await ours.recv())


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
    if os.geteuid() == 0:  # only then can somebody else be tried
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
    for secret in (code, cookie, alone.token, link):
        assert secret not in ours
