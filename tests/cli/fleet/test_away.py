"""`treadle fleet search`, and `phone`: a real decoder reads the code that it draws, which signs a phone in once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zxingcpp
from click.testing import CliRunner
from PIL import Image

from tests.cli.fleet.commands import stored, typed, typed_json
from treadle.cli.fleet.queries import phone
from treadle.errors import NotFound
from treadle.fleet.engine.bus import Bus
from treadle.serve import background
from treadle.serve.listening import Listening
from treadle.serve.tokens import Tokens


@pytest.fixture
def listening(state_home: Path) -> Iterator[Listening]:
    made = Listening(port=0, behind_proxy=True, names=("fleet.example",))
    try:
        with background.noted(made.address, made.unix):
            yield made
    finally:
        made.socket.close()


def read_code(drawn: str) -> str:
    """What a camera reads off these half blocks."""
    lines = [line for line in drawn.splitlines() if set(line) <= set(" ▀▄█\x1b[0123456789;m") and line.strip()]
    size = 8
    wide = max(len(line) for line in lines)
    picture = Image.new("L", (wide * size, len(lines) * 2 * size), 255)
    for row, line in enumerate(lines):
        for column, letter in enumerate(line):
            for half, light in ((0, letter in "▀█"), (1, letter in "▄█")):
                place = (column * size, (row * 2 + half) * size)
                picture.paste(255 if light else 0, (*place, place[0] + size, place[1] + size))
    (found,) = zxingcpp.read_barcodes(picture)
    return str(found.text)


def test_the_code_signs_a_phone_in_once_with_the_right_to_answer(listening: Listening) -> None:
    result = CliRunner().invoke(phone, ["--name", "Ana's phone"])
    assert result.exit_code == 0, result.output
    url = read_code(result.output)
    assert url.startswith("https://fleet.example/#") and url in result.output
    device, *_ = Tokens().exchange(url.rpartition("#")[2]) or pytest.fail("the code is worth nothing")
    assert (device.name, device.right) == ("Ana's phone", "answer")
    assert Tokens().exchange(url.rpartition("#")[2]) is None
    told = json.loads(CliRunner().invoke(phone, ["--json"]).output)
    assert told["url"].startswith("https://fleet.example/#") and (told["name"], told["right"]) == ("phone", "answer")


def test_a_server_on_plain_http_is_none_for_a_phone(state_home: Path) -> None:
    made = Listening(port=0)
    try:
        with background.noted(made.address, made.unix):
            result = CliRunner().invoke(phone)
    finally:
        made.socket.close()
    assert result.exit_code and "--local-ca" in str(result.exception)


def test_a_phone_may_do_what_was_typed_and_the_server_is_named(listening: Listening) -> None:
    result = CliRunner().invoke(phone, ["--right", "watch"])
    assert result.output.endswith("Then it may: watch.\n")
    device, *_ = Tokens().exchange(read_code(result.output).rpartition("#")[2]) or pytest.fail("worth nothing")
    assert (device.name, device.right) == ("phone", "watch")


def test_without_a_server_there_is_no_code(state_home: Path) -> None:
    assert isinstance(CliRunner().invoke(phone).exception, NotFound)


async def test_old_work_is_found_by_its_words_and_nothing_in_it_acts_on_the_terminal(bus: Bus) -> None:
    for number in range(3):
        await stored(
            bus, f"weave{number}", {"title": f"the\ncloth{number}"}, state="failed", title=f"the\ncloth{number}"
        )
    body = {"n": 1, "events": [{"type": "text_delta", "text": "the loom\x1b[2J is stuck"}, {"type": "turn_ended"}]}
    await bus.publish("fleet.ev.weave1.1.n1", json.dumps(body).encode())
    one = await typed("search", "CLOTH2", "-n", "5", both=True)
    assert one.splitlines()[0] == "weave2  failed     task     the cloth2" and len(one.splitlines()) == 2
    assert "cloth2" in one.splitlines()[1] and one.splitlines()[1].startswith("    ")
    some = await typed("search", "do", "--kind", "task", "--count", "1", both=True)
    assert some.endswith("3 texts match; these are the best of each order\n") and len(some.splitlines()) == 3
    found = await typed_json("search", "do", "weave0")
    assert [hit["order"] for hit in found["hits"]] == ["weave0"] and found["total"] == 1
    none = await typed("search", "cloth1", "--kind", "file", both=True)
    assert none == "Nothing that was said, run or touched matches.\n"
    assert await typed("search", "cloth1", "--kind", "file") == "", "a program that reads it gets hits alone"
    assert len((await typed("search", "do", "-n", "1")).splitlines()) == 2
    assert "\x1b" not in await typed("search", "loom")
    assert "Missing argument 'WORDS...'" in await typed("search", code=2)
