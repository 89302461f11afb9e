"""What only Codex does in its own way, with the real program: its questions to a person."""

import json
from pathlib import Path

from tests.drivers.scenarios import HELLO, USED
from tests.live.agents import agent
from treadle.agent.providers.script import CallLine, Script, ScriptedReply
from treadle.events import Asked
from treadle.session import Answer, SessionSpec
from treadle.sessions.totals import run_turn
from treadle.testing.server import ModelServer

LABELS = ("Red", "Blue")
QUESTION = {
    "id": "colour",
    "header": "Colour",
    "question": "Which colour?",
    "options": [{"label": label, "description": "A colour."} for label in LABELS],
}


async def test_its_question_goes_to_the_person_and_the_answer_to_the_model(tmp_path: Path) -> None:
    home, work = tmp_path / "home", tmp_path / "work"
    home.mkdir()
    work.mkdir()
    call = CallLine(name="request_user_input", arguments={"questions": [QUESTION]}, id="call_ask")
    asks = ScriptedReply(text="I ask.", call=(call,), usage=USED)
    events = []
    async with ModelServer(Script(reply=(asks, ScriptedReply(text=HELLO, usage=USED, times="always")))) as server:
        session = await agent("codex", home, server.url, None, work).open(
            SessionSpec.of(cwd=str(work), mode="suggest", answers=True)
        )
        try:
            async for event in run_turn(session, "paint it"):
                events.append(event)
                if isinstance(event, Asked):
                    await session.answer(event.request, Answer(decision="allow", text="Blue"))
        finally:
            await session.close()
    (asked,) = [event for event in events if isinstance(event, Asked)]
    assert (asked.kind, asked.text, asked.options) == ("question", "Which colour?", LABELS)
    assert "Blue" in json.dumps(server.asked[-1].body["input"][-1])
