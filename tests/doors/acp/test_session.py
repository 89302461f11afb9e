"""One session of an editor: modes, slash commands, titles, and what the editor said that it can do."""

from typing import Any

import msgspec
import pytest

from tests.stand_ins.sessions import ScriptedSession
from treadle.doors.acp.door import ClientAbilities, Served
from treadle.errors import AuthFailed, MaxIterations, ProviderError
from treadle.events import Asked, Message, TextDelta, TurnStarted, Usage, Warned
from treadle.session import Change, CommandInfo, CommandResult, Mode, SessionSpec
from treadle.sessions.session import Turn
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
        self.served = Served(self.session, "/w", "suggest", client=ClientAbilities({}), call=self.call, tell=self.tell)

        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        self.asked.append((method, params))
        return {"outcome": {"outcome": "selected", "optionId": "once"}}

    async def tell(self, method: str, params: dict[str, Any]) -> None:
        self.updates.append(params["update"])

    def kinds(self) -> list[str]:
        return [update["sessionUpdate"] for update in self.updates]


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


async def test_a_question_is_shown_as_its_call_and_its_answer_goes_to_the_agent() -> None:
    ask = Asked(request="q", kind="permission", text="May it?", call="c", name="bash", command="rm x")
    editor = Editor([ask, Message(text="done")])
    result = await editor.served.prompt([{"type": "text", "text": "go"}])
    assert result["stopReason"] == "end_turn" and [method for method, _ in editor.asked] == [
        "session/request_permission"
    ]
    shown = [update for update in editor.updates if update["sessionUpdate"] == "tool_call"]
    assert len(shown) == 1 and "rm x" in str(shown[0])
    assert editor.asked[0][1]["toolCall"]["toolCallId"] == shown[0]["toolCallId"]
    await editor.served.close()


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (AuthFailed("no key"), -32000, {"code": "auth_failed", "retryable": False}),
        (ProviderError("down", retryable=True), -32603, {"code": "provider_error", "retryable": True}),
    ],
)
async def test_a_turn_that_fails_is_an_error_that_says_why(error: Exception, code: int, data: dict[str, Any]) -> None:
    editor = Editor([error])
    with pytest.raises(Fault) as refused:
        await editor.served.prompt([{"type": "text", "text": "go"}])
    assert (refused.value.code, refused.value.message, refused.value.data) == (code, str(error), data)
    await editor.served.close()


async def test_a_limit_is_told_in_the_conversation_and_what_was_used_with_the_end() -> None:
    usage = Usage(input_tokens=3, output_tokens=2, cache_read_tokens=5, cache_write_tokens=7)
    editor = Editor([usage, MaxIterations("after 3 calls")], [TextDelta(text="a")])
    result = await editor.served.prompt([{"type": "text", "text": "go"}])
    said = [update["content"]["text"] for update in editor.updates if update["sessionUpdate"] == "agent_message_chunk"]
    assert said == ["\n\n[stopped: after 3 calls]"] and result["stopReason"] == "max_turn_requests"
    assert {name: count for name, count in result["usage"].items() if name != "totalTokens"} == {
        "inputTokens": 3,
        "outputTokens": 2,
        "thoughtTokens": 0,
        "cachedReadTokens": 5,
        "cachedWriteTokens": 7,
    }
    assert "current_mode_update" not in editor.kinds()
    await editor.served.close()
    assert editor.session.closed


async def test_what_another_turn_says_is_not_passed_on_and_its_warnings_are_but_for_gaps() -> None:
    async def beside(session: ScriptedSession, turn: Turn) -> None:
        session.emit(Warned(message="of no turn"), turn="")
        session.emit(Warned(message="a gap", code="gap"), turn="")
        session.emit(TextDelta(text="not ours"), turn="other")

    editor = Editor([beside, TextDelta(text="ours")])
    await editor.served.prompt([{"type": "text", "text": "go"}])
    said = [update["content"]["text"] for update in editor.updates if update["sessionUpdate"] == "agent_message_chunk"]
    warned = [update["content"]["text"] for update in editor.updates if "_meta" in update]
    assert said == ["ours"] and warned == ["of no turn"] and editor.served._turns == []
    await editor.served.close()


TEXT = {"type": "text", "text": "x"}


@pytest.mark.parametrize(
    ("blocks", "why"),
    [
        ([{"type": "text", "text": " "}], "the prompt is empty"),
        ([TEXT, {"type": "audio", "data": ""}], "cannot contain a block of the type audio"),
        ([TEXT, {"type": "video"}], "cannot contain a block of the type video"),
        ([TEXT, {"type": "resource", "resource": {"uri": "a.pdf", "blob": "aGk="}}], "a.pdf, which is not text"),
        ([TEXT, "loose"], "cannot contain a block without a type"),
        (
            [{"type": "text", "text": "/say x"}, {"type": "image", "data": "aGk=", "mimeType": "image/png"}],
            "takes none",
        ),
    ],
)
async def test_a_prompt_that_cannot_be_given_is_refused(blocks: list[Any], why: str) -> None:
    editor = Editor()
    with pytest.raises(Fault, match=why):
        await editor.served.prompt(blocks)
    assert "agent_message_chunk" not in editor.kinds()
    await editor.served.close()
