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
    argv = installation.argv_adding("local")
    assert argv[:-1] == begins and argv[-1].startswith("treadle[") and "local" in argv[-1]


def test_one_that_came_from_a_clone_is_added_to_from_there() -> None:
    assert "treadle[fleet] @ file:///" in installation.adding("fleet")


def test_what_is_here_is_named_again_where_all_is_installed_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert installation.has("fleet") and installation.has("signing")
    monkeypatch.setitem(installation.PROVIDES, "local", "no_such_module_at_all")
    assert not installation.has("local")
    (tmp_path / "uv-receipt.toml").touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    parts = installation.argv_adding("screen")[-1].partition("]")[0].removeprefix("treadle[").split(",")
    assert "fleet" in parts and "screen" in parts and "local" not in parts
    assert installation.argv_beside("local") == installation.argv_adding("local"), "uv can add nothing beside"


def test_every_optional_part_of_the_package_is_known() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parent.parent / "pyproject.toml").read_text())["project"]
    assert set(installation.PROVIDES) == set(project["optional-dependencies"]) - {"all"}


@pytest.mark.parametrize(
    ("mark", "begins"),
    [("pipx_metadata.json", ["pipx", "inject", "treadle"]), ("nothing", [sys.executable, "-m", "pip", "install"])],
)
def test_a_part_can_be_added_without_installing_the_running_program_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mark: str, begins: list[str]
) -> None:
    (tmp_path / mark).touch()
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    [*argv, package] = installation.argv_beside("local")
    assert argv == begins and package.startswith("xllamacpp>=") and "extra" not in package
    assert [line for line in installation.argv_beside("sandbox") if line.startswith("sandlock")] == [
        "sandlock>=0.9; (sys_platform == 'linux')"
    ]
