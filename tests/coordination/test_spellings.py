"""Two spellings of one file are one file: accents in either form, and case where the file system ignores it."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import NO_KERNEL
from tests.coordination.conftest import git, here
from tests.coordination.test_held_files import HIDDEN, over
from tests.coordination.test_pretool import BOB, ask
from treadle.coordination.claims import Claims
from treadle.coordination.guard import Guarded
from treadle.coordination.planning import Planning
from treadle.coordination.surfaces import folds_case
from treadle.session import Access

NFC, NFD = "caf\u00e9.ts", "cafe\u0301.ts"


@pytest.fixture
def folding(tmp_path: Path) -> Iterator[Path]:
    """A file system on which two names that differ in case are one: NTFS, as Windows has it."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip(f"{NO_KERNEL} FUSE")
    image, place = tmp_path / "image", tmp_path / "folding"
    place.mkdir()
    image.write_bytes(b"")
    os.truncate(image, 1 << 23)
    try:
        subprocess.run(["mkntfs", "-q", "-F", "-Q", image], check=True, capture_output=True)
        subprocess.run(["lowntfs-3g", image, place, "-o", "ignore_case"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no file system that folds case can be mounted here (package ntfs-3g, as root): {error}")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.fixture
def checkout(folding: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout there, in which Bob holds three things."""
    top = folding / "Shop"
    (top / "src" / "pay").mkdir(parents=True)
    git(folding, "init", "-q", "-b", "main", "--template=", str(top))
    for name in ("src/A.py", "src/pay/b.py", "src/c.py"):
        (top / name).write_text("old\n")
    git(top, "add", ".")
    git(top, "commit", "-qm", "start")
    Claims(Planning(project=str(top)), str(top)).claim(BOB, ["src/a.py", "SRC/pay/*.PY", "src/C.py#parse"], "T-1")
    monkeypatch.chdir(top)
    return top


def test_it_is_the_file_system_that_says_so(tmp_path: Path, folding: Path) -> None:
    for place in (tmp_path / "plain", folding / "one"):
        place.mkdir()
        assert not folds_case(str(place)), "nothing is in it to ask about"
    for place in (tmp_path, folding):
        (place / "Name").touch()
    assert (folds_case(str(tmp_path)), folds_case(str(folding))) == (False, True)


@pytest.mark.parametrize(
    "path", ["src/A.py", "SRC/a.PY", "Src/Pay/B.py", "src/pay/New.py", "../SHOP/src/a.py", "SRC/c.py"]
)
def test_a_write_under_another_spelling_is_refused(checkout: Path, path: str) -> None:
    """By the hook in a call and in a command, by a claim, and by our own agent's guard."""
    for where in (path, os.path.normpath(checkout / path)):
        assert ask(checkout, "claude", "Write", {"file_path": where}) is not None
        assert ask(checkout, "claude", "Bash", {"command": f"echo x > {where}"}) is not None
        guarded = Guarded(Planning(project=str(checkout)), "haid:ann.box-0001/native")
        assert guarded.judge(Access(tool="write", kind="write", paths=(str(checkout / where),))).verdict == "deny"
    assert path[0] == "." or "COLLISION" in here("claim", "check", path, cwd=checkout).stderr
    assert ask(checkout, "claude", "Write", {"file_path": "src/d.py"}) is None


@pytest.mark.parametrize("path", ["SRC/A.PY", "src/PAY/B.py", "src/pay/new.py"])
def test_what_a_call_did_under_another_spelling_is_put_back(checkout: Path, path: str) -> None:
    assert ask(checkout, "claude", "Bash", {"command": HIDDEN}) is None
    (checkout / path).write_text("new\n")
    assert "was put back" in over(checkout) or "taken away" in over(checkout)
    assert not (checkout / path).exists() or (checkout / path).read_text() == "old\n"


def test_a_commit_and_git_s_own_files_under_another_spelling_are_refused(checkout: Path) -> None:
    assert ask(checkout, "claude", "Bash", {"command": "rm -r .GIT/Heimdall"}) is not None
    (checkout / "src/pay/b.py").write_text("new\n")
    git(checkout, "add", "-A")
    assert "SRC/pay/*.PY" in here("claim", "guard", "pre-commit", cwd=checkout).stderr


@pytest.mark.parametrize(
    ("held", "asked"), [(NFC, NFD), (NFD, NFC), (f"src/{NFD}", f"src/{NFC}"), (f"s/{NFD}/**", f"s/{NFC}/a")]
)
def test_accents_in_either_form_are_one_name(project: Path, claims: Claims, held: str, asked: str) -> None:
    claims.claim(BOB, [held], "T-2")
    assert ask(project, "claude", "Write", {"file_path": asked}) is not None
    (project / held.replace("**", "a")).parent.mkdir(parents=True, exist_ok=True)
    (project / held.replace("**", "a")).write_text("old\n")
    assert ask(project, "claude", "Bash", {"command": HIDDEN}) is None
    (project / held.replace("**", "a")).write_text("new\n")
    assert "put back" in over(project) and (project / held.replace("**", "a")).read_text() == "old\n"
