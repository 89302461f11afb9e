"""What agents let be chosen, in the forms in which they tell it."""

from typing import Any

import pytest

from treadle.drivers.acp.options import (
    Setup,
    chosen,
    continuing,
    images,
    listed,
    newest,
    reachable,
    set_model,
)
from treadle.errors import ConfigError, Unsupported
from treadle.io.rpc import Rpc
from treadle.wire.common.rpc import Returned


def option(kind: str, id: str) -> dict[str, str]:
    return {"optionId": id, "kind": kind}


@pytest.mark.parametrize(
    ("offered", "allowed", "id"),
    [
        ([option("allow_always", "a"), option("allow_once", "o"), option("reject_once", "r")], True, "o"),
        ([option("allow_once", "o"), option("allow_once", "o2")], True, "o"),
        ([option("allow_always", "a"), option("reject_once", "r")], True, "a"),
        ([option("allow_once", "o"), option("reject_always", "R"), option("reject_once", "r")], False, "r"),
        ([option("allow_once", "o"), option("reject_always", "R")], False, "R"),
    ],
)
def test_an_option_is_chosen_by_its_kind_and_never_one_that_lasts_if_there_is_another(
    offered: list[Any], allowed: bool, id: str
) -> None:
    assert chosen(offered, allowed) == {"outcome": {"outcome": "selected", "optionId": id}}


@pytest.mark.parametrize("offered", [None, [], [3], [{"kind": "allow_once"}], [option("odd", "x")]])
def test_without_an_option_that_fits_it_is_cancelled(offered: Any) -> None:
    assert chosen(offered, True) == chosen(offered, False) == {"outcome": {"outcome": "cancelled"}}


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


def test_sessions_are_listed_the_latest_first_whatever_their_dates_are() -> None:
    told = {
        "sessions": [
            {"sessionId": "old", "cwd": "/w", "title": "T", "updatedAt": "2026-01-01T00:00:00Z"},
            {"sessionId": "odd", "updatedAt": "yesterday"},
            {"sessionId": "new", "updatedAt": "2026-02-01T00:00:00+00:00"},
            {"title": "no id"},
            3,
        ]
    }
    assert [kept.id for kept in listed(told)] == ["new", "old", "odd"]
    assert listed(told)[1].title == "T" and listed(None) == []


def test_a_server_on_the_network_goes_to_agents_that_can_reach_it() -> None:
    servers = {"here": {"command": "x"}, "there": {"url": "u"}, "old": {"url": "u", "type": "sse"}}
    assert reachable(servers, {}) == ({"here": servers["here"]}, ["there", "old"])
    found, left = reachable(servers, {"mcpCapabilities": {"http": True, "sse": False}})
    assert list(found) == ["here", "there"] and left == ["old"]


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


def test_what_an_agent_says_of_itself_is_what_it_can_do() -> None:
    assert images({"promptCapabilities": {"image": True}}) == "native"
    assert images({"promptCapabilities": {"image": 1}}) == images({}) == "unsupported"
    able = {"loadSession": True, "sessionCapabilities": {"fork": {}, "additionalDirectories": {}}}
    assert continuing(able) == dict.fromkeys(("resume", "fork", "add_dirs"), "native")
    assert continuing({}) == dict.fromkeys(("resume", "fork", "add_dirs"), "unsupported")
    assert continuing({"loadSession": "yes", "sessionCapabilities": {"resume": {}}})["resume"] == "native"
    assert continuing({"loadSession": "yes"})["resume"] == "unsupported"


def test_the_newest_session_is_the_first_of_those_that_are_listed() -> None:
    told = {"sessions": [{"sessionId": "a", "updatedAt": 7}, {"sessionId": "b", "updatedAt": "2026-02-01T00:00:00Z"}]}
    assert newest(listed(told), "it") == "b" and listed(told)[0].updated == 1769904000.0
    with pytest.raises(Unsupported, match="it does not say which session"):
        newest([], "it")


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
