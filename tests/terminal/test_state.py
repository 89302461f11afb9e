"""What the program is doing, from everything that tells: at every labelled moment of real agents' recordings."""

import base64
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.recordings import NAMES, load
from tests.terminal.support import Stage, connected, until
from treadle.terminal.settings import Settings
from treadle.terminal.state import STALE, Watch
from treadle.wire.terminal import frames as wire


def watcher(classifier: str = "claude", path: str = "/nowhere") -> Watch:
    settings = Settings()
    settings.classifier = classifier
    return Watch(settings, 0, path)


def say(watch: Watch, text: str, now: int) -> bytes:
    return watch.output(text.encode(), now, answered=False)


def truth(detail: dict[str, Any]) -> str:
    if detail["waiting_for"]:
        return str(detail["waiting_for"])
    return "done" if detail["done"] else str(detail["name"])


@pytest.mark.parametrize("piece", [None, 7], ids=["as read", "in pieces of 7 bytes"])
@pytest.mark.parametrize("name", NAMES)
def test_at_every_labelled_moment_the_state_is_the_true_one(name: str, piece: int | None) -> None:
    recording = load(name)
    watch, at = watcher(), 0
    reads = iter(recording.reads)
    for moment in recording.moments[:-1]:
        while at < moment["byte"]:
            now, upto = next(reads)
            for left in range(at, upto, piece or upto - at):
                watch.output(recording.data[left : min(upto, left + (piece or upto))], now, answered=False)
            at = upto
        detail = watch.detail(moment["ms"])
        expected = {"thinking", "streaming", "tool_use"} if moment["truth"] == "working" else {moment["truth"]}
        assert truth(detail) in expected, f"at {moment['ms']} ms"
        waits = detail["waiting_for"] or detail["name"] == "idle"
        assert (watch.state(moment["ms"])[0] == wire.IDLE) == bool(waits)
        assert detail["why"]["source"] in ("osc 7501", "title", "screen") and detail["why"]["said"]


def test_what_is_asked_of_a_person_is_told_in_the_agents_words() -> None:
    message = base64.b64encode("approve Bash: rm -rf build · now".encode()).decode()
    watch = watcher()
    say(watch, f"\x1b]7501;state=blocked:app=claude-code:kind=permission:msg={message}\x07", 10)
    detail = watch.detail(20)
    assert (detail["waiting_for"], detail["message"]) == ("permission", "approve Bash: rm -rf build · now")
    assert detail["why"] == {"source": "osc 7501", "said": detail["why"]["said"]}


@pytest.mark.parametrize(
    ("classifier", "allowed"), [("simple", {0x00, 0x04}), ("none", {0x00}), ("claude", {0x00, 0x01, 0x02, 0x03})]
)
def test_evidence_never_makes_a_classifier_say_what_is_not_its_to_say(classifier: str, allowed: set[int]) -> None:
    watch, seen = watcher(classifier), set()
    recording, at = load("claude-reports"), 0
    for now, upto in recording.reads:
        watch.output(recording.data[at:upto], now, answered=False)
        seen.add(watch.state(now)[0])
        at = upto
    assert seen <= allowed
    assert classifier == "none" or len(seen) > 1
    watch.died(99_999)
    assert watch.state(100_000) == (wire.DEAD, 99_999)


def test_work_that_is_reported_while_nothing_moves_is_not_believed_for_ever() -> None:
    watch = watcher()
    say(watch, "\x1b]7501;state=working:app=codex\x07", 0)
    assert watch.detail(STALE - 1)["name"] == "thinking"
    assert watch.detail(STALE)["name"] == "idle"
    assert watch.detail(STALE)["why"]["source"] == "rhythm"


def test_a_report_that_is_cleared_leaves_the_rhythm() -> None:
    watch = watcher("simple")
    say(watch, "\x1b]7501;state=working:app=codex\x07", 0)
    say(watch, "\x1b]7501;state=clear\x07", 10)
    assert watch.detail(20)["why"]["source"] == "rhythm"


def test_child_records_are_counted_and_change_nothing_else() -> None:
    watch = watcher()
    say(watch, "\x1b]7501;state=idle:app=claude-code\x07\x1b]7501;state=working:id=a1:title=eA==\x07", 0)
    assert (watch.detail(1)["name"], watch.detail(1)["tasks"]) == ("idle", 1)
    say(watch, "\x1b]7501;state=clear:id=a1\x07", 2)
    assert watch.detail(3)["tasks"] == 0


def test_an_ordinary_shell_title_is_no_evidence() -> None:
    watch = watcher("simple")
    say(watch, "\x1b]0;user@host: ~/work\x07$ ", 0)
    assert watch.detail(1)["why"]["source"] == "rhythm"


def test_the_state_file_of_an_agents_hooks_counts_and_the_newest_word_wins(tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    watch = watcher("claude", str(path))
    path.write_text("working\n")
    assert watch.detail(100)["name"] == "thinking"
    for index, (text, expected) in enumerate(
        [
            ("permission run the tests?", ("permission", "run the tests?")),
            ('{"state": "blocked", "kind": "question", "msg": "red or blue?"}', ("question", "red or blue?")),
            ("state=done:app=mine", (None, None)),
            ("idle", (None, None)),
        ]
    ):
        path.write_text(text)
        os.utime(path, ns=(index, index))
        detail = watch.detail(200 + index)
        assert (detail["waiting_for"], detail["message"]) == expected
        assert detail["why"]["source"] == "state file"
    say(watch, "\x1b]7501;state=working:app=codex\x07", 300)
    assert watch.detail(301)["name"] == "thinking"
    for nonsense in ("", "{", "[1]", '{"state": 5}', "state=dancing", "whatever"):
        path.write_text(nonsense)
        os.utime(path, ns=(99, hash(nonsense) % 10**9))
        assert watch.detail(400)["name"] == "thinking"


def test_the_time_in_a_state_counts_from_its_change() -> None:
    watch = watcher("simple")
    say(watch, "x", 1000)
    assert watch.state(1500) == (wire.ACTIVE, 1000)
    say(watch, "x", 2000)
    assert watch.state(2500) == (wire.ACTIVE, 1000)
    assert watch.state(9000) == (wire.IDLE, 5000)


@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"\x1b]7501;", b"\x1b[?1049h", b"state=idle", b"\x07"])))
def test_no_output_breaks_it(parts: list[bytes]) -> None:
    watch = watcher()
    for now, part in enumerate(parts):
        watch.output(part, now, answered=bool(now % 2))
    assert watch.detail(1000)["name"] in wire.STATE_NAMES.values()


# In the supervisor...


def test_a_program_that_asks_for_reports_is_answered_before_the_fence(stage: Stage) -> None:
    """As Claude Code asks: version, keyboard, status, attributes, all at once. Then it reports, and status shows it."""
    code = r"""
import os, sys, tty, select
tty.setraw(0)
os.write(1, b"\x1b[>0q\x1b[?u\x1b]7501;?\x07\x1b[c\x1b[6n")
got = b""
while not got.endswith(b"R"):
    got += os.read(0, 1000)
os.write(1, b"GOT " + got.replace(b"\x1b", b"<ESC>").replace(b"\x07", b"<BEL>") + b" END")
os.write(1, b"\x1b]7501;state=blocked:app=claude-code:kind=question:msg=cmVkPw==\x07")
os.read(0, 1)
"""
    place = stage.python(code)
    with connected(place) as client:
        until(lambda: client.detail()["state"]["waiting_for"] == "question")
        assert client.detail()["state"]["message"] == "red?"
        assert client.status().state == wire.IDLE
        client.subscribe()
        output = b"".join(m.data for m in [next(client.messages(50))] if isinstance(m, wire.Output))
    got = output.split(b"GOT ")[1].split(b" END")[0]
    version, status, attributes, cursor = (
        got.find(mark) for mark in (b"treadle(", b"7501;?<BEL>", b"[?62;22c", b"[1;1R")
    )
    assert 0 <= version < status < attributes < cursor


def test_a_watcher_is_told_of_every_change_of_state(stage: Stage) -> None:
    place = stage.python(
        "import sys\nfor s in ('working', 'blocked:kind=permission', 'done'):\n"
        " sys.stdin.readline(); print(f'\\x1b]7501;state={s}:app=codex\\x07', flush=True)\nsys.stdin.readline()"
    )
    with connected(place) as client:
        client.hello(wire.WANT_STATES)
        told: list[str] = []
        for expected in ("thinking", "permission", "done"):
            client.input(b"\n")
            for message in client.messages(50):
                if isinstance(message, wire.State):
                    told.append(truth(message.body))
                    if told[-1] == expected:
                        break
    assert [state for state in told if state in ("thinking", "permission", "done")] == [
        "thinking",
        "permission",
        "done",
    ]


def test_a_hook_in_the_program_can_tell_its_state_through_a_file(stage: Stage) -> None:
    place = stage.start("sh", "-c", 'echo "permission deploy?" > "$TREADLE_STATE_FILE"; read x')
    with connected(place) as client:
        until(lambda: client.detail()["state"]["waiting_for"] == "permission")
        assert client.detail()["state"]["message"] == "deploy?"
