"""What a check gets of the source beside the result. How a workspace is copied is in test_workspace.py."""

from pathlib import Path

import pytest

from treadle.errors import WorkspaceError
from treadle.workspace.copied import bring_files, files_under


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = tmp_path / "source"
    (root / "node_modules" / "a").mkdir(parents=True)
    (root / "node_modules" / "a" / "x.js").write_text("x")
    (root / "node_modules" / ".bin").symlink_to("a")
    (root / ".env").write_text("e")
    return root


def test_directories_and_files_are_brought_and_what_is_there_stays(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / ".env").write_text("the result's own")
    paths = [path for name in ("node_modules", "./.env", "missing") for path in files_under(str(source), name)]
    assert sorted(paths) == [".env", "node_modules/.bin", "node_modules/a/x.js"]
    bring_files(str(source), str(target), paths)
    assert (target / "node_modules" / "a" / "x.js").read_text() == "x" and (
        target / "node_modules" / ".bin"
    ).is_symlink()
    assert (target / ".env").read_text() == "the result's own"


def test_a_brought_file_is_a_copy(source: Path, tmp_path: Path) -> None:
    bring_files(str(source), str(tmp_path / "target"), [".env"])
    (tmp_path / "target" / ".env").write_text("changed")
    assert (source / ".env").read_text() == "e"


@pytest.mark.parametrize("name", ["/etc/passwd", "../other", "a/../../b"])
def test_only_what_is_in_the_source_can_be_brought(source: Path, name: str) -> None:
    with pytest.raises(WorkspaceError, match="is not in"):
        files_under(str(source), name)


def test_there_is_a_limit_with_what_to_do(source: Path, tmp_path: Path) -> None:
    with pytest.raises(WorkspaceError, match="--bring"):
        bring_files(str(source), str(tmp_path / "target"), [".env"], cap=0)


@pytest.mark.parametrize("linked", [False, True])
def test_no_link_of_the_result_is_followed(source: Path, tmp_path: Path, linked: bool) -> None:
    hooks, target = tmp_path / "hooks", tmp_path / "target"
    hooks.mkdir()
    target.mkdir()
    (target / "build").symlink_to(hooks)
    (target / "dangling").symlink_to(hooks / "pre-commit")
    for name in ("build/post-checkout", "build/deep/x", "dangling", "fine"):
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        (source / name).write_text("x")
    bring_files(
        str(source), str(target), ["build/post-checkout", "build/deep/x", "dangling", "build", "fine"], linked=linked
    )
    assert list(hooks.iterdir()) == [] and (target / "fine").read_text() == "x"


def test_no_link_of_the_source_is_followed_unless_that_is_wanted(source: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "id_rsa").write_text("SECRET")
    (source / "keys").symlink_to(secret)
    bring_files(str(source), str(tmp_path / "target"), ["keys/id_rsa"])
    assert not (tmp_path / "target" / "keys").exists()
    bring_files(str(source), str(tmp_path / "target"), ["keys", "node_modules", ".env"], linked=True)
    assert (tmp_path / "target" / "keys").resolve() == secret.resolve()
    assert (tmp_path / "target" / "node_modules").is_symlink() and (tmp_path / "target" / ".env").is_file()
