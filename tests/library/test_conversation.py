"""Conversations, typed answers and options of the library."""

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import treadle
from tests.scripts import calls, says
from tests.stand_ins.sessions import ScriptedAgent
from tests.waiting import until
from treadle.errors import ConfigError, ProviderError, ToolError, Unsupported
from treadle.library.conversation import AnswerType, SessionOptions
from treadle.session import _GROUPED, SessionSpec

WRITE = calls("write_file", {"file_path": "made.txt", "content": "hello"}, when="write")

SCRIPT = WRITE + says("Done.", when=".*", times="always")


@pytest.fixture
def model(tmp_path: Path) -> str:
    (tmp_path / "script.toml").write_text(SCRIPT)
    return f"scripted:{tmp_path / 'script.toml'}"


async def test_nothing_is_written_unless_somebody_may_say_yes(tmp_path: Path, model: str) -> None:
    async with treadle.open(cwd=tmp_path, model=model) as conversation:
        result = await conversation.say("write it")
    assert result.ok and not (tmp_path / "made.txt").exists(), "the default mode asks, and no one answers"
    assert result.summary.denials[0].by == "nobody"


@pytest.mark.parametrize("answer", [True, treadle.Answer(decision="allow")])
async def test_a_callback_answers_the_agents_questions(tmp_path: Path, model: str, answer: Any) -> None:
    asked: list[treadle.Asked] = []

    def on_ask(question: treadle.Asked) -> Any:
        asked.append(question)
        return answer

    async with treadle.open(cwd=tmp_path, model=model, on_ask=on_ask) as conversation:
        result = await conversation.say("write it")
    assert (tmp_path / "made.txt").read_text() == "hello" and asked[0].name == "write_file"
    assert [change.path for change in result.changes] == [str(tmp_path / "made.txt")]


async def test_leaving_the_loop_early_interrupts_the_turn(tmp_path: Path) -> None:
    agent = ScriptedAgent([treadle.TextDelta(text="begun"), asyncio.Event()])
    async with treadle.open(agent=agent, cwd=tmp_path) as conversation:
        async for event in conversation.turn("go"):
            if isinstance(event, treadle.TextDelta):
                break
        session = agent.sessions[0]
        reader = session.events()
        await until(lambda: any(isinstance(event, treadle.TurnEnded) for event in reader.ready()))
    assert session.closed


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"mode": "reckless"}, "permission mode"),
        ({"rules": {"allow": ["Bash"]}}, "SessionSpec.rules must be Rules, not dict"),
        ({"rules": treadle.Rules(allow=("Bash(",))}, "Bash("),
        ({"nonsense": 1}, "nonsense"),
        ({"limits": 3}, "SessionSpec.limits must be Limits"),
        ({"tools": [len]}, "is not a tool"),
        ({"cwd": 3}, "cwd must be a path, not int"),
    ],
)
async def test_a_wrong_option_is_refused_where_it_is_given(tmp_path: Path, options: Any, names: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        async with treadle.open(**{"cwd": tmp_path, **options}):
            raise AssertionError("it was opened")
    assert names in str(wrong.value)


async def test_an_answer_of_a_type_is_asked_for_until_it_fits_and_a_turn_that_fails_has_none(tmp_path: Path) -> None:
    agent = ScriptedAgent(
        [treadle.TextDelta(text="seven"), treadle.Usage(model="m", input_tokens=1)],
        [treadle.TextDelta(text="7"), treadle.Usage(model="m", input_tokens=2)],
        [ProviderError("down")],
        *([treadle.TextDelta(text="no")] for _ in range(3)),
    )
    async with treadle.open(agent=agent, cwd=tmp_path) as conversation:
        found = await conversation.say("How many?", output_type=int)
        assert found.value == 7 and found.ok and found.usage.input_tokens == 3 and found.session_id == conversation.id
        prompts = [
            event.prompt for event in agent.sessions[0].events().ready() if isinstance(event, treadle.TurnStarted)
        ]
        assert prompts[0].startswith("How many?\n\nYour final message must be one JSON value") and len(prompts) == 2
        assert prompts[1].startswith("That does not fit: JSON is malformed")
        failed = await conversation.say("And now?", output_type=int)
        assert (failed.outcome, failed.values, failed.session_id) == ("failed", (), conversation.id)
        assert failed.error is not None and failed.error.message == "down"
        with pytest.raises(ToolError, match="there is no value of that type: down"):
            _ = failed.value
        never = await conversation.say("Really?", output_type=int)
        assert never.error is not None and never.error.code == "schema_mismatch" and never.outcome == "failed"
        assert never.error.message == "the answer does not fit output_type: Input data was truncated"
        plain = await conversation.say("hi")
        assert (plain.text, plain.session_id, type(plain)) == ("hi", conversation.id, treadle.Result)


@pytest.mark.parametrize(
    ("kind", "given", "decision", "text"),
    [
        ("permission", True, "allow", ""),
        ("permission", False, "deny", ""),
        ("permission", None, "deny", ""),
        ("permission", "why not", "deny", "why not"),
        ("question", "an answer", "allow", "an answer"),
    ],
)
async def test_what_a_callback_gives_is_an_answer(
    tmp_path: Path, kind: Any, given: Any, decision: str, text: str
) -> None:
    agent = ScriptedAgent([treadle.Asked(request="q", kind=kind, text="?")])
    async with treadle.open(agent=agent, cwd=tmp_path, on_ask=lambda asked: given) as conversation:
        events = [event async for event in conversation.turn("go")]
        assert agent.sessions[0].spec.answers
    (said,) = [event for event in events if isinstance(event, treadle.Answered)]
    assert (said.decision, said.text, said.by) == (decision, text, "program")


async def test_a_callback_that_fails_denies_and_ends_the_turn(tmp_path: Path) -> None:
    agent = ScriptedAgent([treadle.Asked(request="q", kind="permission", text="?"), asyncio.Event()])

    def on_ask(asked: treadle.Asked) -> bool:
        raise RuntimeError("a bug")

    async with treadle.open(agent=agent, cwd=tmp_path, on_ask=on_ask) as conversation:
        with pytest.raises(RuntimeError, match="a bug"):
            await conversation.say("go")
        events = agent.sessions[0].events().ready()
        (said,) = [event for event in events if isinstance(event, treadle.Answered)]
        assert said.decision == "deny" and isinstance(events[-1], treadle.TurnEnded)
        assert events[-1].outcome == "interrupted"
        assert not await conversation.steer("too late")


async def test_words_for_an_agent_that_hears_none_while_it_works_are_refused(tmp_path: Path) -> None:
    gate = asyncio.Event()
    agent = ScriptedAgent([treadle.TextDelta(text="begun"), gate], cannot=("steer",))
    async with treadle.open(agent=agent, cwd=tmp_path) as conversation:
        async for event in conversation.turn("go"):
            if isinstance(event, treadle.TextDelta):
                with pytest.raises(Unsupported, match="cannot be given a message while it works"):
                    await conversation.steer("more")
                gate.set()
    assert agent.sessions[0].steered == []


def test_a_type_of_something_else_is_refused_before_anything_is_asked() -> None:
    with pytest.raises(ConfigError, match="output_type"):
        AnswerType(Path.cwd)  # type: ignore[arg-type]


CHECKED = """
import treadle

treadle.run("x", mode="nonsense")  # type: ignore[call-overload]
treadle.run("x", max_cost=1)  # type: ignore[call-overload]
treadle.run("x", cwd=3)  # type: ignore[call-overload]
treadle.query("x", limits=3)  # type: ignore[arg-type]
treadle.open(on_ask=lambda: True)  # type: ignore[arg-type,misc]
number: int = treadle.run("x", output_type=str).value  # type: ignore[assignment]
text: str = treadle.run("x", output_type=str).value
treadle.run("x", mode="plan", cwd=".", limits=treadle.Limits(max_cost_usd=1.0))
treadle.run("x", tools=["bash"], on_ask=lambda asked: True)
"""


@pytest.mark.long
def test_mypy_refuses_wrong_options_and_takes_right_ones(tmp_path: Path) -> None:
    """Every ignore is needed, or mypy would say so."""
    (tmp_path / "program.py").write_text(CHECKED)
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(tmp_path), "program.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_every_option_of_a_session_is_typed() -> None:
    """Those that `open` sets itself are left out."""
    fields = {*SessionSpec.__struct_fields__, *_GROUPED} - {"program", "answers"}
    assert fields <= SessionOptions.__annotations__.keys()
