import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import need
from treadle.agent.tools import files

texts = st.lists(st.sampled_from(["a", "b", "c", "", "d\x0ce", "\u2028", "x\r"]), max_size=14).flatmap(
    lambda lines: st.sampled_from(["\n".join(lines), "\n".join(lines) + "\n" if lines else ""])
)


@settings(max_examples=40)
@given(old=texts, new=texts)
def test_any_diff_can_be_applied_by_git(tmp_path_factory: pytest.TempPathFactory, old: str, new: str) -> None:
    git = need("git")
    root = tmp_path_factory.mktemp("diff")
    text = files.unified(old, new, "file")
    assert bool(text) == (old != new)
    if old == new or not old:
        return
    (root / "file").write_bytes(old.encode())
    (root / "patch").write_bytes(text.encode())
    subprocess.run([git, "apply", "--unidiff-zero", "patch"], cwd=root, check=True, capture_output=True)
    assert (root / "file").read_bytes() == new.encode()


def test_a_big_file_with_a_small_change_and_a_wholly_new_one_take_no_time(tmp_path: Path) -> None:
    old = "".join(f"line {number}\n" for number in range(200_000))
    assert files.unified(old, old.replace("line 100000\n", ""), "f").count("\n-") == 1
    replaced = files.unified(old, old.replace("line", "row"), "f")
    assert replaced.endswith("[the rest of the diff is left out]\n") and len(replaced) < 70_000


def test_lines_that_are_all_the_same_take_no_time_either() -> None:
    few, many = "x\n" * 3900, "x\n" * 200_000
    assert files.unified(f"a\n{few}b\n", f"c\n{many}d\n", "f").endswith("[the rest of the diff is left out]\n")
    assert "-a\n" in files.unified(f"a\n{few}b\n", f"c\n{few}x\nd\n", "f")
