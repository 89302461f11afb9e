"""How a screen is judged: what replaces the input box counts; what is only quoted above it does not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.terminal.recordings import NAMES as RECORDINGS
from tests.terminal.recordings import load
from treadle.terminal.detectors import NAMES, named
from treadle.terminal.grid import Grid
from treadle.terminal.judge import FIRST_SCREEN, Evidence, by_report, explain, find_box, judge
from treadle.terminal.reports import Report
from treadle.terminal.states import STALE

DIALOGS = [
    "Do you want to proceed?",
    "❯ 1. Yes",
    "  2. No",
    "Esc to cancel · Tab to amend",
    "Would you like to run the following command?",
    "Press enter to confirm or esc to cancel",
    "△ Permission required",
    "Allow once   Allow always   Reject",
    "Allow execution of [Shell]?",
    "Enter to select · ↑/↓ to navigate · Esc to cancel",
    "esc to interrupt",
    "(esc to cancel, 3s)",
]
IDLE = [
    "claude-quit",
    "codex-quit",
    "gemini-perm-allow",
    "opencode-perm-deny",
    "kimi-quit",
    "copilot-interrupt",
    "pi-quit",
]


def screen_at(name: str, truth: str) -> tuple[list[str], str]:
    recording = load(name)
    moment = [found for found in recording.moments if found["truth"] == truth][-1]
    grid = Grid(*recording.size)
    grid.feed(recording.data[: moment["byte"]])
    to_cursor = named(recording.agent).box.cursor
    return grid.lines()[: grid.y + 1] if to_cursor else grid.lines(), recording.agent


@pytest.mark.parametrize("name", IDLE)
def test_an_answer_that_quotes_every_dialog_is_still_idle(name: str) -> None:
    lines, agent = screen_at(name, "idle")
    detector = named(agent)
    box = find_box(detector.box, lines)
    assert box
    over = 3 if detector.box.over else 1
    quoted = lines[: box[0] - over - 1] + [f"     {line}" for line in DIALOGS] + [""] + lines[box[0] - over - 1 :]
    verdict = judge(detector, Evidence(quoted, title="◇  Ready (x)" if agent == "gemini" else ""))
    assert verdict.state in ("idle", "starting")  # codex also needs a title or a report


@pytest.mark.parametrize("name", [name for name in RECORDINGS if "perm" in name and "reports" not in name])
def test_a_dialog_is_seen_whatever_title_and_report_say(name: str) -> None:
    lines, agent = screen_at(name, "permission")
    for title in ("", "◇  Ready (x)", "✳ Claude Code", "shop", "OpenCode", "Qwen - x"):
        for state in ("idle", "done", "working", None):
            report = Report("osc 7501", state, "", 0) if state else None
            assert judge(named(agent), Evidence(lines, title, report)).state == "permission"


@pytest.mark.parametrize("agent", NAMES)
@given(lines=st.lists(st.text("abc 123.?>❯│┃", max_size=40), max_size=30))
def test_without_an_input_box_nothing_is_idle(agent: str, lines: list[str]) -> None:
    detector = named(agent)
    if find_box(detector.box, lines) is None:
        for box_seen in (True, False):
            verdict = judge(detector, Evidence(lines, box_seen=box_seen))
            assert verdict.state not in ("idle", "error")


@pytest.mark.parametrize("agent", NAMES)
def test_an_unknown_dialog_that_replaces_the_box_is_a_question(agent: str) -> None:
    for lines in (
        ["Choose the text style that looks best", "", "❯ 1. Dark mode", "  2. Light mode"],
        ["An update is available", "", "  Press enter to continue"],
        ["Select login method:", "", "› 1. Account", "  2. Key"],
    ):
        assert judge(named(agent), Evidence(lines, box_seen=True)).state == "question"


def test_work_on_a_screen_that_does_not_move_is_unknown() -> None:
    lines, agent = screen_at("claude-turn", "thinking")
    assert judge(named(agent), Evidence(lines, quiet=1000)).state == "thinking"
    assert judge(named(agent), Evidence(lines, quiet=STALE)).state == "unknown"


def test_a_login_that_is_needed_is_a_failed_turn() -> None:
    report = Report("osc 7501", "blocked", "", 0)
    report.kind = "auth"
    assert by_report(report, 0).state == "error"
    lines, agent = screen_at("claude-quit", "idle")
    assert judge(named(agent), Evidence(lines, report=report)).state == "error"


@pytest.mark.parametrize(
    ("name", "truth", "report", "state", "against"),
    [
        ("claude-quit", "idle", "working", "thinking", "screen says idle"),
        ("claude-perm-deny", "permission", "idle", "permission", "osc 7501 says idle"),
        ("claude-perm-deny", "permission", "blocked", "permission", ""),
        ("claude-quit", "idle", "done", "idle", ""),
        ("claude-turn", "thinking", "idle", "thinking", "osc 7501 says idle"),
    ],
)
def test_a_screen_and_a_report_that_disagree_are_both_shown(
    name: str, truth: str, report: str, state: str, against: str
) -> None:
    lines, agent = screen_at(name, truth)
    verdict = judge(named(agent), Evidence(lines, report=Report("osc 7501", report, "", 0)))
    assert (verdict.state in (state, "streaming"), verdict.against.startswith(against)) == (True, True), verdict.against
    assert bool(verdict.against) == bool(against) and ("against" in verdict.why()) == bool(against)


def test_explain_has_every_sign_and_where_it_was_seen() -> None:
    lines, agent = screen_at("opencode-perm-deny", "permission")
    found = explain(named(agent), Evidence(lines))
    assert not found["box"] and len(found["signs"]) == len(named(agent).signs)
    assert any(sign["seen"] == "△ Permission required" for sign in found["signs"])


GEMINI_NARROW = """\
✦ All is done now.

{status}
────────────────────────────────────────────────────────────
 Shift+Tab to accept edits

▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
 >   Type your message or @path/to/file
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
 workspace (/directory)      sandbox                 /model
 /tmp/.../shop               no sandbox      gemini-2.5-pro"""

GEMINI_SESSIONS = """\
▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄
 > /resume
▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀

 Chat Sessions (1 total)                sorted by date desc
 Navigate: ↑/↓   Resume: Enter   Search: /   Delete: x   Quit: q

   Index │ Msgs │ Age  │ Name
 ❯ #1    │ 10   │ 33s  │ tidy up (current)
 ▼"""

KIMI_NARROW = """\
 ✨ please tidy up

 🌒
 ╭────────────────────────────────────────────────────────╮
 │ >                                                      │
 ╰────────────────────────────────────────────────────────╯
 scripted thinking  /tmp/shop  master [±]
                                      context: 0% (0/97.7k)"""

OPENCODE_ASKED = """\
     ▣  Build · scripted · interrupted

  ┃
  ┃  please tidy up
  ┃  and be quick
  ┃

  ┃
  ┃
  ┃
  ┃  Build · scripted scripted
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
   /tmp/shop              tab agents  ctrl+p commands"""

OPENCODE_RAN = """\
  ┃
  ┃  # Shell
  ┃
  ┃  $ ls
  ┃
  ┃  alpha
  ┃

     ▣  Build · scripted · 3.3s

  ┃
  ┃
  ┃
  ┃  Build · scripted scripted
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
   /tmp/shop              tab agents  ctrl+p commands"""


@pytest.mark.parametrize(
    ("agent", "screen", "title", "state"),
    [
        ("gemini", GEMINI_NARROW.format(status=""), "◇  Ready (shop)", "idle"),
        ("gemini", GEMINI_NARROW.format(status=" ⠋ Thinking... (esc to cancel, 0s)"), "", "streaming"),
        ("gemini", GEMINI_SESSIONS, "◇  Ready (shop)", "question"),
        ("kimi", KIMI_NARROW, "", "thinking"),
        ("opencode", OPENCODE_ASKED, "OC | Tidy up", "thinking"),
        ("opencode", OPENCODE_RAN, "OC | Tidy up", "idle"),
    ],
)
def test_screens_of_narrow_terminals_and_of_moments_in_between(agent: str, screen: str, title: str, state: str) -> None:
    found = judge(named(agent), Evidence(screen.split("\n"), title, box_seen=True))
    assert found.state == state, found


@pytest.mark.parametrize("agent", NAMES)
def test_a_spinner_is_not_taken_for_a_dialog_where_the_box_is_not_seen(agent: str) -> None:
    verdict = judge(named(agent), Evidence(["hello", " ⠋ Thinking... (esc to cancel, 0s)"], box_seen=True))
    assert verdict.state not in ("question", "permission", "idle")


@pytest.mark.parametrize("agent", NAMES)
def test_a_screen_that_is_wiped_during_a_session_is_about_to_be_drawn_and_not_for_ever(agent: str) -> None:
    assert judge(named(agent), Evidence(["", ""], box_seen=True, quiet=100)).state == "thinking"
    assert judge(named(agent), Evidence(["", ""], box_seen=True, quiet=STALE)).state == "unknown"
    assert judge(named(agent), Evidence([], box_seen=False, quiet=100)).state == "starting"


def test_what_a_dialog_asks_is_told_and_not_what_is_quoted_above_it() -> None:
    quoted = ["✦ It says:", "    Do you want to proceed?", "    > 1. Yes", "", *GEMINI_DIALOG.split("\n")]
    assert judge(named("gemini"), Evidence(quoted)).message.endswith("Allow execution of [Shell]?")


def test_of_a_failed_turn_the_reason_is_told_and_not_what_stands_around_it() -> None:
    verdict = judge(named("opencode"), Evidence(OPENCODE_FAILED.split("\n")))
    assert (verdict.state, verdict.message) == ("error", "the key is wrong")


OPENCODE_FAILED = """\
  ┃
  ┃  do it
  ┃

  ┃
  ┃  the key is wrong
  ┃

     ▣  Build · scripted

  ┃
  ┃
  ┃  Build · scripted scripted
  ╹▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀
   /srv/work                    tab agents  ctrl+p commands"""

GEMINI_DIALOG = """\
╭──────────────────────────────────────────────────────────╮
│ ? Shell  touch made.txt                                  │
│ Allow execution of [Shell]?                              │
│                                                          │
│ ● 1. Allow once                                          │
│   2. Allow for this session                              │
╰──────────────────────────────────────────────────────────╯"""


RULE = "─" * 20


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        ([RULE, ">"], "idle"),
        ([RULE, "> a text"], "idle"),
        ([RULE, "> a text", ""], "streaming"),
        ([RULE, "> a text", "", "an answer"], "streaming"),
        (["> a text"], "streaming"),
        ([RULE, "> a long text", "> and more of it"], "idle"),
        ([RULE, "> a text", "more of it"], "streaming"),
        ([RULE, "> a text", "", *["an answer"] * 4, "> quoted"], "streaming"),
        ([RULE, "ask> why", "", "Do it? (Y)es/(N)o [Yes]:"], "question"),
        ([RULE, "> x", "", "It asks: Do it? (Y)es/(N)o [Yes]:", "", "So say yes."], "streaming"),
    ],
)
def test_a_prompt_counts_where_the_cursor_is_and_nowhere_else(lines: list[str], state: str) -> None:
    """The last line is the one with the cursor."""
    assert judge(named("aider"), Evidence(lines, box_seen=True)).state == state


def reported(state: str, kind: str = "", message: str = "why") -> Report:
    report = Report("osc 7501", state, f"state={state}", 0)
    report.kind, report.message = kind, message
    return report


@pytest.mark.parametrize(
    ("report", "quiet", "state", "message"),
    [
        (reported("blocked"), STALE, "permission", "why"),
        (reported("blocked", "question"), 0, "question", "why"),
        (reported("blocked", "auth"), 0, "error", "why"),
        (reported("working"), STALE - 1, "thinking", "why"),
        (reported("working"), STALE, "unknown", ""),
        (reported("error"), STALE, "error", "why"),
        (reported("idle"), STALE, "idle", "why"),
        (reported("done"), 0, "idle", "why"),
    ],
)
def test_a_program_without_a_table_is_judged_by_its_report(
    report: Report, quiet: int, state: str, message: str
) -> None:
    verdict = by_report(report, quiet)
    assert (verdict.state, verdict.source, verdict.message) == (state, "osc 7501", message)
    assert verdict.words.startswith(report.words) and verdict.sure
    assert repr(verdict) == f"Verdict({state}, osc 7501: {verdict.words!r})"


@pytest.mark.parametrize(
    ("report", "box_seen", "lines", "age", "state", "words"),
    [
        (reported("working"), True, ["x"], 0, "thinking", "state=working"),
        (reported("error"), True, ["x"], 0, "error", "state=error"),
        (reported("idle"), True, ["x"], 0, "idle", "state=idle"),
        (reported("done"), True, ["x"], 0, "idle", "state=done"),
        (None, False, [""], FIRST_SCREEN, "starting", "nothing is drawn yet"),
        (None, False, ["x"], FIRST_SCREEN - 1, "starting", "no input box is drawn yet"),
        (None, False, ["x"], FIRST_SCREEN, "unknown", "there is no input box"),
        (None, True, ["x"], 0, "unknown", "there is no input box"),
        (None, True, ["", ""], 0, "thinking", "the screen is blank"),
    ],
)
def test_without_a_box_it_is_what_the_agent_reports_or_not_known(
    report: Report | None, box_seen: bool, lines: list[str], age: int, state: str, words: str
) -> None:
    verdict = judge(named("claude"), Evidence(lines, "", report, "", box_seen=box_seen, quiet=0, age=age))
    assert verdict.state == state and verdict.words.startswith(words)
