"""Directories to make workspaces of."""

from pathlib import Path

from treadle.workspace.workspace import Workspace, WorkspaceMode, prepare


def open_in(tmp_path: Path, source: Path, mode: WorkspaceMode = "staged", **more: object) -> Workspace:
    directory = tmp_path / "run"
    directory.mkdir()
    return prepare(mode, str(source), str(directory), name="r1", **more)  # type: ignore[arg-type]
