"""The gate of a branch: read to the letter, from that branch alone."""

import os
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.workspace.repositories import make
from treadle.errors import ConfigError, NotFound
from treadle.host import gate
from treadle.host.gate import TrustedKey
from treadle.host.signing import Signer
from treadle.workspace.checkouts import around

KEY = Signer(b"1" * 32).public_key
GATE = gate.ReceiptGate(
    format=1, repository="https://x.example/a", check="make a || b", days=30, key=(TrustedKey(public=KEY),)
)
TEXT = gate.written(GATE)


def test_a_gate_is_read_as_it_was_written() -> None:
    assert gate.parse(TEXT.encode(), "x") == GATE
    more = replace(GATE, agents=("native", "codex"), unchanged=("tests/**",), directory="pkg")
    assert gate.parse(gate.written(more).encode(), "x") == more
    expected = more.expected("t" * 40, "b" * 40)
    assert (expected["directory"], GATE.expected("t" * 40, "b" * 40)["directory"]) == ("pkg", ".")
    assert expected["agent"] == "native|codex" and expected["check"] == "make a || b"
    assert expected["evidence"] == "passed|proven|tested" and "differences" not in expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("format = 1", "format = 2"),
        ("days = 30", "days = 0"),
        ("days = 30", "dayz = 30"),
        ("days = 30", "days = 30\ndifferences = 'none'"),
        ("days = 30", "days = 30\nagents = []"),
        ("days = 30", "days = 30\nagents = ['']"),
        ("days = 30", "days = 30\nagents = [' native']"),
        ("days = 30", "days = 30\nevidence = []"),
        ("days = 30", "days = 30\nevidence = ['good']"),
        ("days = 30", "days = 30\nunchanged = []"),
        ("days = 30", "days = 30\ndirectory = ''"),
        ('"make a || b"', '""'),
        ('"make a || b"', '" make"'),
        ('"https://x.example/a"', '""'),
        (f'public = "{KEY}"', 'public = "x"'),
        ("[[key]]", "[[keys]]"),
        ("check =", "cheque ="),
    ],
)
def test_what_is_not_understood_to_the_letter_is_an_error(old: str, new: str) -> None:
    assert old in TEXT
    with pytest.raises(ConfigError):
        gate.parse(TEXT.replace(old, new).encode(), "x")
    with pytest.raises(ConfigError):
        gate.parse(TEXT.split("[[key]]")[0].encode(), "x")


def test_it_is_the_targets_and_what_it_names_is_there(tmp_path: Path) -> None:
    repository = make(tmp_path / "top")
    user = around(repository.top)
    place = Path(repository.top, gate.PATH)
    place.parent.mkdir()
    place.write_text(TEXT)
    with pytest.raises(NotFound, match="main has no .treadle/receipt-gate.toml"):
        gate.read_from(user, "main")
    for text in (TEXT, gate.written(replace(GATE, unchanged=("a.txt", "*.toml")))):
        place.write_text(text)
        repository.git("add", "-A")
        repository.git("commit", "-qm", "gate")
        place.write_text("check uncommitted changes does not count")
        assert gate.read_from(user, "main").repository == GATE.repository
    place.write_text(gate.written(replace(GATE, unchanged=("tests/**",))))
    repository.git("commit", "-qam", "gate")
    with pytest.raises(ConfigError, match="unchanged: 'tests/\\*\\*' matches no file there"):
        gate.read_from(user, "main")
    with pytest.raises(NotFound, match="has no receipt in the git notes"):
        gate.note_of(user, "main")
    assert os.path.exists(place)


LANDED = {
    "squashed after other work, and reverted": "git cherry-pick WORK; git revert --no-edit HEAD",
    "merged after other work, and reverted": "git merge -q --no-ff -m m WORK; git revert -m1 --no-edit HEAD",
    "": "true",
}


@pytest.mark.parametrize("how", LANDED)
def test_work_that_the_branch_has_had_is_not_taken_again(tmp_path: Path, how: str) -> None:
    repository = make(tmp_path / "top")
    base = repository.commit()
    for name, text in (("work", "one\n"), ("other", "two\n")):
        repository.git("checkout", "-qb", name, base)
        Path(repository.top, f"{name}.txt").write_text(text)
        repository.git("add", "-A")
        repository.git("commit", "-qm", name)
    tree = repository.git("rev-parse", "work^{tree}").strip()
    script = LANDED[how].replace("WORK", "work")
    who = "git config user.name x; git config user.email x;"
    subprocess.run(["sh", "-ec", who + script], cwd=repository.top, check=True, capture_output=True)
    facts = {"tree": tree, "base": base}
    assert bool([*gate.used_before(around(repository.top), "other", facts)]) is bool(how)


def test_a_merge_that_the_run_did_not_make_brings_in_what_nobody_checked(tmp_path: Path) -> None:
    repository = make(tmp_path / "top")
    base, tree = repository.commit(), repository.git("rev-parse", "HEAD^{tree}").strip()

    def commit(*parents: str) -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        return repository.git("-c", "user.name=x", "-c", "user.email=x", "commit-tree", tree, *named, "-m", "x").strip()

    other, made = commit(base), commit(base, commit(base, base))
    user = around(repository.top)
    for wanted, facts, wrong in ((commit(base, other), {}, True), (made, {"commit": made}, False), (other, {}, False)):
        assert bool([*gate.brought_in(user, "main", wanted, facts)]) is wrong


def test_the_set_up_is_the_bases_and_no_judge_may_be_changed(tmp_path: Path) -> None:
    repository = make(tmp_path / "top")
    user = around(repository.top)
    assert gate.expected_of(user, GATE, "main", "main")["setup"] == "none"
    Path(repository.top, ".treadle").mkdir()
    Path(repository.top, ".treadle", "config.toml").write_text("[verify]\nsetup = 'npm ci'\n")
    repository.git("add", "-Af")
    repository.git("commit", "-qm", "set-up")
    expected = gate.expected_of(user, GATE, "main", "main")
    assert (expected["setup"], expected["may_change"]) == ("npm ci", "none")


@pytest.mark.parametrize(
    ("finished", "wrong"),
    [
        ("2026-01-01T00:00:00Z", False),
        ("2025-12-03T00:00:00Z", False),
        ("2025-12-01T00:00:00Z", True),
        ("2026-01-01T00:04:00Z", False),
        ("2026-01-01T01:00:00Z", True),
    ],
)
def test_a_receipt_is_good_for_some_days_and_not_before_it_was_made(finished: str, wrong: bool) -> None:
    assert bool([*gate.too_old(GATE, finished, datetime.fromisoformat("2026-01-01T00:00:00Z"))]) is wrong
