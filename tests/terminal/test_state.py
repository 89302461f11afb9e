"""What the program is doing, from all the evidence, at every labelled moment of real agents' recordings."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.recordings import NAMES, STARTS, Recording, load
from tests.terminal.support import Stage, connected, until
from treadle.io.process import table
from treadle.terminal.detectors import named
from treadle.terminal.keyboard import answer_refusal, refusal
from treadle.terminal.settings import TerminalSettings
from treadle.terminal.state import Watch
from treadle.terminal.states import (
    ANSWERING,
    AWAKE_MAX,
    FIRST_AWAKE_MAX,
    FIRST_IDLE,
    HOLD,
    LOOK_LONGEST,
    QUIET,
    STALE,
)
from treadle.wire.terminal import frames as wire


def watcher(classifier: str = "claude", path: str = "/nowhere", command: str = "sh") -> Watch:
    settings = TerminalSettings()
    settings.classifier = classifier
    settings.command = [command]
    settings.cols, settings.rows = 110, 40
    return Watch(settings, 0, path)


def say(watch: Watch, text: str, now: int) -> bytes:
    return watch.output(text.encode(), now, answered=False)


def pass_time(watch: Watch, now: int, until: int) -> None:
    """Look whenever the watch asks for it, as a supervisor does."""
    while (again := watch.next_change(now, watched=False)) is not None and (again := max(again, now + 10)) < until:
        now = again
        watch.look(now)


def judged(recording: Recording, command: str, piece: int = 0) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """The labelled moments of a recording played at its own pace, each with the state at that moment."""
    watch, before = watcher(command=command), 0
    for now, data, moments in recording.parts():
        pass_time(watch, before, now)
        before = now
        step = piece or len(data) or 1
        for at in range(0, len(data), step):
            watch.output(data[at : at + step], now, answered=False)
        for moment in moments:
            pass_time(watch, before, moment["ms"])
            before = moment["ms"]
            if moment["truth"] != "dead":
                yield moment, watch.detail(moment["ms"])


@pytest.mark.parametrize(
    ("name", "by"), [*((name, "command") for name in NAMES), *((name, "sight") for name in STARTS)]
)
def test_at_every_labelled_moment_the_state_is_the_true_one(name: str, by: str) -> None:
    recording = load(name)
    for moment, detail in judged(recording, recording.agent if by == "command" else "sh"):
        truth = moment["truth"]
        expected = {"thinking", "streaming", "tool_use"} if truth == "working" else {truth, *moment.get("also", [])}
        found = "done" if truth == "done" and detail["done"] else detail["name"]
        assert found in expected, f"at {moment['ms']} ms: {detail}"
        if truth in ("permission", "question", "error"):
            assert detail["name"] != "idle"
        if detail["name"] in ("permission", "question", "error", "idle"):
            assert detail["wire"] == "idle" and detail["why"]["said"]


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("-ask", "-perm-allow", "-perm-deny"))])
def test_what_waits_for_a_person_names_the_question_or_the_command(name: str) -> None:
    recording = load(name)
    expected = ("Which colour",) if name.endswith("-ask") else ("touch", "sleep 4")
    for moment, detail in judged(recording, recording.agent):
        if detail["name"] == moment["truth"] and moment["truth"] in ("permission", "question"):
            if "trust" not in detail["message"] and "ClinePass" not in detail["message"]:  # dialogs at its start
                assert any(words in detail["message"] for words in expected), detail


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(("-quiet", "-turn"))])
def test_work_in_words_that_the_table_does_not_know_is_unknown_and_not_idle(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later version may use other words: then the only sign is that the screen moves."""
    recording = load(name)
    detector = named(recording.agent)
    known = [sign for sign in detector.signs if sign.state != "working" and sign.where not in ("title", "progress")]
    monkeypatch.setattr(detector, "signs", tuple(known))
    found = [(moment["truth"], detail["name"]) for moment, detail in judged(recording, recording.agent)]
    work = [said for truth, said in found if truth in ("thinking", "streaming", "tool_use")]
    assert work and "idle" not in work
    assert found[-1][1] in ("idle", "unknown")


def test_a_dialog_that_is_reported_before_it_is_drawn_cannot_be_answered_yet() -> None:
    """Claude Code reports first: a key that is typed then goes into its input box, and the dialog stays."""
    watch = watcher(command="claude")
    rule = "─" * 40
    say(watch, f"\x1b[2J\x1b[H{rule}\r\n❯ \r\n{rule}\r\n", 0)
    say(watch, "\x1b]7501;state=blocked:app=claude-code:kind=permission\x07", 5000)
    reported = watch.detail(5001)
    assert reported["name"] == "permission" and reported["dialog"] is None and reported["settling"]
    assert answer_refusal(reported, b"1") == "settling"
    say(watch, f"\x1b[2J\x1b[H{rule}\r\n touch x\r\n Do you want to proceed?\r\n ❯ 1. Yes\r\n   2. No\r\n", 5100)
    pass_time(watch, 5100, 5400)
    assert answer_refusal(watch.detail(5400), b"1") == "settling"  # it would ignore the key
    pass_time(watch, 5400, 6000)
    drawn = watch.detail(6000)
    assert drawn["dialog"] and "touch x" in drawn["message"] and answer_refusal(drawn, b"1") == ""


def test_a_clock_in_the_footer_and_what_a_person_types_move_the_screen_of_one_that_is_idle() -> None:
    watch = watcher(command="pi")
    say(watch, "\x1b[2J\x1b[H" + "─" * 40 + "\r\n\r\n" + "─" * 40 + "\r\n 12:00", 0)
    for now in range(1000, 6000, 1000):
        say(watch, f"\x1b[4;1H 12:0{now // 1000}", now)
        assert watch.detail(now)["name"] == "idle"
    for now in range(6000, 10_000, 100):
        watch.typed(now)
        say(watch, "\x1b[2;1H" + "x" * ((now - 6000) // 100), now)
        assert watch.detail(now)["name"] == "idle"
    for now in range(10_000, 13_000, 100):
        say(watch, "\x1b[4;8H" + "◴◷◶◵"[now // 100 % 4], now)
    assert watch.detail(12_950)["name"] == "unknown" and watch.detail(12_950)["why"]["source"] == "movement"
    say(watch, "\x1b[4;8H ", 13_000)
    pass_time(watch, 13_000, 14_000)
    assert watch.detail(14_000)["name"] == "idle"


@pytest.mark.parametrize("name", ["claude-perm-deny", "codex-ask", "kimi-perm-allow", "claude-reports"])
def test_it_does_not_matter_where_the_output_is_cut(name: str) -> None:
    recording = load(name)
    whole = [detail["name"] for _, detail in judged(recording, recording.agent)]
    assert [detail["name"] for _, detail in judged(recording, recording.agent, piece=7)] == whole


@pytest.mark.parametrize("name", [name for name in NAMES if "perm" in name or "ask" in name])
def test_a_prompt_is_never_typed_into_a_dialog_at_any_time_of_a_recording(name: str) -> None:
    """From the moment a dialog is seen until a key is pressed, no check may let a text through."""
    recording = load(name)
    keys = [typed["byte"] for typed in recording.typed]
    asked = [moment["byte"] for moment in recording.moments if moment["truth"] in ("permission", "question")]
    open_between = [(byte, min(key for key in keys if key >= byte)) for byte in asked]
    watch, at, before, looks = watcher(command=recording.agent), 0, 0, 0
    for now, data, _ in recording.parts():
        pass_time(watch, before, now)
        before, at = now, at + len(data)
        watch.output(data, now, answered=False)
        if any(first <= at <= last for first, last in open_between):
            looks += 1
            assert refusal(watch.detail(now + 1), b"do the next thing", enter=True), f"at {now} ms"
    assert looks


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
    assert watch.detail(STALE - 100)["name"] == "thinking"
    assert watch.detail(STALE)["name"] == "unknown"


def test_of_a_program_that_nobody_knows_only_the_rhythm_is_known_and_that_is_a_hint() -> None:
    watch = watcher("simple")
    say(watch, "\x1b]7501;state=working:app=mine\x07compiling", 0)
    assert watch.detail(5)["name"] == "thinking"
    say(watch, "\x1b]7501;state=clear\x07", 10)
    detail = watch.detail(1000)
    assert (detail["name"], detail["hint"], detail["why"]["source"]) == ("unknown", "active", "rhythm")
    assert watch.detail(9000)["hint"] == "idle"


@pytest.mark.parametrize(
    "prompt", ["$ ", "root@host:/work# ", "~/src ❯ ", ">>> ", "sqlite> ", "(gdb) ", "host% ", "> "]
)
def test_a_visible_prompt_is_idle(prompt: str) -> None:
    watch = watcher()
    say(watch, f"one line\r\n{prompt}", 0)
    detail = watch.detail(1000)
    assert (detail["name"], detail["why"]["source"]) == ("idle", "prompt")
    say(watch, "make\r\n", 1100)
    assert watch.detail(3000)["name"] == "unknown"


@pytest.mark.parametrize(
    "text",
    [
        "Proceed? [y/N] ",
        "Password: ",
        "Overwrite (yes/no)? > ",
        "Choose [1-3]> ",
        "50% ",
        "a > b",
        "Continue? > ",
        "...",
    ],
)
def test_a_question_of_a_program_that_nobody_knows_is_no_prompt(text: str) -> None:
    watch = watcher()
    say(watch, text, 0)
    assert watch.detail(9000)["name"] == "unknown"


def test_a_screen_on_which_nothing_is_drawn_yet_is_not_idle() -> None:
    for command in ("sh", "claude", "opencode"):
        watch = watcher(command=command)
        assert watch.detail(2000)["name"] == "starting"
        say(watch, "\x1b[?1049h\x1b[2J", 2000)
        assert watch.detail(4000)["name"] == "starting"
        assert watch.detail(120_000)["name"] == ("unknown" if command == "sh" else "starting")


def test_a_turn_counts_once_also_when_its_work_was_never_told() -> None:
    watch, turns = watcher(), []
    for now, state in enumerate(("idle", "done", "working", "blocked:kind=permission", "done", "idle", "error"), 1):
        say(watch, f"\x1b]7501;state={state}:app=claude-code\x07", now)
        turns.append(watch.detail(now)["turns"])
    assert turns == [0, 1, 2, 2, 2, 2, 3]


def test_the_state_file_of_an_agents_hooks_counts_and_the_newest_word_wins(tmp_path: Path) -> None:
    path = tmp_path / "x.state"
    watch = watcher("claude", str(path))
    path.write_text("working\n")
    assert watch.detail(100)["name"] == "thinking"
    for index, (text, expected) in enumerate(
        [
            ("permission run the tests?", ("permission", "run the tests?")),
            ('{"state": "blocked", "kind": "question", "msg": "red or blue?"}', ("question", "red or blue?")),
            ("state=error:app=mine", (None, None)),
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


@given(st.lists(st.binary(max_size=200) | st.sampled_from([b"\x1b]7501;", b"\x1b[?1049h", b"state=idle", b"\x07"])))
def test_no_output_makes_the_watch_fail(parts: list[bytes]) -> None:
    watch = watcher()
    for now, part in enumerate(parts):
        watch.output(part, now, answered=bool(now % 2))
    assert watch.detail(1000)["name"] in ("unknown", "starting", "idle", "question", "permission", "error", "thinking")


# What each sign is worth, at its edges...

RULE = "─" * 40


def screen(*above: str, typed: str = "", footer: str = "  ? for shortcuts") -> str:
    """The screen of Claude Code with its input box."""
    return "\x1b[2J\x1b[H" + "\r\n".join([*above, RULE, f"❯ {typed}", RULE, footer])


def idle_agent(now: int = 2000) -> Watch:
    """One that has been idle, last seen at this time; nothing but its screen is known of it."""
    watch = watcher("none", command="claude")
    watch.look(0)
    say(watch, screen(), 0)
    assert watch.detail(now)["name"] == "idle"
    return watch


def seen(watch: Watch, now: int) -> str:
    """The state after a look at this moment, however short a while ago the last was."""
    watch.look(now)
    return str(watch.detail(now)["name"])


def process(state: str) -> table.Process:
    return table.Process(7, 1, 0, state, 0, "x")


def test_the_first_input_box_counts_later_than_those_after_it() -> None:
    watch = watcher("none", command="claude")
    watch.look(0)
    say(watch, screen(), 100)
    detail = watch.detail(100)
    assert (detail["name"], detail["settling"], detail["began"]) == ("starting", True, 0)
    assert watch.next_change(100, watched=False) == 100 + FIRST_IDLE
    assert watch.detail(99 + FIRST_IDLE)["name"] == "starting"
    detail = watch.detail(100 + FIRST_IDLE)
    assert (detail["name"], detail["settling"], detail["began"], detail["since_ms"]) == ("idle", False, 100, FIRST_IDLE)
    say(watch, screen("● API Error"), 2000)
    assert watch.detail(1999 + HOLD)["name"] == "idle" and watch.detail(2000 + HOLD)["name"] == "error"
    say(watch, screen("● Hello"), 3000)
    assert watch.next_change(3000 + HOLD, watched=False) == 3000 + 2 * HOLD, "it is overdue: soon, but not at once"
    assert watch.detail(2999 + HOLD)["name"] == "error" and watch.detail(3000 + HOLD)["name"] == "idle"


def test_a_program_that_never_sleeps_is_believed_late_and_at_its_start_later_still() -> None:
    watch = watcher("none", command="claude")
    watch.look(0)
    watch.pulse.processes = lambda: [process("R")]
    say(watch, screen(), 100)
    assert watch.detail(100)["name"] == watch.detail(99 + FIRST_AWAKE_MAX)["name"] == "starting"
    assert watch.detail(100 + FIRST_AWAKE_MAX)["name"] == "idle"
    say(watch, screen("● API Error"), 8000)
    assert watch.detail(9000)["name"] == "error", "only idle is what a program shows on which nothing happens"
    say(watch, screen("● Hello"), 10_000)
    assert watch.detail(10_000)["name"] == watch.detail(9999 + AWAKE_MAX)["name"] == "error"
    assert watch.detail(10_000 + AWAKE_MAX)["name"] == "idle"


def test_a_program_that_sleeps_is_believed_when_it_has_slept_long_enough() -> None:
    watch = watcher("none", command="claude")
    watch.look(0)
    watch.pulse.processes = lambda: [process("S")]
    say(watch, screen(), 100)
    assert watch.detail(1000)["name"] == watch.detail(999 + FIRST_IDLE)["name"] == "starting"
    assert watch.detail(1000 + FIRST_IDLE)["name"] == "idle"


def test_what_is_reported_counts_at_once_also_of_one_that_computes() -> None:
    watch = watcher("none")
    watch.look(0)
    watch.pulse.processes = lambda: [process("R")]
    say(watch, "\x1b]7501;state=idle:app=mine\x07", 100)
    assert watch.detail(100)["name"] == "idle" and not watch.detail(100)["done"]
    say(watch, "\x1b]7501;state=done:app=mine\x07", 110)
    assert watch.detail(110)["done"]
    say(watch, "\x1b]7501;?\x07\x1b]7501;state=working:app=mine\x07", 120)
    assert (watch.detail(120)["name"], watch.detail(120)["done"]) == ("thinking", False)


def test_silence_in_which_we_were_not_run_says_nothing() -> None:
    watch = idle_agent()
    watch.late(3000)
    detail = watch.detail(3000)
    assert (detail["name"], detail["settling"]) == ("unknown", True)
    assert detail["why"] == {"source": "process", "said": "our own process was not run for a while"}
    assert watch.next_change(3000, watched=False) == 3000 + HOLD
    assert seen(watch, 2999 + HOLD) == "unknown" and seen(watch, 3000 + HOLD) == "idle"


def test_one_that_has_written_more_than_we_have_read_is_not_idle() -> None:
    watch = idle_agent()
    watch.behind = True
    assert watch.detail(3000)["why"]["said"] == "it has written more than we have read"
    watch.behind = False
    assert watch.detail(3100)["name"] == "idle"


def test_a_stopped_program_is_unknown_until_it_runs_and_that_does_not_pass_by_itself() -> None:
    watch, state = idle_agent(), "T"
    watch.pulse.processes = lambda: [process(state)]
    watch.pulse.take(3000)
    detail = watch.detail(3000)
    assert (detail["name"], detail["why"]["said"]) == ("unknown", "the program is stopped") and not detail["settling"]
    assert watch.next_change(3000, watched=False) == 3000 + LOOK_LONGEST
    assert watch.detail(9000)["name"] == "unknown"
    state = "S"
    assert watch.detail(9100)["name"] == "unknown"
    assert watch.detail(9100 + HOLD)["name"] == "idle"


def test_after_our_enter_it_is_not_idle_until_something_came_of_it_or_the_time_is_over() -> None:
    watch = idle_agent()
    watch.entered(b"tidy up", 3000, 20_000)
    detail = watch.detail(3010)
    assert (detail["name"], detail["wire"], detail["why"]["source"]) == ("submitted", "idle", "typed")
    assert watch.explain(3010)["submitted"] == {"words": "tidy up", "turn": 1, "since_ms": 10}
    assert watch.next_change(3010, watched=False) == 3000 + QUIET
    assert seen(watch, 22_999) == "submitted" and seen(watch, 23_000) == "unknown"
    assert watch.detail(23_000)["why"]["said"].endswith("was seen within 20 s of Enter")


def test_time_in_which_the_program_is_stopped_is_not_counted_after_enter() -> None:
    watch, state = idle_agent(), "T"
    watch.pulse.processes = lambda: [process(state)]
    watch.entered(b"tidy up", 3000, 2000)
    watch.pulse.take(4000)
    assert watch.detail(6000)["name"] == "submitted"
    state = "S"
    assert watch.detail(7000)["name"] == "submitted"
    assert seen(watch, 8999) == "submitted" and seen(watch, 9000) == "unknown"


def test_a_turn_that_was_over_before_it_was_seen_has_run_and_is_counted() -> None:
    watch = idle_agent()
    watch.entered(b"tidy up", 3000, 20_000)
    mine = watch.submission
    assert mine is not None
    say(watch, screen("❯ tidy up", "● Done."), 3100)
    detail = watch.detail(3100)
    assert (detail["name"], detail["turns"], watch.submission) == ("thinking", 1, None)
    assert mine.outcome == "over" and mine.confirmed
    assert detail["why"]["said"] == "the turn was over before it was seen to run"
    assert (
        seen(watch, 3200) == "thinking"
        and seen(watch, 3100 + HOLD) == "idle"
        and watch.explain(4000)["submitted"] is None
    )


def test_words_that_were_on_the_screen_before_are_no_answer() -> None:
    watch = watcher("none", command="claude")
    say(watch, screen("❯ tidy up", "● Done."), 0)
    assert watch.detail(2000)["name"] == "idle"
    watch.entered(b"tidy up", 3000, 20_000)
    say(watch, screen("❯ tidy up", "● Done."), 3100)
    assert watch.detail(5000)["name"] == "submitted"


def test_a_turn_that_is_seen_to_run_is_counted_once_and_the_dialog_in_it_belongs_to_it() -> None:
    watch = idle_agent()
    watch.entered(b"tidy up", 3000, 20_000)
    say(watch, screen("❯ tidy up", "✻ Working… (3s)", footer="  esc to interrupt"), 3100)
    detail = watch.detail(3100)
    assert (detail["turns"], watch.submission) == (1, None) and detail["name"] in ("thinking", "streaming")
    assert watch.next_change(3100, watched=False) == 3100 + STALE
    say(watch, f"\x1b[2J\x1b[H{RULE}\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\r\nEsc to cancel · Tab to amend", 7000)
    detail = watch.detail(7000 + HOLD)
    assert (detail["name"], detail["waiting_for"], detail["settling"]) == ("permission", "permission", True)
    hears = watch.next_change(7200, watched=False)
    assert hears is not None and not watch.detail(hears)["settling"]
    assert watch.next_change(hears, watched=False) is None
    watch.dialogs.typed(b"1", watch.view.total, -1)
    watch.typed(8000)
    assert watch.next_change(8000, watched=False) == 8000 + ANSWERING
    assert watch.detail(7999 + ANSWERING)["settling"] and not watch.detail(8000 + ANSWERING)["settling"]
    say(watch, screen("❯ tidy up", "✻ Working… (9s)", footer="  esc to interrupt"), 12_000)
    assert watch.detail(12_000)["turns"] == 2, "the screen alone does not tell it from another"


def test_what_only_moves_beside_a_dialog_leaves_it_the_same() -> None:
    watch, ids = watcher("none", command="opencode"), set()
    asks = "  ┃  △ Permission required\r\n  ┃    $ {}\r\n  ┃   Allow once   Allow always   Reject\r\n  {}"
    for number, beside in enumerate(["■■⬝⬝ (3s)", "⬝■■⬝ (12s)", "⠋ (1m 2s)"]):
        say(watch, f"\x1b[2J\x1b[H{asks.format('touch x', beside)}", 3000 + 1000 * number)
        ids.add(watch.detail(3900 + 1000 * number)["dialog"])
    assert len(ids) == 1 and None not in ids
    say(watch, f"\x1b[2J\x1b[H{asks.format('touch y', '■■⬝⬝ (3s)')}", 7000)
    assert watch.detail(7900)["dialog"] not in ids


def test_the_echo_of_an_answer_is_no_other_dialog() -> None:
    watch = idle_agent()
    say(watch, f"\x1b[2J\x1b[H{RULE}\r\nDo you want to proceed?\r\n❯ 1. Yes\r\n\r\nEsc to cancel · Tab to amend", 3000)
    asked = watch.detail(4000)["dialog"]
    watch.dialogs.typed(b"1", watch.view.total, -1)
    watch.dialogs.keys_read = lambda: False
    say(watch, "1", 5000)
    assert watch.detail(6000)["dialog"] == asked
    watch.dialogs.keys_read = lambda: True
    say(watch, ".", 7000)
    assert watch.detail(8000)["dialog"] not in (asked, None)


def test_a_person_who_types_has_taken_over_what_we_submitted() -> None:
    watch = idle_agent()
    watch.entered(b"tidy up", 3000, 20_000)
    watch.typed(3010)
    assert watch.submission is not None and not watch.stale
    watch.typed(3020, by_person=True)
    assert watch.submission is None and watch.stale
    detail = watch.detail(4000)
    assert detail["name"] == "unknown" and detail["why"]["said"].endswith(": idle after submitted")
    assert watch.detail(5000)["name"] == "idle"
    watch.typed(6000, by_person=True)
    assert not watch.stale, "nothing was submitted"


def test_a_program_that_no_table_describes_is_over_when_it_has_written_and_is_quiet() -> None:
    watch = watcher("none")
    say(watch, "$ ", 0)
    assert watch.detail(1000)["name"] == "idle"
    watch.entered(b"true", 2000, 20_000)
    assert watch.detail(2010)["name"] == "submitted"
    say(watch, "\r\n$ ", 2100)
    assert seen(watch, 2099 + QUIET) == "submitted"
    assert seen(watch, 2100 + QUIET) == "thinking" and seen(watch, 2200 + QUIET) == "idle"


def test_a_title_tells_of_work_once_and_an_empty_one_that_the_agent_is_gone() -> None:
    watch = watcher("none")
    say(watch, "\x1b]0;✳ Claude Code\x07" + screen(), 0)
    found = watch.explain(1000)
    assert (found["agent"], found["known_by"], found["title"]) == ("claude", "sight", "✳ Claude Code")
    assert found["table"].endswith("claude.toml") and found["box_seen"] and found["age_ms"] == 1000
    for text, turns in (("⠂ Fixing", 1), ("⠐ Fixing", 1), ("✳ Claude Code", 1), ("⠂ Again", 2)):
        say(watch, f"\x1b]0; {text} \x07", 1100)
        assert (watch.turns, watch.explain(1100)["title"]) == (turns, text)
    say(watch, "\x1b]0;\x07\x1b[2J\x1b[H$ ", 2000)
    assert watch.agent.name is None and watch.detail(4000)["why"]["source"] == "prompt"


def test_an_agent_known_by_sight_that_left_its_title_is_a_shell_once_a_prompt_is_there() -> None:
    for command, name in (("sh", "idle"), ("claude", "unknown")):
        watch = watcher("none", command=command)
        say(watch, "\x1b]0;✳ Claude Code\x07" + screen(), 0)
        watch.detail(1000)
        say(watch, "\x1b]0;sh\x07\x1b[2J\x1b[H$ ", 2000)
        assert watch.detail(4000)["name"] == name


def test_the_last_line_is_what_the_agent_said_or_the_last_with_a_word_in_it() -> None:
    watch = watcher("none")
    assert watch.last_line() == ""
    say(watch, "one\r\n  two words \r\n---\r\n", 0)
    assert watch.last_line() == "two words"
    agent = watcher("none", command="claude")
    say(agent, screen("❯ tidy up", "● All done.", "", typed="next"), 0)
    assert agent.last_line() == "● All done."


def test_a_prompt_counts_only_where_the_cursor_is_behind_it() -> None:
    for text, name in (("$ ", "idle"), ("$ make\x1b[1;3H", "unknown"), ("$ \r\n\r\n", "unknown"), ("\r\n", "starting")):
        watch = watcher("none")
        say(watch, text, 0)
        assert watch.detail(1000)["name"] == name, text


# In the supervisor...


def test_a_program_that_asks_for_reports_is_answered_before_the_fence(stage: Stage) -> None:
    """Claude Code asks for version, keyboard, status and attributes at once. Then it reports, and status shows it."""
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
        until(lambda: client.detail()["state"]["name"] == "question")
        assert client.detail()["state"]["message"] == "red?"
        assert client.status().state == wire.IDLE
        client.subscribe()
        output = b"".join(m.data for m in [next(client.messages(50))] if isinstance(m, wire.ProgramOutput))
    got = output.split(b"GOT ")[1].split(b" END")[0]
    version, status, attributes, cursor = (
        got.find(mark) for mark in (b"treadle(", b"7501;?<BEL>", b"[?62;22c", b"[1;1R")
    )
    assert 0 <= version < status < attributes < cursor


def test_a_hook_in_the_program_can_tell_its_state_through_a_file(stage: Stage) -> None:
    place = stage.start("sh", "-c", 'echo "permission deploy?" > "$TREADLE_STATE_FILE"; read x')
    with connected(place) as client:
        until(lambda: client.detail()["state"]["waiting_for"] == "permission")
        assert client.detail()["state"]["message"] == "deploy?"
