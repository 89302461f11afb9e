"""`treadle fleet phone`: the code that it draws on a terminal is read by a real decoder, and signs a phone in once."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import zxingcpp
from click.testing import CliRunner
from PIL import Image

from treadle.cli.fleet.away import phone
from treadle.serve import running
from treadle.serve.listening import Listening
from treadle.serve.tokens import Tokens


@pytest.fixture
def listening(state_home: Path) -> Iterator[Listening]:
    made = Listening(port=0, behind_proxy=True, names=("fleet.example",))
    try:
        with running.noted(made.address, made.unix):
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
        with running.noted(made.address, made.unix):
            result = CliRunner().invoke(phone)
    finally:
        made.socket.close()
    assert result.exit_code and "--local-ca" in str(result.exception)
