"""Looking at orders, and what a person types in a day."""

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
from treadle.cli.help import rows
from treadle.fleet.engine.bus import Bus
from treadle.fleet.orders import encode
from treadle.host.store import ReceiptStore
from treadle.wire.fleet.records import Attempt, Note, OrderReceipt, SayRecord, Used


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


def test_what_down_does_is_said_also_where_there_is_no_terminal(running: None) -> None:
    said = CliRunner().invoke(group, ["down"])
    assert said.exit_code == 0 and "engine" in said.stderr


def test_a_day_with_a_fleet(running: None, tmp_path: Path) -> None:
    assert as_json("status")["scheduler"] == "n1"
    order = fleet("submit", "do nothing", "--agent", "null:0.2:3", "--idempotency-key", "k", "--wait").split()[0]
    assert "(given before)" in fleet("submit", "do nothing", "--agent", "null:0.2:3", "--idempotency-key", "k")
    assert as_json("ls")[0]["id"] == order and order in fleet("ls", "--state", "done")
    shown = fleet("show", order[:6])
    assert "attempt   1 on n1, done" in shown and "receipt   sha256" in shown
    assert fleet("logs", order).count(" of 3") == 3
    lines = [json.loads(line) for line in fleet("logs", order, "--json").splitlines()]
    assert [line["n"] for line in lines] == [1, 2, 3]
    assert "done" in fleet("explain", order)
    assert rows("orders") == f"{order}\tdone: do nothing\n", "what a Tab offers"
    slow = fleet("submit", "sleep", "--agent", "null:60:60").strip()
    fleet("cancel", slow, "--why", "enough", "--wait")
    assert "cancelled" in fleet("wait", slow, code=4)
    assert "ended already" in fleet("cancel", slow, code=1)
    again = fleet("retry", slow).strip()
    assert again != slow and as_json("show", again)["spec"]["retry_of"] == slow
    fleet("cancel", again, "--wait")
    assert as_json("budget", "fleet", "--max-tokens", "5") == {"scope": "fleet", "tokens": 5}
    assert as_json("limit", "agent:claude", "2") == {"scope": "agent:claude", "most": 2}
    fleet("pause", "label:x", "--why", "later")
    fleet("resume", "label:x")
    fleet("drain", "n1", "--undo")
    assert "n1" in fleet("nodes") and as_json("approvals") == []
    assert "no order" in fleet("show", "nothing", code=1)


def test_changes_are_told_as_they_happen_one_in_a_line(running: None) -> None:
    before = fleet("submit", "first", "--agent", "null", "--project", "p", "--wait").split()[0]
    argv = [TREADLE, "fleet", "ls", "--watch", "--project", "p"]
    with (
        subprocess.Popen([*argv, "--json"], stdout=subprocess.PIPE, text=True) as watching,
        subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as reading,
    ):
        try:
            assert watching.stdout is not None and json.loads(watching.stdout.readline())["id"] == before
            assert reading.stdout is not None and reading.stdout.readline().startswith("ORDER ")
            assert reading.stdout.readline().startswith(f"{before} ")
            fleet("submit", "of another project", "--agent", "null", "--wait")
            after = fleet("submit", "second", "--agent", "null", "--project", "p", "--wait").split()[0]
            seen = [json.loads(watching.stdout.readline())]
            while seen[-1]["state"] != "done":
                seen.append(json.loads(watching.stdout.readline()))
            assert {order["id"] for order in seen} == {after}
            assert re.fullmatch(rf"\d\d:\d\d:\d\d  {after}  \w+ +second\n", reading.stdout.readline())
        finally:
            watching.kill()
            reading.kill()


ENDED = {
    "why": "it broke",
    "attempts": (
        Attempt(number=1, node="n1", placed=1.0, ended=3.5, outcome="handed_back", why="od\nd", resumed="session"),
        Attempt(number=2, node="n2", placed=4.0, resumed="brief", output="\n".join(f"line\x1b {n}" for n in range(11))),
        Attempt(number=3, node="n3", placed=4.0),
    ),
    "notes": (Note(at=3.0, by="ann", what="did\nit"),),
    "result": {
        **{"branch": "b1", "verified": True, "clean": False, "files": 3, "names": ["a", "b"], "stat": "x" * 301},
        **{"capsule": "hidden", "base": "b0", "empty": "", "none": None, "list": []},
    },
}


async def test_all_that_is_known_of_an_order_is_shown_and_nothing_empty(bus: Bus) -> None:
    given = {"model": "m", "root": "/r", "base": "b0", "claims": ("c", "d"), "verify": "make", "labels": ("l",)}
    name = await stored(bus, "order1", {**given, "after": ("x", "y")}, state="failed", **ENDED)
    receipt = OrderReceipt(
        order=name, outcome="failed", approvals=[{"decision": "allow", "by": "ann", "text": "fi\nne"}]
    ).sealed()
    await bus.put(f"receipt.{name}", encode(receipt))
    await bus.put(f"say.{name}.1", encode(SayRecord(text="hi\nthere", by="bob", state="delivered")))
    assert (await typed("show", "ord")).splitlines() == [
        "order1  failed: it broke",
        "task      do order1",
        "agent     null",
        "model     m",
        "root      /r",
        "base      b0",
        "claims    c, d",
        "verify    make",
        "labels    l",
        "after     x, y",
        "attempt   1 on n1, in the session of the one before, handed back after 2.5 s: od d",
        "attempt   2 on n2, with a brief of what was done",
        *(f"          | line\ufffd {number}" for number in range(1, 11)),
        "attempt   3 on n3",
        f"note      {time.strftime('%H:%M:%S', time.localtime(3))} ann: did it",
        "message   [delivered] bob: hi there",
        "branch    b1",
        "verified  yes",
        "clean     no",
        "files     3",
        "names     a, b",
        f"stat      {'x' * 300}",
        "answered  allow by ann: fi ne",
        f"receipt   sha256 {receipt.sha256}",
    ]
    found = await typed_json("show", name)
    assert found["why"] == {} and found["receipt"]["sha256"] == receipt.sha256
    await stored(bus, "young", state="queued")
    assert (await typed("show", "young")).splitlines() == [
        "young  queued",
        "task      do young",
        "agent     null",
        "waits     no scheduler is up: `treadle fleet up`",
    ]
    assert await typed("explain", "young") == (
        "state     queued\nwaits     no scheduler is up: `treadle fleet up` (scheduler)\n"
    )
    assert await typed("explain", name) == "state     failed: it broke\n"
    assert (await typed_json("explain", name))["why"] == "it broke"


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
