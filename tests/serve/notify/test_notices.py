"""Notices: each question once, in each place that can be told, and answered once by its link."""

import base64
import hashlib
import hmac
import time
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
from treadle.errors import ConfigError
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus, Entry
from treadle.fleet.orders import encode
from treadle.serve.notify import notices
from treadle.serve.notify.notices import Notice, Notices, parse
from treadle.serve.order_rows import OrderRow
from treadle.serve.site import Site
from treadle.serve.tokens import Tokens
from treadle.wire.fleet.records import AnswerRecord, AskRecord, Note
from treadle.wire.fleet.train import TrainRecord


async def test_a_question_is_told_once_everywhere_and_answered_from_its_link(
    fleet: places.Fleet, bus: Bus, serving: StartWeb, start_node: Start, repository: Path, tmp_path: Path
) -> None:
    log = tmp_path / "told.txt"
    tell = tmp_path / "tell"
    tell.write_text(f'#!/bin/sh\necho "$1" >> {log}\n')
    tell.chmod(0o755)
    async with receiving() as hook:
        hook.refusals = 1  # the first try fails, and is made again
        targets = (f"{hook.url}/hook", f"command:{tell}")
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
        monkeypatch.setattr(notices, "HOSTS", ("127.0.0.1",))
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


def ask(name: str, deadline: float) -> Entry:
    made = AskRecord(
        order=name, number=1, asked_at=0.0, deadline=deadline, default="deny", agent="codex", text="may I?"
    )
    return Entry(f"ask.{name}.1", encode(made), 1)


def row(name: str, needs: str, **fields: Any) -> OrderRow:
    return OrderRow(**{"id": name, "state": "failed", "changed": time.time(), "revision": 1, "needs": needs, **fields})


async def test_each_cause_is_told_once_while_it_is_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notices, "FIRST_PAUSE", 0.001)
    now = time.time()
    async with receiving() as hook:
        hook.refusals = 2
        site = Site("https://fleet.example", "", Tokens())
        told = Notices(site, (f"{hook.url}/x",))
        rows = [
            row("f", "failed", why="it broke"),
            row("r", "review", stat="1 file"),
            row("s", "review", title="bare\u200b"),
            row("old", "failed", changed=now - notices.NEWS_SECONDS - 1),
            row("q", "asks"),
            row("n", ""),
        ]
        told.on_state([ask("a", now + 60), ask("late", now - 1), Entry("ask.gone.1", b"", 3)], rows)
        told.on_state([ask("a", now + 60)], rows)
        told.on_state([], [row("f", "failed", attempt=2)])
        await hook.until(lambda _: True, count=5)
        heard = {
            (each.order, each.key): each for each in (msgspec.json.decode(one.body, type=Notice) for one in hook.heard)
        }
        assert set(heard) == {
            ("a", "a.1"),
            ("f", "f.failed.0"),
            ("f", "f.failed.2"),
            ("r", "r.review.0"),
            ("s", "s.review.0"),
        }
        asked, failed = heard["a", "a.1"], heard["f", "f.failed.0"]
        assert (asked.kind, asked.title, asked.words, asked.number) == ("asked", "a", "codex asks: may I?", 1)
        assert set(asked.links) == {"allow", "deny"} and asked.url == "https://fleet.example/#/order/a"
        assert (failed.kind, failed.title, failed.words, failed.links) == ("failed", "f", "failed: it broke", {})
        assert [heard[name, f"{name}.review.0"].words for name in "rs"] == [
            "finished: 1 file",
            "finished: to be reviewed",
        ]
        assert heard["s", "s.review.0"].title == "bare⟨U+200B⟩" and heard["r", "r.review.0"].kind == "finished"
        await site.close()


async def test_a_notice_that_was_sent_is_taken_back_by_an_answer_that_stands_or_a_train_that_goes_on() -> None:
    now = time.time()
    async with receiving() as service:
        site = Site("https://fleet.example", "", Tokens())
        key, subscription = browser(f"{service.url}/send")
        site.tokens.set_push(site.tokens.make("phone", "all")[0].id, subscription)
        told, count = Notices(site, ()), 0

        def answer(**fields: Any) -> Entry:
            return Entry("answer.a.1", encode(AnswerRecord(decision="deny", by="Ana", **fields)), 2)

        def train(by: str, at: float = now) -> Entry:
            paused = Note(at=at, by=by, what="red") if by else None
            return Entry("train.t", encode(TrainRecord(repository="r", branch="main", tip="t", paused=paused)), 3)

        async def next_message() -> Any:
            nonlocal count
            count += 1
            heard = await service.until(lambda _: True, count=count)
            return msgspec.json.decode(read_by(key, subscription, heard.body))

        told.on_state([answer(), ask("a", now + 60)], [])
        assert (await next_message())["tag"] == "a.1"
        told.on_state([answer(withdrawn=1.0)], [])
        told.on_state([answer()], [])
        over = await next_message()
        assert over["over"] and over["body"] == "Ana answered: deny"
        told.on_state([answer()], [])
        told.on_state([train("train", now - notices.NEWS_SECONDS - 1), train("ana")], [])
        told.on_state([train("train")], [])
        stopped = await next_message()
        assert "is stopped" in stopped["title"] and stopped["body"] == "0 wait: red"
        told.on_state([train("train"), train("")], [])
        assert (await next_message())["body"] == "the train of main goes on"
        told.on_state([train("train")], [])
        assert "is stopped" in (await next_message())["title"] and len(service.heard) == 5
        await site.close()


@pytest.mark.parametrize(("right", "length", "number"), [("answer", 1500, 1), ("watch", 10, None), ("all", 1501, None)])
async def test_a_browser_offers_an_answer_only_where_all_of_it_is_shown_and_may_be_given(
    right: Any, length: int, number: int | None
) -> None:
    async with receiving() as service:
        site = Site("https://fleet.example", "", Tokens())
        key, subscription = browser(f"{service.url}/send")
        site.tokens.make("other", "all")
        site.tokens.set_push(site.tokens.make("phone", right)[0].id, subscription)
        words = "x" * (length - len("codex asks: "))
        entry = Entry(
            "ask.a.1",
            encode(
                AskRecord(
                    order="a",
                    number=1,
                    asked_at=0.0,
                    deadline=time.time() + 600,
                    default="deny",
                    agent="codex",
                    text=words,
                )
            ),
            1,
        )
        Notices(site, ()).on_state([entry], [])
        heard = await service.until(lambda _: True)
        told = msgspec.json.decode(read_by(key, subscription, heard.body))
        assert (told["number"], told["order"], told["tag"], told["title"]) == (number, "a", "a.1", "a")
        assert told["body"].endswith("…") is (length > notices.PUSH_TEXT_MAX) and 500 < int(heard.headers["ttl"]) <= 600
        await site.close()


ASKED = Notice(
    key="abc.1",
    kind="asked",
    order="abc",
    title="mend <!channel> & more",
    words="native asks: rm -r build <http://evil.example|click>",
    until=2e9,
    url="https://fleet.example/#/order/abc",
    links={"allow": "https://fleet.example/a/abc/1/allow/2/f", "deny": "https://fleet.example/a/abc/1/deny/2/f"},
    number=1,
)


async def test_a_command_that_fails_is_an_error_so_that_it_is_tried_again() -> None:
    await parse("command:test 'mend <!channel> & more: native asks: rm -r build <http://evil.example|click>' =")(
        ASKED, b"k"
    )
    with pytest.raises(OSError, match="failed"):
        await parse("command:false")(ASKED, b"k")


def test_only_a_place_that_can_be_told_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://x.example/secret")
    monkeypatch.setenv("AGAIN", "env:HOOK")
    for target in ("https://x.example/y", "command:notify-send", "http://127.0.0.1:1/x"):
        assert callable(parse(target))
    assert callable(parse("env:HOOK"))
    wrong = (
        "http://plain.example",
        "ftp://x",
        "",
        "command:",
        "env:NO_SUCH",
        "env:AGAIN",
        "telegram:https://x/b#1",
    )
    for target in wrong:
        with pytest.raises(ConfigError):
            parse(target)
    with pytest.raises(ConfigError) as told:
        parse("http://hooks.example/SECRET")
    assert "SECRET" not in str(told.value)
