"""A session's spec: a wrong value is refused where it is given, and the defaults allow least."""

from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.session import (
    Answer,
    CommandInfo,
    CommandResult,
    Confinement,
    Instructions,
    Prompt,
    SessionSpec,
    parse_mode,
)


@pytest.mark.parametrize(
    "wrong",
    [
        {"cwd": None},
        {"model": 3},
        {"env": [("A", "b")]},
        {"mode": 1},
        {"mode": "wild"},
        {"rules": {"deny": ()}},
        {"limits": None},
        {"add_dirs": "/"},
        {"subagents": []},
        {"tools": ("bash",)},
        {"guards": None},
        {"confinement": "on"},
        {"start": "s1"},
    ],
)
def test_a_value_of_another_kind_is_refused_with_its_name(wrong: dict[str, Any]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError) as refused:
        SessionSpec(**{"cwd": "/", **wrong})
    assert name in str(refused.value) or "permission mode" in str(refused.value)


def test_by_default_every_step_is_asked_no_one_answers_and_nothing_is_trusted() -> None:
    spec = SessionSpec(cwd="/")
    assert (spec.mode, spec.answers, spec.trusted, spec.inherit_env, spec.looks_freely) == ("suggest",) + (False,) * 4
    assert Confinement().network == "auto" and not Confinement().write
    assert Answer(decision="allow").scope == "once"
    assert (spec.start.fork, spec.start.persist, spec.tools.only_servers, spec.tools.later) == (
        False,
        True,
        False,
        False,
    )
    assert spec.instructions.project and spec.instructions.commands and not Prompt(text="x").verbatim
    assert CommandResult(message="done").ok and not CommandInfo(name="c", description="d").skill


@pytest.mark.parametrize(
    ("given", "user", "project"),
    [
        ({}, True, True),
        ({"sources": ("user",)}, True, False),
        ({"sources": ()}, False, False),
        ({"project": False}, False, False),
        ({"project": False, "sources": ("user", "project")}, False, False),
    ],
)
def test_whose_instructions_are_used(given: dict[str, Any], user: bool, project: bool) -> None:
    found = Instructions(**given)
    assert (found.uses("user"), found.uses("project")) == (user, project)


@pytest.mark.parametrize(("name", "mode"), [("plan", "plan"), ("PLAN", "plan"), ("acceptEdits", "auto-edit")])
def test_a_mode_has_names_of_other_programs_too(name: str, mode: str) -> None:
    assert parse_mode(name) == mode == SessionSpec(cwd="/", mode=name).mode  # type: ignore[arg-type]
