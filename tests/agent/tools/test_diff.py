import subprocess

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
