"""What a run is asked to do, and where it is on disk."""

from pathlib import Path

import pytest

from treadle.host.job import absolute_command


def test_files_of_the_command_get_their_whole_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "host.js").touch()
    assert absolute_command(["node", "host.js", "--flag", "none.js"]) == [
        "node",
        f"{tmp_path}/host.js",
        "--flag",
        "none.js",
    ]
    assert absolute_command(["./host.js"]) == [f"{tmp_path}/host.js"]
