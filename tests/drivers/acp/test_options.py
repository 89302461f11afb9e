"""What agents let be chosen, in the forms in which they tell it."""

from typing import Any

import pytest

from treadle.drivers.acp.options import Setup, chosen, listed, reachable


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
