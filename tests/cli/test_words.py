"""Every command as data, which completion and man pages are made from."""

import ast
import importlib
from pathlib import Path

import pytest

from treadle.cli.arguments import TERMINAL
from treadle.cli.heimdall import COMMANDS as HEIMDALL
from treadle.cli.heimdall import MODULES, OF_TREADLE, find
from treadle.cli.help import CommandWords, Option, _first, _from_text, _rest, every

ALL = {command.name: command for command in every()}
ALSO = {"-n", "--follow", "--force", "--tool-version", "--bar"}
"""Other spellings, and what is kept for old scripts."""


def options(command: CommandWords) -> set[str]:
    return {name for option in command.options for name in option.names}


def underscored(name: str) -> str:
    return name.replace("-", "_")


def declared(module: str) -> set[str]:
    """What the command's own parser takes, read from its source."""
    path = Path(importlib.import_module(module).__file__ or "")
    tree = ast.parse(path.read_text())
    texts = [
        node.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "Arguments"
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return {word for text in texts for word in text.split() if word.startswith("-")}


def test_every_command_says_what_it_is_for() -> None:
    assert len(ALL) > 100
    assert [name for name, command in ALL.items() if not command.summary and len(command.path) < 3] == []


@pytest.mark.parametrize("module", sorted(set(TERMINAL.values())))
def test_what_terminal_commands_take_is_in_their_helps(module: str) -> None:
    helps = [options(ALL[f"treadle {name}"]) for name, place in TERMINAL.items() if place == module]
    assert declared(f"treadle.cli.terminal.{module}") - ALSO <= set().union(*helps)


@pytest.mark.parametrize("module", sorted({MODULES.get(name, name) for name in map(underscored, HEIMDALL)}))
def test_what_heimdall_commands_take_is_in_their_helps(module: str) -> None:
    of_it = [name for name in (*HEIMDALL, *OF_TREADLE) if MODULES.get(underscored(name), underscored(name)) == module]
    helps = [options(_from_text(("treadle", "coord", name), find(name)[1])) for name in of_it]
    assert declared(f"treadle.cli.heimdall.{module}") - ALSO <= set().union(*helps)


@pytest.mark.parametrize("name", sorted(HEIMDALL))
def test_a_heimdall_command_takes_the_same_under_both_names(name: str) -> None:
    assert options(ALL[f"treadle coord {name}"]) == options(ALL[f"heimdall-{name}"])


def test_words_of_a_command_are_known_where_they_name_something() -> None:
    assert {ALL[f"treadle {name}"].words for name in ("attach", "send", "resize", "kill")} == {"terminals"}
    assert ALL["treadle sessions rm"].words == "sessions" and ALL["treadle docs"].words == "pages"
    assert ALL["treadle run"].words == "" and ALL["treadle"].words == ""


def test_subcommands_and_values_are_found_in_help_that_a_command_wrote_itself() -> None:
    claim = ALL["heimdall-claim"]
    assert {"claim", "release", "check", "guard", "radar"} <= set(claim.commands)
    values = {option.names[0]: option.value for option in claim.options}
    assert values["--task"] == "T" and values["--json"] == ""


def test_a_command_is_told_whole_and_what_is_hidden_is_not() -> None:
    top = ALL["treadle"]
    names = [option.names for option in top.options]
    assert names[0] == ("-p", "--print") and names[-1] == ("--version",) and len(set(names)) == len(names)
    assert (
        ("-r", "--resume") in names and "--thinking" not in options(top) and top.summary.startswith("Drive, supervise")
    )
    assert "\b" not in top.text and "\n" not in top.summary and "treadle init " in top.text
    submit = {option.names: option for option in ALL["treadle fleet submit"].options}
    assert submit[("--wait",)].value == "" and submit[("--timeout",)].value == "S" and submit[("--wait",)].help
    assert ("--sandbox", "--no-sandbox") in [option.names for option in ALL["treadle worker"].options]
    assert options(ALL["treadle-worker"]) == options(ALL["treadle worker"])


def test_every_terminal_command_takes_its_place_once_but_a_recording_has_none() -> None:
    for name in TERMINAL:
        given = [option.names for option in ALL[f"treadle {name}"].options]
        for one in (("--socket-dir",), ("--config",)):
            assert given.count(one) == (0 if name == "replay" else 1), name


def test_words_are_those_of_the_first_argument_alone() -> None:
    assert ALL["treadle fleet show"].words == ALL["treadle fleet cancel"].words == "orders"
    assert ALL["treadle fleet ls"].words == "" and ALL["treadle completion"].words == "shells"
    assert ALL["treadle coord"].commands == tuple(HEIMDALL) and not any(
        name.startswith("treadle fleet ") and command.commands for name, command in ALL.items()
    )


def test_help_that_a_command_wrote_itself_is_read() -> None:
    text = "Does it.\n\ntreadle x ID [--to DIR] [--all]\n--to=FILE again\n"
    found = _from_text(("treadle", "x"), text)
    assert (found.summary, found.words) == ("Does it.", "terminals")
    assert found.options == (Option(("--to",), "DIR"), Option(("--all",), ""))
    assert _from_text(("treadle", "run"), text.replace(" x ", " run ")).words == ""
    assert _from_text(("heimdall-x",), "heimdall-x: does it\n\nmore").summary == "does it"
    assert _first(None) == _rest(None) == "" and _rest("a\n\n\b\nb") == "b"
