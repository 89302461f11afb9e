"""Each place that can be told: what arrives there, on a real HTTP server."""

import msgspec
import pytest

from tests.serve.receiver import receiving
from treadle.errors import ConfigError
from treadle.serve.notify.notice_targets import TEXT_MAX, Notice, parse

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
    await parse("command:true")(ASKED, b"k")
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
