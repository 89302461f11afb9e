"""What a person sees of a run."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from tests.stand_ins.sessions import ScriptedSession
from treadle import events
from treadle.agent.messages import AssistantMessage, UserMessage
from treadle.agent.transcript import MessageRecord, Transcript
from treadle.cli.chat.command import last_words
from treadle.cli.chat.page import (
    MOST_BYTES,
    MOST_CALLS,
    Page,
    Progress,
    Prose,
    finished,
    trimmed,
)
from treadle.cli.chat.talk import Status
from treadle.events import (
    AnyEvent,
    ContextCompacted,
    ContextHandoff,
    ContextPruned,
    ErrorInfo,
    Failed,
    Message,
    ModelRouted,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolDenied,
    ToolEnded,
    ToolOutput,
    ToolStarted,
    TurnEnded,
    TurnStarted,
    Usage,
    Warned,
)
from treadle.session import AgentInfo, SessionSpec
from treadle.sessions.totals import totals


def page(*, colour: bool = False, flowing: bool = False, now: list[float] | None = None) -> Page:
    clock = now or [0.0]
    return Page(lambda: 60, colour=colour, flowing=flowing, clock=lambda: clock[0])


def shown(*events: AnyEvent, colour: bool = False, flowing: bool = False) -> str:
    made = page(colour=colour, flowing=flowing)
    return "".join(made.feed(event) for event in events)


def test_lines_of_a_diff_have_their_numbers_and_changed_characters_are_marked() -> None:
    hunks = ["--- a", "+++ b", "@@ -10,3 +10,4 @@", " keep", "-gone = 1", "+came = 1", "+more", " end"]
    text = "\n".join([*hunks, "@@ -30 +31 @@", "-return a + b", "+return a - b", "-x", "+quite another line"])
    lines = [line.strip() for line in page().diff(text).splitlines()]
    assert lines[:6] == ["@@ -10,3 +10,4 @@", "10  keep", "11 -gone = 1", "11 +came = 1", "12 +more", "13  end"]
    assert lines[6:9] == ["@@ -30 +31 @@", "30 -return a + b", "31 +return a - b"]
    marked = [line for line in page(colour=True).diff(text).splitlines() if "\x1b[7" in line]
    assert len(marked) == 2 and all("return a" in line for line in marked), "only of lines that are alike"


def test_a_paragraph_is_finished_when_the_next_one_begins() -> None:
    made = page()
    assert made.feed(TextDelta(text="One **bold** word.\n\nTw")) == "One bold word.\n\n"
    assert made.live() == "Tw\n\n⠋ waiting for the model, writing 0:00 (Esc interrupts)"
    made.feed(TextDelta(text="o"))
    assert made.feed(Message(text="One **bold** word.\n\nTwo")) == "Two\n\n"


@given(st.lists(st.text(alphabet="ab`*\n ", max_size=8), max_size=20))
def test_cutting_the_stream_elsewhere_shows_the_same_words(parts: list[str]) -> None:
    whole = "".join(parts)
    one = shown(TextDelta(text=whole), Message(text=whole)) if whole else ""
    many = shown(*(TextDelta(text=part) for part in parts), Message(text=whole)) if whole else ""
    assert [word for word in one.split() if word.isalnum()] == [word for word in many.split() if word.isalnum()]


def test_flowing_text_comes_out_as_it_streams_and_ends_its_line() -> None:
    assert shown(TextDelta(text="Hel"), TextDelta(text="lo"), Message(text="Hello"), flowing=True) == "Hello\n"
    assert shown(Message(text="Hello"), Message(text="again"), flowing=True) == "Hello\nagain\n"
    text = shown(
        TextDelta(text="Looking"),
        ToolStarted(call="c", name="bash", command="ls -l\nwc"),
        ToolEnded(call="c", name="bash", result="a\nb\nc"),
        flowing=True,
    )
    assert text == "Looking\ntool: bash ls -l (+1 lines)\n  result: a (+2 lines)\n"


def test_a_tool_is_live_while_it_runs_and_one_line_afterwards() -> None:
    made = page()
    assert made.feed(ToolStarted(call="c", name="bash", command="make")) == ""
    made.feed(ToolOutput(call="c", text="1\n2\n3\n4\n5\n6\n"))
    assert made.live() == "◐ bash make\n    2\n    3\n    4\n    5\n    6\n⠋ waiting for bash 0:00 (Esc interrupts)"
    assert made.feed(ToolEnded(call="c", name="bash", result="1\n2\n3\n4\n5\n6")) == "● bash make  └ 6 lines\n"
    assert "bash" not in made.live()
    assert (made.folded[0].title, made.folded[0].text) == ("bash make", "1\n2\n3\n4\n5\n6")


def test_the_list_of_things_to_do_is_a_list() -> None:
    todos = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}, {"content": "x"}]
    text = shown(
        ToolStarted(call="c", name="todo", args={"todos": todos}), ToolEnded(call="c", name="todo", result="ok")
    )
    assert text == "  ☑ look\n  ◐ mend\n  ☐ x\n\n"
    ended = ToolEnded(call="c", name="todo", result="ok")
    done, doing, *_ = shown(ToolStarted(call="c", name="todo", args={"todos": todos}), ended, colour=True).splitlines()
    assert "\x1b[2;9m" in done and "\x1b" not in doing, "what is done is struck out"
    flowing = shown(ToolStarted(call="c", name="todo", args={"todos": todos}), ended, flowing=True)
    assert flowing.endswith("\n  done: look\n  doing: mend\n  to do: x\n\n")


def test_what_a_subagent_says_is_not_mixed_in() -> None:
    assert shown(TextDelta(text="inner", parent="agent_1")) == ""


def test_escape_sequences_of_an_agent_do_not_reach_the_terminal() -> None:
    hostile = "\x1b]0;owned\x07\x9b2J\x1b[2J"
    text = shown(
        TextDelta(text=hostile),
        Message(text=hostile),
        ThinkingDelta(text=hostile),
        ToolStarted(call="c", name=hostile, command=hostile),
        ToolEnded(call="c", name=hostile, result=hostile),
        Failed(error=ErrorInfo(code="x", message=hostile)),
        Warned(message=hostile),
        Retrying(attempt=1, delay_ms=100, error=ErrorInfo(code="x", message=hostile)),
    )
    assert "\x1b" not in text and "\x9b" not in text and "\x07" not in text


def test_the_total_says_what_is_unknown() -> None:
    made = Page(lambda: 100, colour=False)
    assert "about 5 tokens in, 0 out · cost ?" in made.total(
        totals([Usage(model="m", input_tokens=5, source="estimate")])
    )
    ended = [TurnStarted(prompt="x"), TurnEnded(outcome="interrupted")]
    assert "tokens unknown" in made.total(totals(ended)), "an interrupted call may have cost something"


@pytest.mark.parametrize(
    ("event", "text", "flowing"),
    [
        (ToolDenied(call="c", name="bash", reason="no"), "✗ bash was not allowed: no", "bash was not allowed: no"),
        (Warned(message="low"), "! low", "note: low"),
        (
            ContextPruned(tokens_before=9, tokens_after=5, messages_pruned=1),
            "context pruned: 9 -> 5 tokens",
            "context pruned: 9 -> 5 tokens",
        ),
        (
            ContextCompacted(tokens_before=9, tokens_after=5, summary="s"),
            "context compacted: 9 -> 5 tokens",
            "context compacted: 9 -> 5 tokens",
        ),
        (
            Retrying(attempt=1, delay_ms=1500, error=ErrorInfo(code="x", message="busy")),
            "↻ busy; trying again in 1.5 s",
            "retry: busy; trying again in 1.5 s",
        ),
        (
            Retrying(attempt=1, delay_ms=259_200_000, error=ErrorInfo(code="x", message="no more")),
            "↻ no more; trying again in 3d",
            "retry: no more; trying again in 3d",
        ),
        (
            ContextHandoff(to="codex", reason="usage_limit"),
            "codex continues, with a summary of the work so far",
            "codex continues, with a summary of the work so far",
        ),
        (Failed(error=ErrorInfo(code="x", message="broke")), "error: broke", "error: broke"),
        (TurnEnded(outcome="interrupted"), "interrupted", "interrupted"),
        (TurnEnded(outcome="completed"), "", ""),
        (ToolEnded(call="c", name="bash", result=""), "● bash  └ nothing", "  result: (nothing)"),
        (ToolEnded(call="c", name="bash", result="no\nway", ok=False), "✗ bash  └ 2 lines", "  failed: no (+1 lines)"),
        (ToolEnded(call="c", name="todo", result="ok"), "● todo  └ ok", "  result: ok"),
        (ToolStarted(call="c", name="bash", command="ls"), "", "tool: bash ls"),
    ],
)
def test_each_event_has_its_line(event: AnyEvent, text: str, flowing: str) -> None:
    assert shown(event).strip("\n") == text
    assert shown(event, flowing=True).rstrip("\n").rstrip() == flowing.rstrip()


@pytest.mark.long
def test_only_so_much_is_kept_folded() -> None:
    made = page()
    for number in range(60):
        made.feed(ToolEnded(call="c", name=f"t{number}", result="x" * (MOST_BYTES + 1)))
    assert len(made.folded) == MOST_CALLS and made.folded[-1].title == "t59"
    assert len(made.folded[0].text) == MOST_BYTES


def last(cwd: Path, *messages: UserMessage | AssistantMessage, colour: bool = False) -> str:
    transcript = Transcript.create(cwd=str(cwd), model="m")
    for message in messages:
        transcript.append(MessageRecord(turn="t", message=message), sync=False)
    transcript.close()
    return last_words(transcript.header.id, Page(lambda: 60, colour=colour))


def test_the_last_prompt_and_the_last_answer(tmp_path: Path) -> None:
    first = UserMessage(text="first"), AssistantMessage(text="one")
    second = UserMessage(text="se\x1bcond"), AssistantMessage(text="**two**")
    assert last(tmp_path, *first, *second) == "\n> se\ufffdcond\n\ntwo\n"
    assert last(tmp_path, *first, *second, UserMessage(text=""), AssistantMessage(text="")) == last(tmp_path, *second)
    assert last(tmp_path, *first, second[0]) == "\n> se\ufffdcond\n\none\n"


def test_every_wait_has_a_name_and_its_own_clock() -> None:
    now = [0.0]
    progress = Progress(lambda: now[0])
    assert not progress.active and progress.says() == ""
    progress.begin()
    now[0] = 65.0
    assert progress.says().endswith("waiting for the model 1:05 (Esc interrupts)")
    for event, said in [
        (events.ThinkingDelta(text="x"), "the model, thinking 0:00"),
        (events.TextDelta(text="x"), "the model, writing 0:00"),
        (events.Usage(), "the model 0:00"),
        (events.ToolStarted(call="a", name="bash"), "bash 0:00"),
        (events.ToolStarted(call="b", name="grep"), "bash, grep 0:00"),
        (events.ToolEnded(call="a", name="bash", result=""), "grep 0:00"),
        (events.Asked(request="r", kind="permission", text="?"), "you 0:00"),
        (events.Answered(request="r", decision="allow"), "grep 0:00"),
        (events.ToolEnded(call="b", name="grep", result=""), "the model 0:00"),
        (
            events.Retrying(attempt=1, delay_ms=4000, error=events.ErrorInfo(code="x", message="m")),
            "another try, after 4 s 0:00",
        ),
        (events.TurnStarted(prompt="x"), "the model 0:00"),
    ]:
        progress.feed(event)
        ends = "" if isinstance(event, events.Asked) else " (Esc interrupts)"
        assert progress.says()[2:] == f"waiting for {said}{ends}"
    progress.feed(events.TurnEnded(outcome="completed", parent="agent_1"))
    assert progress.active, "a subagent's end is not the end"
    progress.feed(events.TurnEnded(outcome="completed"))
    assert not progress.active


def drawn(text: str) -> str:
    console = Console(width=40, color_system=None, force_terminal=False)
    with console.capture() as shown:
        console.print(Prose(text))
    return "\n".join(line.rstrip() for line in trimmed(shown.get()).split("\n"))


@given(st.text(alphabet="a`~\n #", max_size=60))
def test_what_is_cut_off_as_finished_and_the_rest_are_the_whole(text: str) -> None:
    end = finished(text)
    assert 0 <= end <= len(text)
    assert end == 0 or text[end - 1] == "\n"
    assert finished(text[:end]) == end


def test_a_list_item_keeps_what_is_indented_below_it() -> None:
    begun = "1. one\n\n   more of one\n\n"
    assert finished(begun) == 0, "the next line may still belong to it"
    assert finished(begun + "2. two") == len(begun)
    assert finished("- run\n  ```\n  x\n  ```\n") == 0
    assert drawn(begun) == " 1 one\n   more of one"


async def test_what_is_unknown_is_a_question_mark_and_never_nothing() -> None:
    session = ScriptedSession(SessionSpec(cwd="/"), [])
    session._info = AgentInfo(name="x", models=("claude-some",), mode="plan")
    status = Status(session, "trunk")
    assert status.words() == ["claude-some", "plan", "trunk"]
    status.feed(Usage(input_tokens=20_000, output_tokens=500))
    status.feed(Usage(input_tokens=9, output_tokens=1, parent="agent_1"))
    assert status.words() == ["claude-some", "plan", "10 % of context", "20.5k tokens", "$?", "trunk"]
    status.feed(ModelRouted(model="unknown-model"))
    assert status.words()[0] == "unknown-model" and status.words()[2] == "20.5k in context"
    await session.close()
