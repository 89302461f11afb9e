"""The mode, the model and the effort as options of a session."""

from typing import Any

import pytest

from tests.stand_ins.sessions import ScriptedSession
from treadle.doors.acp.door import AS_SET, offered
from treadle.errors import RemoteError
from treadle.session import AgentInfo, ModelMenu, OfferedModel, SessionSpec

MODES = {"currentModeId": "plan", "availableModes": [{"id": "plan", "name": "Plan", "description": "d"}]}


class Menu(ScriptedSession):
    asked: ModelMenu | RemoteError = ModelMenu(current="b", offered=(OfferedModel(id="a", name="A", description="x"),))

    async def menu(self) -> ModelMenu:
        if isinstance(self.asked, RemoteError):
            raise self.asked
        return self.asked


async def options(session: ScriptedSession, before: list[dict[str, Any]] | None = None) -> dict[str, dict[str, Any]]:
    try:
        return {one["id"]: one for one in await offered(session, MODES, AS_SET, before or [])}
    finally:
        await session.close()


async def test_the_model_that_is_used_is_among_those_that_are_offered() -> None:
    found = await options(Menu(SessionSpec(cwd="/"), []))
    assert found["model"]["currentValue"] == "b" and found["model"]["category"] == "model"
    assert found["model"]["options"] == [{"value": "b", "name": "b"}, {"value": "a", "name": "A", "description": "x"}]
    assert found["mode"]["options"] == [{"value": "plan", "name": "Plan", "description": "d"}]
    assert found["effort"]["currentValue"] == AS_SET and found["effort"]["category"] == "thought_level"


async def test_the_model_that_was_used_first_can_be_chosen_again() -> None:
    found = await options(Menu(SessionSpec(cwd="/"), []), [{"id": "model", "currentValue": "own"}])
    assert [one["value"] for one in found["model"]["options"]] == ["b", "own", "a"]


async def test_what_an_agent_cannot_change_is_not_offered() -> None:
    assert set(await options(Menu(SessionSpec(cwd="/"), [], ["switch_model", "effort"]))) == {"mode"}


async def test_a_list_that_cannot_be_had_leaves_the_model_that_is_known() -> None:
    session = Menu(SessionSpec(cwd="/"), [])
    session.asked = RemoteError("no")
    session._info = AgentInfo(name="x", capabilities=session.info.capabilities, models=("m",))
    assert [one["value"] for one in (await options(session))["model"]["options"]] == ["m"]
    assert "model" not in await options(ScriptedSession(SessionSpec(cwd="/"), []))


async def test_each_option_says_all_that_an_editor_shows() -> None:
    found = await options(Menu(SessionSpec(cwd="/"), []), [{"id": "mode", "currentValue": "other"}])
    assert list(found) == ["mode", "model", "effort"]
    assert [one["value"] for one in found["model"]["options"]] == ["b", "a"], "only models of before"
    effort = found["effort"]
    assert effort["options"][0] == {"value": AS_SET, "name": "As in the settings"}
    assert {"value": "low", "name": "Low"} in effort["options"]
    common = {"id": "effort", "name": "Effort", "category": "thought_level", "type": "select"}
    assert effort == {**common, "currentValue": AS_SET, "options": effort["options"]}
    mode = {"id": "mode", "name": "Mode", "category": "mode", "type": "select", "currentValue": "plan"}
    assert found["mode"] == {**mode, "options": [{"value": "plan", "name": "Plan", "description": "d"}]}
    assert found["model"]["name"] == "Model" and MODES["availableModes"][0]["id"] == "plan"  # type: ignore[index]


@pytest.mark.parametrize(("cannot", "left"), [("switch_model", {"mode", "effort"}), ("effort", {"mode", "model"})])
async def test_each_ability_counts_for_itself(cannot: str, left: set[str]) -> None:
    assert set(await options(Menu(SessionSpec(cwd="/"), [], [cannot]))) == left
