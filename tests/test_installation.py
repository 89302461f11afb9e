"""The command that adds an optional part fits the way this Treadle was installed."""

import sys
from pathlib import Path

import pytest

from treadle import installation


@pytest.mark.parametrize(
    ("mark", "begins"),
    [
        ("uv-receipt.toml", ["uv", "tool", "install", "--force"]),
        ("pipx_metadata.json", ["pipx", "install", "--force"]),
        ("nothing", [sys.executable, "-m", "pip", "install"]),
    ],
)
def test_the_tool_that_made_the_environment_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, begins: list[str]
) -> None:
    (tmp_path / mark).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    argv = installation.argv_adding("schema")
    assert argv[:-1] == begins and argv[-1].startswith("treadle[") and "schema" in argv[-1]


def test_one_that_came_from_a_clone_is_added_to_from_there() -> None:
    assert "treadle[fleet] @ file:///" in installation.adding("fleet")


def test_what_is_here_is_named_again_where_all_is_installed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installation.has("fleet") and installation.has("signing")
    monkeypatch.setitem(installation.PROVIDES, "schema", "no_such_module_at_all")
    assert not installation.has("schema")
    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    parts = installation.argv_adding("screen")[-1].partition("]")[0].removeprefix("treadle[").split(",")
    assert "fleet" in parts and "screen" in parts and "schema" not in parts


def test_every_optional_part_of_the_package_is_known() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert set(installation.PROVIDES) == set(project["optional-dependencies"]) - {"all"}
