"""The docs and the code say the same: names, events, errors, commands, links, and the examples run."""

import asyncio
import re
from pathlib import Path

import click
import pytest

import treadle
from treadle import errors, events
from treadle.cli.root import COMMANDS, _load

ROOT = Path(__file__).parent.parent
DOCS = sorted((ROOT / "docs").rglob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
TEXT = {page: page.read_text() for page in PAGES}


def page(name: str) -> str:
    return (ROOT / "docs" / name).read_text()


def test_every_public_name_is_there_and_documented() -> None:
    for name in treadle.__all__:
        assert getattr(treadle, name) is not None
        assert f"`{name}" in page("reference/python-api.md"), name


def test_every_event_is_documented_with_its_type() -> None:
    kinds = [kind for kind in vars(events).values() if isinstance(kind, type) and issubclass(kind, events.Event)]
    for kind in kinds:
        if kind is not events.Event:
            assert f"| `{kind.__name__}` | `{kind.__struct_config__.tag}` |" in page("reference/events.md"), kind


def test_every_error_code_is_documented() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TreadleError):
            assert re.search(rf"\| `{kind.code}` \| .*`{kind.__name__}`", page("reference/errors.md")), kind


def test_the_error_tree_in_the_docstring_is_the_error_tree() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, errors.TreadleError):
            assert kind.__name__ in (errors.__doc__ or ""), kind


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_has_help_and_stands_in_the_docs(name: str) -> None:
    command = _load(COMMANDS[name])
    assert command.help and command.get_short_help_str()
    assert any(f"treadle {name}" in text for text in TEXT.values()), f"no page mentions `treadle {name}`"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_page_mentions_only_commands_and_pages_that_exist(path: Path) -> None:
    for name in re.findall(r"`treadle ([a-z][a-z-]*)", TEXT[path]):
        assert name in COMMANDS, f"`treadle {name}` does not exist"
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", TEXT[path]):
        assert (path.parent / target).exists(), f"{target} does not exist"


@pytest.mark.parametrize("path", DOCS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_page_can_be_reached_from_the_readme(path: Path) -> None:
    reached, todo = set(), [ROOT / "README.md"]
    while todo:
        here = todo.pop()
        reached.add(here)
        for target in re.findall(r"\]\(([^)#:]+\.md)(?:#[^)]*)?\)", here.read_text()):
            found = (here.parent / target).resolve()
            if found.exists() and found not in reached:
                todo.append(found)
    assert path in reached, f"nothing links to {path.relative_to(ROOT)}"


def test_the_example_of_the_api_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = re.findall(r"```python\n(.*?)```", page("reference/python-api.md"), re.DOTALL)
    (tmp_path / "script.toml").write_text('[[reply]]\ntext = "It weaves."\n')
    monkeypatch.chdir(tmp_path)
    exec(compile(code, "python-api.md", "exec"), {"asyncio": asyncio})
    assert capsys.readouterr().out == "It weaves.\n"


def test_help_of_the_root_teaches_the_two_main_ways() -> None:
    from click.testing import CliRunner

    from treadle.cli.root import treadle as root

    shown = CliRunner().invoke(root, ["--help"]).output
    assert isinstance(root, click.Group) and 'treadle -p "fix the test"' in shown and "treadle demo" in shown
