"""Our own store: what enters it is hashed, and no file elsewhere can make it run or show anything else."""

import os
import subprocess
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.workspace.repositories import Repository, git, make
from treadle.errors import NotFound, WorkspaceError
from treadle.workspace.changes import TreeEntry, status_lines
from treadle.workspace.store import Algorithm, Store, bundle_parts

WHO = {
    f"GIT_{role}_{what}": value
    for role in ("AUTHOR", "COMMITTER")
    for what, value in {"NAME": "T", "EMAIL": "t@example.com", "DATE": "2026-01-01T00:00:00Z"}.items()
}


@pytest.fixture
def store(repository: Repository, tmp_path: Path) -> Store:
    return Store.make(str(tmp_path / "store"), lenders=[f"{repository.common}/objects"])


def tree_of(store: Store, **files: str) -> str:
    return store.put_files(
        {name: TreeEntry(mode="100644", blob=store.put("blob", text.encode())) for name, text in files.items()}
    )


def forge(objects: Path, name: str, content: bytes) -> None:
    """Put other content under the right name, as whoever can write to a repository can."""
    place = objects / name[:2] / name[2:]
    place.parent.mkdir(exist_ok=True)
    if place.exists():
        place.unlink()
    place.write_bytes(zlib.compress(b"blob %d\0" % len(content) + content))


@pytest.mark.parametrize("algorithm", ["sha1", "sha256"])
def test_git_agrees_with_every_id_that_we_make(tmp_path: Path, algorithm: Algorithm) -> None:
    store = Store.make(str(tmp_path / "store"), algorithm=algorithm)
    tree = tree_of(store, **{"a": "1", "a.b": "2", "a-": "3", "ab/c/d": "4", "ab/x": "5", "z": ""})
    assert store.git("fsck", "--strict", "--no-dangling").stdout == b""
    assert store.git("ls-tree", "-r", "--name-only", tree).stdout.split() == [
        b"a",
        b"a-",
        b"a.b",
        b"ab/c/d",
        b"ab/x",
        b"z",
    ]


@given(st.dictionaries(st.text("ab.-/", min_size=1, max_size=6), st.binary(max_size=20), max_size=8))
def test_any_set_of_files_comes_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, bytes]
) -> None:
    names = [path for path in files if not set(path.split("/")) & {"", ".", ".."}]
    given_ = {path: files[path] for path in names if not any(other.startswith(f"{path}/") for other in names)}
    store = Store.make(str(tmp_path_factory.mktemp("store")))
    entries = {path: TreeEntry(mode="100644", blob=store.put("blob", data)) for path, data in given_.items()}
    found = store.files(store.put_files(entries))
    assert found == entries
    read = store.blobs(entry.blob for entry in found.values())
    assert {path: read[entry.blob] for path, entry in found.items()} == given_


def test_differences_are_those_that_git_finds(store: Store) -> None:
    long = "".join(f"line {number}\n" for number in range(20))
    before, after = (
        tree_of(store, edit="1\n", gone="bye\n", old=long),
        tree_of(store, edit="2\n", new=long, **{"d/x": "x"}),
    )
    found = store.deltas(before, after)
    assert status_lines([delta.change for delta in found]) == "A  d/x\nM  edit\nD  gone\nR  old -> new"
    assert b"-1\n+2\n" in store.patch(before, after)


def test_the_tree_of_a_commit_is_borrowed_and_its_changed_files_are_brought_in(
    repository: Repository, store: Store
) -> None:
    tree, files = store.borrow_tree(repository.commit())
    assert tree == repository.git("rev-parse", "HEAD^{tree}").strip()
    after = store.put_files({**files, "a.txt": TreeEntry(mode="100644", blob=store.put("blob", b"two\n"))})
    assert [delta.change.path for delta in store.deltas(tree, after)] == ["a.txt"]
    assert b"-one\n+two\n" in store.patch(tree, after)


def test_a_forged_object_of_the_lender_is_refused(repository: Repository, store: Store) -> None:
    tree, files = store.borrow_tree(repository.commit())
    forge(Path(repository.common) / "objects", files["a.txt"].blob, b"evil\n")
    after = store.put_files({path: entry for path, entry in files.items() if path != "a.txt"})
    for act in (lambda: store.deltas(tree, after), lambda: store.blobs([files["a.txt"].blob])):
        with pytest.raises(WorkspaceError, match="does not match its hash"):
            act()


@pytest.mark.parametrize("what", ["HEAD", "HEAD^{tree}"])
def test_a_forged_tree_or_commit_of_the_lender_is_refused(repository: Repository, store: Store, what: str) -> None:
    right, objects = repository.commit(), Path(repository.common) / "objects"
    name = repository.git("rev-parse", what).strip()
    (Path(repository.top) / "other.txt").write_text("x\n")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "other", cwd=repository.top)
    other = repository.git("rev-parse", what).strip()
    place = objects / name[:2] / name[2:]
    place.unlink()
    place.write_bytes((objects / other[:2] / other[2:]).read_bytes())
    with pytest.raises(WorkspaceError, match="hash mismatch|does not match its hash"):
        store.borrow_tree(right)


def test_replaced_objects_are_not_followed(repository: Repository, store: Store) -> None:
    """`refs/replace` of the store itself: there is no way to put one there, and it would not be followed."""
    one, two = tree_of(store, a="1\n"), tree_of(store, a="2\n")
    first = store.commit(one, [], "1", who=WHO)
    second = store.commit(two, [], "2", who=WHO)
    store.git("update-ref", f"refs/replace/{first}", second)
    assert store.tree_of(first) == one


def bundle_of(repository: Repository, branch: str, base: str) -> bytes:
    return git("bundle", "create", "-", branch, f"^{base}", cwd=repository.top).stdout


def test_a_bundle_whose_objects_the_lender_has_in_another_form_is_refused(repository: Repository, store: Store) -> None:
    base = repository.commit()
    (Path(repository.top) / "b.txt").write_text("shown\n")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "work", cwd=repository.top)
    bundle = bundle_of(repository, "main", base)
    forge(Path(repository.common) / "objects", repository.git("rev-parse", "HEAD:b.txt").strip(), b"forged\n")
    with pytest.raises(WorkspaceError, match="git index-pack failed"):
        store.take_bundle(bundle, "refs/heads/main", "refs/runs/1")
    assert store.ref("refs/runs/1") is None


def test_a_bundle_that_lacks_an_object_is_refused(repository: Repository, tmp_path: Path) -> None:
    """As one made inside, where a forged object stood in for the one that is missing."""
    base = repository.commit()
    (Path(repository.top) / "b.txt").write_text("shown\n")
    git("add", "-A", cwd=repository.top)
    git("commit", "-qm", "work", cwd=repository.top)
    blob = repository.git("rev-parse", "HEAD:b.txt").strip()
    forge(Path(repository.common) / "objects", blob, b"applied\n")
    bundle = bundle_of(repository, "main", base)
    store = Store.make(str(tmp_path / "alone"))
    with pytest.raises(WorkspaceError, match="git index-pack failed"):
        store.take_bundle(bundle, "refs/heads/main", "refs/runs/1")
    assert store.ref("refs/runs/1") is None


@given(st.binary(max_size=200))
def test_what_is_no_bundle_is_refused(tmp_path_factory: pytest.TempPathFactory, junk: bytes) -> None:
    store = Store.make(str(tmp_path_factory.mktemp("store")))
    for data in (junk, b"# v2 git bundle\n" + junk):
        with pytest.raises(WorkspaceError):
            store.take_bundle(data, "refs/heads/main", "refs/runs/1")


def test_a_bundle_cannot_smuggle_a_git_directory_in(repository: Repository, store: Store, tmp_path: Path) -> None:
    index = {"GIT_INDEX_FILE": str(tmp_path / "index")}
    blob = git("hash-object", "-w", "--stdin", cwd=repository.top, stdin=b"x").stdout.decode().strip()
    row = f"100644 blob {blob}\tconfig\n".encode()
    inner = git("mktree", cwd=repository.top, stdin=row).stdout.decode().strip()
    tree = git("mktree", cwd=repository.top, stdin=f"040000 tree {inner}\t.git\n".encode()).stdout.decode().strip()
    evil = git("commit-tree", tree, "-m", "x", cwd=repository.top, env=index).stdout.decode().strip()
    git("update-ref", "refs/heads/evil", evil, cwd=repository.top)
    bundle = git("bundle", "create", "-", "evil", cwd=repository.top).stdout
    with pytest.raises(WorkspaceError, match="git index-pack failed"):
        store.take_bundle(bundle, "refs/heads/evil", "refs/runs/1")


def test_a_commit_goes_out_as_a_bundle_that_a_clone_takes(repository: Repository, store: Store, tmp_path: Path) -> None:
    base = repository.commit()
    _, files = store.borrow_tree(base)
    after = store.put_files({**files, "b.txt": TreeEntry(mode="100644", blob=store.put("blob", b"two\n"))})
    commit = store.commit(after, [base], "done", who=WHO)
    store.set_ref("refs/heads/out", commit)
    (tmp_path / "out.bundle").write_bytes(store.bundle("refs/heads/out", without=[base]))
    git("fetch", "--quiet", str(tmp_path / "out.bundle"), "refs/heads/out:refs/heads/in", cwd=repository.top)
    assert repository.git("show", "in:b.txt") == "two\n"


def test_settings_of_the_person_do_not_reach_the_store(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    home = tmp_path / "home"
    (home / ".config" / "git").mkdir(parents=True)
    (home / ".config" / "git" / "attributes").write_text("* diff=evil\n")
    (home / ".gitconfig").write_text(
        f'[diff]\n\texternal = touch {canary}\n[diff "evil"]\n\tcommand = touch {canary}\n\ttextconv = touch {canary}\n'
        f"[core]\n\tfsmonitor = touch {canary}\n\tpager = touch {canary}\n"
    )
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", f"touch {canary}")
    one, two = tree_of(store, a="1\n"), tree_of(store, a="2\n")
    assert b"+2" in store.patch(one, two)
    assert not canary.exists()


def test_a_store_is_opened_again(store: Store, tmp_path: Path) -> None:
    again = Store.open(store.directory)
    assert (again.lenders, again.algorithm) == (store.lenders, store.algorithm)
    with pytest.raises(NotFound, match="there is no store in"):
        Store.open(str(tmp_path / "none"))


def test_a_place_with_odd_characters_can_lend(tmp_path: Path) -> None:
    odd = make(tmp_path / 'a "quoted": place')
    store = Store.make(str(tmp_path / "store"), lenders=[f"{odd.common}/objects"])
    assert "a.txt" in store.borrow_tree(odd.commit())[1]
    subprocess.run(["git", "-C", odd.top, "fsck"], check=True, capture_output=True)


def test_a_seal_breaks_when_what_git_obeys_is_changed(store: Store) -> None:
    first = store.seal()
    store.put("blob", b"x")
    assert store.seal() == first
    seals = {first}
    for name in ("config", "HEAD", "info/attributes", "objects/info/alternates", "info/grafts"):
        with open(os.path.join(store.directory, name), "a") as file:
            file.write("# more\n")
        seals.add(store.seal())
    assert len(seals) == 6


def test_a_blob_of_another_size_than_was_said_is_refused_and_leaves_nothing(store: Store) -> None:
    for pieces, size, why in (
        ([b"ab"], 3, "1 bytes are missing: it was changed"),
        ([b"ab", b"c"], 2, "1 bytes too many"),
    ):
        with pytest.raises(WorkspaceError, match=why):
            store.put_pieces(pieces, size)
    assert not [name for name in os.listdir(os.path.join(store.directory, "objects")) if name.startswith("tmp")]
    name = store.put_pieces([b"ab", b"c"], 3)
    assert name == store.id_of("blob", b"abc") == store.put("blob", b"abc") and store.blobs([name]) == {name: b"abc"}
    assert store.has(name) and not store.has("1" * 40) and store.blobs([]) == {}
    with pytest.raises(WorkspaceError, match=f"the object {'1' * 40} is missing") as error:
        store.blobs(["1" * 40])
    assert error.value.hint == "run git fsck in the repository"


@pytest.mark.parametrize("ref", ["refs", "heads/x", "refs/../x", "refs/a..b", "refs/-x", "refs/a b", "refs/x/"])
def test_only_a_plain_ref_keeps_a_commit(store: Store, ref: str) -> None:
    commit = store.loose_commit(store.put_files({}))
    with pytest.raises(ValueError, match="not a ref and a commit"):
        store.set_ref(ref, commit)
    with pytest.raises(ValueError, match="not a ref and a commit"):
        store.set_ref("refs/keep/one", "HEAD")
    store.set_ref("refs/keep/one", commit)
    assert store.ref("refs/keep/one") == commit and store.ref("refs/keep/two") is None
    assert store.tree_of(commit) == store.put_files({})


def test_a_bundle_without_the_ref_and_commits_that_are_none_are_refused(store: Store) -> None:
    commit = store.loose_commit(store.put_files({}))
    store.set_ref("refs/keep/one", commit)
    bundle = store.bundle("refs/keep/one")
    assert bundle_parts(bundle)[0] == {"refs/keep/one": commit}
    with pytest.raises(WorkspaceError, match="the bundle has no refs/keep/two, only refs/keep/one"):
        store.take_bundle(bundle, "refs/keep/two", "refs/keep/three")
    assert store.take_bundle(bundle, "refs/keep/one", "refs/keep/three") == commit == store.ref("refs/keep/three")
    with pytest.raises(WorkspaceError, match=f"cannot merge {'1' * 40} into {commit}: "):
        store.merge(commit, "1" * 40)
    with pytest.raises(WorkspaceError, match="this is not a git bundle"):
        bundle_parts(b"# v2 git bundle\nno end")
    head = b"# v3 git bundle\n@object-format=sha1\n-%s before\n%s refs/x\nodd line\n\npack" % (b"1" * 40, b"2" * 40)
    assert bundle_parts(head) == ({"refs/x": "2" * 40}, b"pack")
