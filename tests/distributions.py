"""Other distributions beside us, as pip would have left them: their sources, and what they say of themselves."""

import sys
import tomllib
from pathlib import Path

import pytest

from treadle.io.paths import config_file

EXAMPLES = Path(__file__).parent.parent / "examples"


def add_distribution(monkeypatch: pytest.MonkeyPatch, source: Path, place: Path, *, allowed: str = "0.1.0") -> None:
    """Put the distribution in `source` on the path, its metadata in `place`; the settings allow a version of it."""
    project = tomllib.loads((source / "pyproject.toml").read_text())["project"]
    name, version = project["name"], project["version"]
    about = place / f"{name.replace('-', '_')}-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    groups = [
        f"[{group}]\n" + "".join(f"{key} = {to}\n" for key, to in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    (about / "entry_points.txt").write_text("\n".join(groups))
    monkeypatch.setattr(sys, "path", [*sys.path, str(place), str(source / "src")])
    Path(config_file()).parent.mkdir(parents=True, exist_ok=True)
    with Path(config_file()).open("a") as file:
        file.write(f'[extensions]\n{name} = "{allowed}"\n' if allowed else "")


@pytest.fixture
def forges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    """GitLab and Forgejo, which are an example of a distribution that adds forges."""
    add_distribution(monkeypatch, EXAMPLES / "forges", tmp_path / "distributions")
