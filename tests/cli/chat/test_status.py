"""The line under the input."""

from treadle.cli.chat.talk import Status, short
from treadle.events import ModelRouted, Usage
from treadle.session import AgentInfo, SessionSpec
from treadle.testing.sessions import ScriptedSession


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


async def test_a_known_cost_is_shown() -> None:
    session = ScriptedSession(SessionSpec(cwd="/"), [])
    status = Status(session)
    status.feed(Usage(input_tokens=1, cost_usd=0.126))
    assert "$0.13" in status.words()
    await session.close()


def test_numbers_are_short() -> None:
    assert [short(number) for number in (0, 999, 1000, 12_345)] == ["0", "999", "1.0k", "12.3k"]
