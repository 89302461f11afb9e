"""One session of an editor: modes, slash commands, titles, and what the editor said that it can do."""

from typing import Any

import msgspec
import pytest

from treadle.doors.acp.session import ClientAbilities, Served
from treadle.events import Message, TextDelta, TurnStarted
from treadle.session import Change, CommandInfo, CommandResult, Mode, SessionSpec
from treadle.sessions.session import Turn
from treadle.testing.sessions import ScriptedSession
from treadle.wire.common.jsonrpc import Fault


class Talking(ScriptedSession):
    """With a command, a mode and a past."""

    changed: Mode | None = None

    def commands(self) -> list[CommandInfo]:
        return [CommandInfo(name="say", description="Say it", arguments="WHAT")]

    async def _command(self, name: str, args: str) -> CommandResult | None:
        return CommandResult(message=f"said {args}") if name == "say" else None

    async def configure(self, change: Change) -> None:
        self.changed = change.mode

    def history(self) -> list[Any]:
        return [TurnStarted(prompt="before"), Message(text="earlier")]


class Editor:
    def __init__(self, *turns: list[Any]) -> None:
        self.updates: list[dict[str, Any]] = []
        self.session = Talking(SessionSpec.of(cwd="/w", answers=True), list(turns))
        self.served = Served(
            self.session, "/w", "suggest", client=ClientAbilities({}), call=self.call, tell=self.tell, warn=print
        )

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        raise AssertionError("nothing is asked here")

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        self.updates.append(params["update"])

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.updates]


@pytest.mark.parametrize(
    ("told", "terminals", "forms"),
    [
        (None, False, False),
        ({"_meta": {"terminal_output": True}, "elicitation": {"form": {}}}, True, True),
        ({"_meta": {"terminal_output": "yes"}, "elicitation": {"url": {}}}, False, False),
        ({"_meta": [], "elicitation": True}, False, False),
    ],
)
def test_an_editor_can_what_it_clearly_says(told: Any, terminals: bool, forms: bool) -> None:
    can = ClientAbilities(told)
    assert (can.terminals, can.forms) == (terminals, forms)


async def test_the_first_prompt_is_the_title() -> None:
    editor = Editor([TextDelta(text="a")], [TextDelta(text="b")])
    for text in ("do\n this", "and that"):
        await editor.served.prompt([{"type": "text", "text": text}])
    titles = [update["title"] for update in editor.updates if update["sessionUpdate"] == "session_info_update"]
    assert titles == ["do this"]
    await editor.served.close()


async def test_a_slash_command_is_run_and_an_unknown_one_is_a_prompt() -> None:
    editor = Editor([TextDelta(text="what?")])
    assert await editor.served.prompt([{"type": "text", "text": "/say  hello"}]) == {"stopReason": "end_turn"}
    assert editor.updates[1]["content"]["text"] == "said hello"
    await editor.served.prompt([{"type": "text", "text": "/unknown"}])
    assert [update["content"]["text"] for update in editor.updates if "content" in update][-1] == "what?"
    await editor.served.close()


async def test_commands_are_offered_once() -> None:
    editor = Editor()
    await editor.served.offer_commands()
    await editor.served.offer_commands()
    assert editor.kinds() == ["available_commands_update"]
    await editor.served.close()


async def test_the_past_is_told_and_has_a_title_already() -> None:
    editor = Editor([TextDelta(text="a")])
    await editor.served.replay()
    assert editor.kinds() == ["user_message_chunk", "agent_message_chunk"]
    await editor.served.prompt([{"type": "text", "text": "more"}])
    assert "session_info_update" not in editor.kinds()
    await editor.served.close()


async def test_a_mode_is_set_when_there_is_one_of_that_name() -> None:
    editor = Editor()
    assert editor.served.modes()["currentModeId"] == "suggest"
    await editor.served.set_mode("plan")
    assert editor.session.changed == "plan" and editor.served.modes()["currentModeId"] == "plan"
    with pytest.raises(Fault, match="no mode"):
        await editor.served.set_mode("wild")
    await editor.served.close()


async def test_a_mode_that_changed_during_a_turn_is_told() -> None:
    async def approve(session: ScriptedSession, turn: Turn) -> None:
        session._info = msgspec.structs.replace(session._info, mode="auto-edit")

    editor = Editor([approve, TextDelta(text="a")])
    await editor.served.prompt([{"type": "text", "text": "go"}])
    assert editor.updates[-2] == {"sessionUpdate": "current_mode_update", "currentModeId": "auto-edit"}
    await editor.served.close()
