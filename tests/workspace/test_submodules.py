"""The files of submodules, where only reading is wanted."""

from pathlib import Path

from tests.fleet.repositories import git
from treadle.workspace.branch_merges import write_submodules
from treadle.workspace.directories import write_files
from treadle.workspace.store import Store, lending
from treadle.workspace.user_repository import UserRepository

LOCAL = ("-c", "protocol.file.allow=always", "submodule", "--quiet")


def made(place: Path, files: dict[str, str], *submodules: Path) -> Path:
    git(place.parent, "init", "-q", "-b", "main", str(place))
    for name, text in files.items():
        (place / name).write_text(text)
    for each in submodules:
        git(place, *LOCAL, "add", str(each), each.name)
    git(place, "add", "-A")
    git(place, "commit", "-qm", "start")
    return place


def written(top: Path, here: Path, **more: int) -> dict[str, str]:
    user = UserRepository.at(str(top))
    assert user is not None
    store = Store.make(str(here.parent / "store"), **lending(user))
    _, files = store.borrow_tree(git(top, "rev-parse", "HEAD"))
    write_files(store, files, str(here))
    return write_submodules(user, files, str(here), **more)


def test_submodules_of_submodules_are_written_as_the_commits_name_them(tmp_path: Path) -> None:
    deep = made(tmp_path / "deep", {"deep.txt": "deep\n"})
    lib = made(tmp_path / "lib", {"lib.txt": "lib\n"}, deep)
    top = made(tmp_path / "top", {"top.txt": "top\n"}, lib)
    git(top, *LOCAL, "update", "--init", "--recursive")
    (top / "lib" / "lib.txt").write_text("not committed\n")
    here = tmp_path / "here"
    assert written(top, here) == {}
    assert (here / "lib" / "lib.txt").read_text() == "lib\n"
    assert (here / "lib" / "deep" / "deep.txt").read_text() == "deep\n"
    assert not list(here.rglob(".git"))
    (tmp_path / "shallow").mkdir()
    at = git(lib, "rev-parse", "HEAD:deep")
    assert written(top, tmp_path / "shallow" / "here", depth=1) == {"lib/deep": at}
    assert (tmp_path / "shallow" / "here" / "lib" / "lib.txt").exists()


def test_what_the_checkout_has_not_or_what_is_no_commit_stays_empty_and_is_named(tmp_path: Path) -> None:
    lib = made(tmp_path / "lib", {"lib.txt": "lib\n"})
    top = made(tmp_path / "top", {"top.txt": "top\n"}, lib)
    blob = git(lib, "rev-parse", "HEAD:lib.txt")
    for name, commit in (("lib", blob), ("nowhere", "1" * 40)):
        git(top, "update-index", "--add", "--cacheinfo", f"160000,{commit},{name}")
    git(top, "commit", "-qm", "moved")
    here = tmp_path / "here"
    assert written(top, here) == {"lib": blob, "nowhere": "1" * 40}
    assert list((here / "lib").iterdir()) == list((here / "nowhere").iterdir()) == []
