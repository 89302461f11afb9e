"""Every command as data, which completion and man pages are made from."""

import ast
import importlib
from pathlib import Path

import pytest

from treadle.cli.heimdall import COMMANDS as HEIMDALL
from treadle.cli.names import TERMINAL
from treadle.cli.words import CommandWords, every

ALL = {command.name: command for command in every()}
ALSO = {"-n", "--follow", "--force", "--tool-version", "--bar"}
"""Other spellings, and what is kept for old scripts."""


def options(command: CommandWords) -> set[str]:
    return {name for option in command.options for name in option.names}


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


@pytest.mark.parametrize("name", sorted(set(TERMINAL) - {"run"}))
def test_what_a_terminal_command_takes_is_in_its_help(name: str) -> None:
    assert declared(f"treadle.cli.terminal.{name}") - ALSO <= options(ALL[f"treadle {name}"])


@pytest.mark.parametrize("name", sorted(HEIMDALL))
def test_what_a_heimdall_command_takes_is_in_its_help(name: str) -> None:
    found = options(ALL[f"heimdall-{name}"])
    assert declared(f"treadle.cli.heimdall.{name.replace('-', '_')}") - ALSO <= found
    assert options(ALL[f"treadle coord {name}"]) == found


def test_words_of_a_command_are_known_where_they_name_something() -> None:
    assert {ALL[f"treadle {name}"].words for name in ("attach", "send", "resize", "kill")} == {"terminals"}
    assert ALL["treadle sessions rm"].words == "sessions" and ALL["treadle docs"].words == "pages"
    assert ALL["treadle run"].words == "" and ALL["treadle"].words == ""


def test_subcommands_and_values_are_found_in_help_that_a_command_wrote_itself() -> None:
    claim = ALL["heimdall-claim"]
    assert {"claim", "release", "check", "guard", "radar"} <= set(claim.commands)
    values = {option.names[0]: option.value for option in claim.options}
    assert values["--task"] == "T" and values["--json"] == ""
