"""Looking at orders."""

import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.cli.fleet.commands import as_json, fleet, stored, typed, typed_json
from tests.fleet.conftest import repository as repository
from tests.fleet.repositories import edits
from tests.installed import TREADLE
from treadle.cli.fleet import fleet as group
from treadle.fleet.engine.bus import Bus
from treadle.host.store import ReceiptStore
from treadle.wire.fleet.records import Used


def told_how_to_answer(*arguments: str) -> str:
    """What a command says that waits for an order, which is answered as soon as it says how."""
    with subprocess.Popen([TREADLE, "fleet", *arguments], stderr=subprocess.PIPE, text=True) as waiting:
        try:
            assert waiting.stderr is not None
            said = ""
            while (found := re.search(r"treadle fleet answer (\w+) allow\|deny", said)) is None:
                line = waiting.stderr.readline()
                assert line, said
                said += line
            fleet("answer", found[1], "deny")
            return said + waiting.stderr.read()
        finally:
            waiting.kill()


@pytest.mark.slow
def test_who_waits_or_follows_is_told_that_it_asks_and_how_to_answer(
    running: None, repository: Path, tmp_path: Path
) -> None:
    model = edits(tmp_path, "x", "a.txt", "two", "install /dev/null asked.txt")
    words = ["submit", "do it", "--root", str(repository), "--agent", "native", "--model", model]
    said = told_how_to_answer(*words, "--wait")
    (first,) = as_json("ls")
    assert f"{first['id']} asks: " in said and "install /dev/null asked.txt" in said
    assert said.count(f"treadle fleet answer {first['id']} allow|deny") == 1
    second = fleet(*words).split()[0]
    assert f"treadle fleet answer {second} allow|deny" in told_how_to_answer("logs", second, "-f")
    assert "asks: " not in CliRunner().invoke(group, ["wait", first["id"], second]).stderr, "both have ended"
    assert len(ReceiptStore()) == 2 and ReceiptStore().check() == [], "`treadle receipt` shows what orders did"


async def test_orders_are_listed_latest_first_and_by_what_they_are(bus: Bus) -> None:
    assert await typed("ls", both=True) == "There are no such orders.\n" and await typed("ls") == ""
    await stored(bus, "one", state="failed", why="it\nbroke", agent="a" * 21, labels=("l",), title="t" * 71)
    used = Used(input_tokens=1500, usd=0.5)
    await stored(bus, "two", state="asking", why="not shown", project="p", node="n1", attempt=2, used=used)
    await stored(bus, "three", state="done", why="not shown", changed=time.time() - 130)
    head, *rows = [line.split() for line in (await typed("ls")).splitlines()]
    assert head == ["ORDER", "STATE", "AGE", "AGENT", "NODE", "TRY", "USED", "TITLE"]
    assert rows == [
        ["three", "done", "2m", "-", "0", "-", "three"],
        ["two", "asking!", rows[1][2], "n1", "2", "1.5k", "0.50", "USD", "two"],
        ["one", "failed", rows[2][2], "a" * 20, "-", "0", "-", "t" * 70, "(it", "broke)"],
    ]

    async def listed(*words: str) -> list[str]:
        return [order["id"] for order in await typed_json("ls", *words)]

    assert await listed("-n", "2") == ["three", "two"] and await listed("--active") == ["two"]
    assert await listed("--state", "done", "--state", "failed") == ["three", "one"]
    assert await listed("--label", "l") == await listed("--agent", "a" * 21) == ["one"]
    assert await listed("--project", "p") == ["two"] and await listed("--project", "q") == []


async def test_events_are_shown_by_attempt_with_what_is_missing_and_how_it_ended(bus: Bus) -> None:
    name = await stored(bus, "order1", state="done")
    text = [{"type": "text_delta", "text": f"word {number} "} for number in range(2)]
    bodies = [(1, {"n": 1, "events": text}), (1, {"n": 5, "events": [{"type": "text_delta", "text": "more"}]})]
    bodies += [(1, {"end": "lost", "why": "n1\nis gone"}), (2, {"n": 1, "events": [{"type": "odd\x1b"}]})]
    at = [await bus.publish(f"fleet.ev.{name}.{attempt}.n1", json.dumps(body).encode()) for attempt, body in bodies]
    whole = (
        "-- attempt 1 --\nword 0 word 1 -- 2 events are missing here --\nmore-- lost: n1 is gone --\n"
        "-- attempt 2 --\n{'type': 'odd\\x1b'}\n"
    )
    assert await typed("logs", "ord") == await typed("logs", name, "-f") == whole
    lines = [json.loads(line) for line in (await typed("logs", name, "--json")).splitlines()]
    assert [(line["attempt"], line["n"]) for line in lines] == [(1, 1), (1, 2), (1, 5), (1, 6), (2, 1)]
    for more in ((), ("-f",)):
        after = await typed("logs", name, "--from", str(lines[3]["at"]), "--json", *more)
        assert [json.loads(line)["attempt"] for line in after.splitlines()] == [2], at
    assert await typed("logs", await stored(bus, "none")) == ""


async def test_waiting_ends_with_how_the_worst_ended_or_gives_up(bus: Bus) -> None:
    for name, state in (("fine", "done"), ("red", "failed"), ("off", "cancelled"), ("ask", "asking")):
        await stored(bus, name, state=state, open_ask=f"{name}.1")
    assert "fine" in await typed("wait", "fine") and "red" in await typed("wait", "fine", "red", code=3)
    assert "off" in await typed("wait", "red", "off", code=4)
    late = await typed("wait", "fine", "ask", "--timeout", "0.1", code=124)
    assert late == "treadle: the order ask has not ended within 0.1 s\n"
    assert [order["id"] for order in await typed_json("wait", "ask", "fine", "--or-asks")] == ["ask", "fine"]
    assert "asking!" in await typed("wait", "ask", "red", "--or-asks", code=3)
