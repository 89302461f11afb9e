"""Each place that can be told: what arrives there, on a real HTTP server."""

import hmac

import msgspec
import pytest

from tests.serve.receiver import receiving
from treadle.errors import ConfigError, LocalError
from treadle.serve.notify.notices import TEXT_MAX, Notice, parse

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


async def test_what_is_no_question_has_one_button_that_leads_to_it() -> None:
    done = msgspec.structs.replace(ASKED, links={}, kind="finished", words="x" * TEXT_MAX)
    assert done.buttons() == [("Look", ASKED.url)] and done.cut() == done.words
    assert [word for word, _ in ASKED.buttons()] == ["Allow", "Deny"]
    longer = msgspec.structs.replace(done, words="x" * (TEXT_MAX + 1))
    assert longer.cut() == f"{'x' * TEXT_MAX}… (the link shows all of it)"


async def test_a_chat_that_answers_with_no_json_has_a_message_that_cannot_be_changed() -> None:
    async with receiving() as place:
        for reply in (b"", b"[]"):
            place.reply = reply
            with pytest.raises(KeyError):
                await parse(f"telegram:{place.url}/botT#1")(ASKED, b"k")
        sent = msgspec.json.decode(place.heard[0].body)
        assert sent["text"] == f"{ASKED.title}\n\n{ASKED.words}"
        assert sent["link_preview_options"] == {"is_disabled": True}
        await parse(f"slack:{place.url}/s")(ASKED, b"k")
        slack = msgspec.json.decode(place.heard[-1].body)
        assert slack["unfurl_links"] is False and slack["blocks"][0]["text"]["emoji"] is False


def test_a_target_from_the_environment_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "env:TWO")
    monkeypatch.setenv("TWO", "https://x.example")
    with pytest.raises(ConfigError, match="the environment has no ONE"):
        parse("env:ONE")
    with pytest.raises(ConfigError, match="needs the chat"):
        parse("telegram:https://x/b")
    with pytest.raises(ConfigError, match=r"the kind 'ftp' is not a target .*command:PROGRAM or env:NAME"):
        parse("ftp://x")
