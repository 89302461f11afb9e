"""Notices and answer links: each question once, a look answers nothing, a button answers once."""

import base64
import hashlib
import hmac
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from tests.fleet.conftest import Start, give, until_state
from tests.fleet.repositories import edits, work
from tests.serve.conftest import WAIT, StartWeb, Web
from tests.serve.notify.test_push import browser, read_by
from tests.serve.receiver import receiving
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus
from treadle.serve.notify import push
from treadle.serve.tokens import Device


async def test_a_question_is_told_once_everywhere_and_answered_from_its_link(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    log = tmp_path / "told.txt"
    tell = tmp_path / "tell"
    tell.write_text(f'#!/bin/sh\necho "$1" >> {log}\n')
    tell.chmod(0o755)
    async with receiving() as hook, receiving() as telegram:
        hook.refusals = 1  # the first try fails, and is made again
        telegram.reply = b'{"ok": true, "result": {"message_id": 7}}'
        targets = (f"{hook.url}/hook", f"telegram:{telegram.url}/botT#42", f"command:{tell}")
        web = await serving(terminals=str(tmp_path), notify=targets)
        await web.until_up()
        await start_node()
        order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
        await give(bus, order)
        await until_state(bus, order.id, "asking")
        heard = await hook.until(lambda each: b'"asked"' in each.body)
        told = msgspec.json.decode(heard.body)
        signature = hmac.new(web.server.site.tokens.key(), heard.body, hashlib.sha256).hexdigest()
        assert heard.headers["x-treadle-signature"] == f"sha256={signature}"
        assert told["ask"]["command"] == "install /dev/null asked.txt"
        await _answer_from(told["links"]["allow"], bus, order.id)
        # Where it can be, the message says that someone has answered, and its buttons are gone.
        changed = await telegram.until(lambda each: each.path == "/botT/editMessageText")
        edited = msgspec.json.decode(changed.body)
        assert edited["message_id"] == 7 and "answered: allow" in edited["text"] and "reply_markup" not in edited
        assert (await client.wait(bus, order.id, 90)).state == "done"
        await hook.until(lambda each: b'"finished"' in each.body)
        assert len([each for each in hook.heard if b'"asked"' in each.body]) == 1
        assert log.read_text().count("install /dev/null asked.txt") == 1


async def _answer_from(link: str, bus: Bus, order: str) -> None:
    async with httpx2.AsyncClient(timeout=WAIT, trust_env=False) as anybody:
        for _ in range(2):  # chat programs look at every link that they show
            shown = await anybody.get(link)
            assert shown.status_code == 200 and "install /dev/null asked.txt" in shown.text and "<form" in shown.text
            assert (await anybody.head(link)).status_code in (200, 405)
        assert (await client.get_order(bus, order)).state == "asking"
        forged = await anybody.post(link.replace("/allow/", "/deny/"))
        assert forged.status_code == 403
        done = await anybody.post(link)
        assert "Answered: allow" in done.text
        again = await anybody.post(link)
        assert "Answered" not in again.text


async def test_a_closed_browser_is_told_once_and_the_notice_goes_when_somebody_else_answers(
    fleet: places.Fleet,
    bus: Bus,
    web: Web,
    start_node: Start,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with receiving() as service:
        monkeypatch.setattr(push, "HOSTS", ("127.0.0.1",))
        key, subscription = browser(f"{service.url}/send/abc")
        device, _ = web.server.site.tokens.make("phone", "answer")
        web.server.site.tokens.set_push(device.id, subscription)
        await start_node()
        order = work(repository, edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt"))
        await give(bus, order)
        first = await service.until(lambda each: each.path == "/send/abc")
        told = msgspec.json.decode(read_by(key, subscription, first.body))
        assert told["tag"] == f"{order.id}.1" and "install /dev/null asked.txt" in told["body"] and told["number"] == 1
        assert _vapid(first.headers["authorization"])["aud"] == service.url
        await client.answer(bus, order.id, "deny", by="Ana", number=1)
        second = await service.until(lambda each: True, count=2)
        over = msgspec.json.decode(read_by(key, subscription, second.body))
        assert over["over"] is True and over["tag"] == told["tag"] and over["body"] == "Ana answered: deny"
        assert second.headers["topic"] == first.headers["topic"], "one that was away gets only the later one"


def _vapid(header: str) -> dict[str, Any]:
    """The claims of a signed header, once its signature was checked with the key that it names."""
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
    from cryptography.hazmat.primitives.hashes import SHA256

    fields = dict(part.split("=", 1) for part in header.removeprefix("vapid ").split(", "))
    head, claims, signature = fields["t"].split(".")
    raw = base64.urlsafe_b64decode(signature + "==")
    public = ec.EllipticCurvePublicKey.from_encoded_point(
        ec.SECP256R1(), base64.urlsafe_b64decode(fields["k"] + "=" * (-len(fields["k"]) % 4))
    )
    both = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    public.verify(both, f"{head}.{claims}".encode(), ec.ECDSA(SHA256()))
    return dict(msgspec.json.decode(base64.urlsafe_b64decode(claims + "==")))


async def test_a_subscription_that_was_given_up_is_forgotten(alone: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiving() as service:
        service.status = "410 Gone"
        _, subscription = browser(f"{service.url}/send/abc")
        made, _ = alone.server.site.tokens.make("phone", "answer")
        alone.server.site.tokens.set_push(made.id, subscription)

        def device() -> Device:
            return next(each for each in alone.server.site.tokens.read().devices if each.id == made.id)

        await push.send(alone.server.site, device(), {"tag": "x"}, seconds=1)
        assert device().push is None
