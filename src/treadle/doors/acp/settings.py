"""What an editor can set in a session, as the protocol's config options: the mode, the model, the effort."""

from typing import Any, get_args

from treadle.errors import TreadleError
from treadle.session import Change, Choosing, Effort, ModelMenu, OfferedModel, Reasoning, Session
from treadle.sessions.abilities import can
from treadle.wire.common.jsonrpc import INVALID_PARAMS, Fault

Option = dict[str, Any]
AS_SET = "default"
"""The effort of the settings."""


async def offered(session: Session, modes: dict[str, Any], effort: str, before: list[Option]) -> list[Option]:
    """The options with their values now. What the agent cannot change is left out. A model that was in use `before`
    can be chosen again, although the agent does not list it."""
    able = session.info.capabilities
    found = [_mode(modes)]
    if can(able, "switch_model") and (menu := await _menu(session)).current:
        found.append(_model(menu, [one["currentValue"] for one in before if one["id"] == "model"]))
    if can(able, "effort"):
        found.append(_effort(effort))
    return found


def change(options: list[Option], wanted: Any, value: Any) -> Change:
    """What choosing this value means, for any option but the mode."""
    option = next((one for one in options if one["id"] == wanted), None)
    if option is None:
        raise Fault(INVALID_PARAMS, f"there is no option {wanted!r}", {"options": [one["id"] for one in options]})
    values = [one["value"] for one in option["options"]]
    if value not in values:
        raise Fault(INVALID_PARAMS, f"{wanted} cannot be {value!r}", {"values": values})
    if wanted == "model":
        return Change(model=value)
    return Change(thinking=Reasoning() if value == AS_SET else Reasoning(effort=value))


async def _menu(session: Session) -> ModelMenu:
    """An agent that does not list its models has the one that it uses."""
    if isinstance(session, Choosing):
        try:
            return await session.menu()
        except TreadleError:  # an editor can do without the list
            pass
    models = session.info.models
    return ModelMenu(current=models[0] if models else "", offered=tuple(OfferedModel(id=name) for name in models))


def _model(menu: ModelMenu, before: list[str]) -> Option:
    listed = {name: OfferedModel(id=name) for name in (menu.current, *before)}
    listed |= {one.id: one for one in menu.offered}
    values = [
        {"value": one.id, "name": one.name or one.id, **({"description": one.description} if one.description else {})}
        for one in listed.values()
    ]
    return _select("model", "Model", "model", menu.current, values)


def _mode(modes: dict[str, Any]) -> Option:
    values = [{**mode, "value": mode["id"]} for mode in modes["availableModes"]]
    for value in values:
        del value["id"]
    return _select("mode", "Mode", "mode", modes["currentModeId"], values)


def _effort(current: str) -> Option:
    values = [{"value": AS_SET, "name": "As in the settings"}]
    values += [{"value": level, "name": level.capitalize()} for level in get_args(Effort)]
    return _select("effort", "Effort", "thought_level", current, values)


def _select(id: str, name: str, category: str, current: str, values: list[Option]) -> Option:
    common = {"id": id, "name": name, "category": category, "type": "select"}
    return {**common, "currentValue": current, "options": values}
