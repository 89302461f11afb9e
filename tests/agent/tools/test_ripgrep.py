import sysconfig
from pathlib import Path

import pytest

from treadle.agent.tools import search


def test_ripgrep_is_found_on_path_and_never_by_a_relative_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    program = tmp_path / "rg"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setattr(sysconfig, "get_path", lambda name: "/no/scripts")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert search.find() == str(program)
    assert search.find(str(tmp_path)) is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", ".")
    assert search.find("/") is None
