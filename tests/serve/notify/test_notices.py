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
from treadle.errors import ConfigError, LocalError
from treadle.fleet import client
from treadle.fleet.engine import places
from treadle.fleet.engine.bus import Bus, Entry
from treadle.fleet.find.order_rows import OrderRow
from treadle.fleet.orders import encode
from treadle.serve.notify import notices
from treadle.serve.notify.notices import TEXT_MAX, Notice, Notices, parse
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
    async with receiving() as chat:
        chat.reply = b'{"ok": true, "result": {"message_id": 7}}'
        site = Site("https://fleet.example", "", Tokens())
        told = Notices(site, (f"telegram:{chat.url}/botT#42",))

        def answer(**fields: Any) -> Entry:
            return Entry("answer.a.1", encode(AnswerRecord(decision="deny", by="Ana", **fields)), 2)

        def train(by: str, at: float = now) -> Entry:
            paused = Note(at=at, by=by, what="red") if by else None
            return Entry("train.t", encode(TrainRecord(repository="r", branch="main", tip="t", paused=paused)), 3)

        told.on_state([answer(), ask("a", now + 60)], [])
        await chat.until(lambda each: each.path == "/botT/sendMessage")
        told.on_state([answer(withdrawn=1.0)], [])
        told.on_state([answer()], [])
        changed = await chat.until(lambda each: each.path == "/botT/editMessageText")
        assert b"Ana answered: deny" in changed.body
        told.on_state([answer()], [])
        told.on_state([train("train", now - notices.NEWS_SECONDS - 1), train("ana")], [])
        told.on_state([train("train")], [])
        stopped = await chat.until(lambda each: b"stands still" in each.body)
        assert b"0 wait: red" in stopped.body
        told.on_state([train("train"), train("")], [])
        await chat.until(lambda each: b"the train of main goes on" in each.body)
        told.on_state([train("train")], [])
        await chat.until(lambda each: b"stands still" in each.body and each.path == "/botT/sendMessage", count=2)
        assert [each.path for each in chat.heard].count("/botT/sendMessage") == 3
        assert [each.path for each in chat.heard].count("/botT/editMessageText") == 2
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


async def test_ntfy_has_a_title_words_and_two_buttons() -> None:
    async with receiving() as place:
        await parse(f"ntfy:{place.url}/topic")(ASKED, b"k")
        (heard,) = place.heard
        assert heard.path == "/topic" and heard.body.decode() == ASKED.words
        assert heard.headers["title"] == ASKED.title and heard.headers["click"] == ASKED.url
        for decision, link in ASKED.links.items():
            assert f"view, {decision.capitalize()}, {link}, clear=true" in heard.headers["actions"]


async def test_slack_shows_plain_text_that_mentions_nobody_and_links_that_are_ours() -> None:
    async with receiving() as place:
        await parse(f"slack:{place.url}/services/x")(ASKED, b"k")
        sent = msgspec.json.decode(place.heard[0].body)
        assert sent["text"] == "mend &lt;!channel&gt; &amp; more"
        assert all(block["text"]["type"] == "plain_text" for block in sent["blocks"] if "text" in block)
        (actions,) = [block for block in sent["blocks"] if block["type"] == "actions"]
        assert [each["url"] for each in actions["elements"]] == list(ASKED.links.values())


async def test_telegram_has_buttons_and_can_be_changed_afterwards() -> None:
    async with receiving() as place:
        place.reply = b'{"ok": true, "result": {"message_id": 12}}'
        take_back = await parse(f"telegram:{place.url}/botSECRET#-100")(ASKED, b"k")
        sent = msgspec.json.decode(place.heard[0].body)
        assert place.heard[0].path == "/botSECRET/sendMessage" and sent["chat_id"] == "-100"
        assert [each["url"] for each in sent["reply_markup"]["inline_keyboard"][0]] == list(ASKED.links.values())
        assert "parse_mode" not in sent, "the words are no markup"
        assert take_back is not None
        await take_back("Ana answered: deny")
        changed = msgspec.json.decode(place.heard[1].body)
        assert changed["message_id"] == 12 and changed["text"].endswith("Ana answered: deny")


async def test_what_is_too_long_is_cut_and_says_so() -> None:
    long = msgspec.structs.replace(ASKED, words="x" * 100_000)
    async with receiving() as place:
        await parse(f"ntfy:{place.url}/topic")(long, b"k")
        assert len(place.heard[0].body) < TEXT_MAX + 100 and "the link shows all of it" in place.heard[0].body.decode()


async def test_a_command_that_fails_is_an_error_so_that_it_is_tried_again() -> None:
    await parse("command:test 'mend <!channel> & more: native asks: rm -r build <http://evil.example|click>' =")(
        ASKED, b"k"
    )
    with pytest.raises(OSError, match="failed"):
        await parse("command:false")(ASKED, b"k")


def test_only_a_place_that_can_be_told_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK", "https://x.example/secret")
    for target in ("https://x.example/y", "ntfy:https://n.example/t", "command:notify-send", "http://127.0.0.1:1/x"):
        assert callable(parse(target))
    assert callable(parse("env:HOOK")) and callable(parse("telegram:https://t.example/botX#1"))
    wrong = (
        "http://plain.example",
        "ntfy:http://plain.example",
        "ftp://x",
        "",
        "command:",
        "env:NO_SUCH",
        "telegram:https://x/b",
    )
    for target in wrong:
        with pytest.raises(ConfigError):
            parse(target)
    with pytest.raises(ConfigError) as told:
        parse("slack:http://hooks.example/SECRET")
    assert "SECRET" not in str(told.value)


async def test_a_webhook_gets_the_whole_notice_signed_with_the_key() -> None:
    async with receiving() as place:
        for target in (f"{place.url}/hook", place.url.replace("127.0.0.1", "localhost") + "/hook"):
            assert await parse(target)(ASKED, b"k") is None
        heard = place.heard[0]
        assert (heard.path, heard.headers["content-type"]) == ("/hook", "application/json")
        assert heard.headers["x-treadle-signature"] == f"sha256={hmac.new(b'k', heard.body, 'sha256').hexdigest()}"
        assert msgspec.json.decode(heard.body, type=Notice) == ASKED
        place.status = "500 Broken"
        with pytest.raises(LocalError, match="127.0.0.1 answered 500$"):
            await parse(f"{place.url}/hook")(ASKED, b"k")


def test_a_target_from_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "env:TWO")
    monkeypatch.setenv("TWO", "https://x.example")
    with pytest.raises(ConfigError, match="the environment has no ONE"):
        parse("env:ONE")
    with pytest.raises(ConfigError, match="needs the chat"):
        parse("telegram:https://x/b")
    with pytest.raises(ConfigError, match=r"the kind 'ftp' is not a target .*command:PROGRAM or env:NAME"):
        parse("ftp://x")
