"""What agents let be chosen, in the forms in which they tell it."""

from typing import Any

import pytest

from treadle.drivers.acp.options import (
    Setup,
    set_model,
)
from treadle.errors import ConfigError
from treadle.io.rpc import Rpc
from treadle.wire.common.rpc import Returned


def option(kind: str, id: str) -> dict[str, str]:
    return {"optionId": id, "kind": kind}


def test_modes_and_models_are_found_in_every_form() -> None:
    modes = {"currentModeId": "a", "availableModes": [{"id": "a"}, {"id": "b"}]}
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "Em"}]}
    own = Setup({"modes": modes, "models": models})
    assert (own.mode, own.modes, own.has_modes, own.model, own.model_option) == ("a", ["a", "b"], True, "m", None)
    assert own.find_model("Em") == own.find_model("m") == "m" and own.find_model("x") is None
    groups = [{"group": "g", "options": [{"value": "n", "name": "En"}]}]
    settings = [
        {"id": "mode", "category": "mode", "currentValue": "c", "options": [{"value": "c"}]},
        {"id": "which", "category": "model", "currentValue": "n", "options": groups},
        {"id": "allow_all", "currentValue": "off"},
        3,
    ]
    other = Setup({"configOptions": settings})
    assert (other.mode, other.modes, other.has_modes) == ("c", ["c"], False)
    assert (other.model_option, other.models, other.value("allow_all"), other.value("x")) == (
        "which",
        ["n"],
        "off",
        None,
    )


def test_an_agent_that_lets_nothing_be_chosen_has_nothing_to_choose() -> None:
    empty = Setup({"modes": None, "configOptions": "odd", "models": []})
    assert (empty.mode, empty.modes, empty.models, empty.model_option) == ("", [], [], None)


def test_the_menu_has_names_or_ids_and_settings_go_before_the_older_form() -> None:
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m", "name": "Em"}, {"modelId": "n"}]}
    menu = Setup({"models": models}).menu()
    assert menu.current == "m" and [(one.id, one.name) for one in menu.offered] == [("m", "Em"), ("n", "n")]
    option = {"id": "which", "category": "model", "currentValue": "o", "options": [{"value": "o"}]}
    modes = {"currentModeId": "a", "availableModes": [{"id": "a"}]}
    mode = {"id": "mode", "category": "mode", "currentValue": "c", "options": [{"value": "c"}]}
    both = Setup({"sessionId": "s", "models": models, "modes": modes, "configOptions": [option, mode]})
    assert (both.id, both.model, both.models, both.mode, both.modes) == ("s", "o", ["o"], "a", ["a"])
    assert Setup({"sessionId": 7}).id == "" and both.value("which") == "o"


class Told(Rpc):
    """The other end of the wire, which says yes to everything."""

    def __init__(self) -> None:
        self.said: list[Any] = []
        super().__init__(self._write, answer=self._none, notice=lambda notice: None)

    async def _write(self, message: Any) -> None:
        self.said.append((message.method, message.params))
        self.take([Returned(id=message.id, result={})])

    async def _none(self, call: Any) -> None:
        return None


async def test_a_model_is_set_where_the_agent_has_it_and_only_if_it_is_another() -> None:
    rpc = Told()
    models = {"currentModelId": "m", "availableModels": [{"modelId": "m"}, {"modelId": "n", "name": "En"}]}
    older = Setup({"models": models})
    await set_model(rpc, "s", older, "m", "it")
    await set_model(rpc, "s", older, "En", "it")
    option = {"id": "which", "category": "model", "currentValue": "o", "options": [{"value": "o"}, {"value": "p"}]}
    await set_model(rpc, "s", Setup({"configOptions": [option]}), "p", "it")
    assert older.model == "n" and rpc.said == [
        ("session/set_model", {"sessionId": "s", "modelId": "n"}),
        ("session/set_config_option", {"sessionId": "s", "configId": "which", "value": "p"}),
    ]
    for setup, known in ((older, "it has m, n"), (Setup({}), "it has none that it tells of")):
        with pytest.raises(ConfigError, match="it has no model 'x'") as wrong:
            await set_model(rpc, "s", setup, "x", "it")
        assert wrong.value.hint == known
