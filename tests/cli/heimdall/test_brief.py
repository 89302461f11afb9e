"""heimdall-brief: all that a spawned agent is told."""

import json
from pathlib import Path

from tests.coordination.conftest import Run


def test_a_brief_is_built_of_what_the_options_name(heimdall: Run) -> None:
    heimdall("resolve", "set", "F1", "src/a.py")
    heimdall("capsule", "write", "w1", "--what", "one")
    words = ["build", "--task", "3", "--spec", "do it", "--symbols", "F1", "--capsules", "w1"]
    told = heimdall("brief", *words).stdout
    assert all(part in told for part in ("task 3", "do it", "F1 = src/a.py", "one"))
    assert heimdall("brief", *words, "--invariants", "none.md", "--strict").returncode == 1
    assert heimdall("brief", "build", "--task", "3").returncode == 2
    assert heimdall("brief", "show").returncode == 2


def test_the_command_gives_all_briefs_or_one(heimdall: Run, project: Path) -> None:
    heimdall("resolve", "set", "F1", "src/a.py")
    tasks = [{"task": "1", "spec": "do one", "symbols": "F1"}, {"task": "2", "spec": "do two"}]
    (project / "wave.json").write_text(json.dumps(tasks))
    told = json.loads(heimdall("brief", "wave", "wave.json").stdout)
    assert list(told["briefs"]) == ["1", "2"]
    assert all(text.startswith(told["shared"]) for text in told["briefs"].values())
    assert (
        heimdall("brief", "wave", "-", stdin=json.dumps(tasks)).stdout == heimdall("brief", "wave", "wave.json").stdout
    )
    assert heimdall("brief", "wave", "wave.json", "--task", "2").stdout == told["briefs"]["2"]
    (project / "wave.json").write_text('[{"name": 3}]')
    assert heimdall("brief", "wave", "wave.json").returncode == 2
    assert heimdall("brief", "wave", "nothing.json").returncode == 1


def test_a_budget_and_invariants_count_in_every_brief(heimdall: Run, project: Path) -> None:
    (project / "RULES.md").write_text("# Rules\nBe kind.\n")
    heimdall("capsule", "write", "w1", "--what", "one " * 100)
    words = ["build", "--task", "3", "--spec", "do it", "--capsules", "w1"]
    assert "one one" in heimdall("brief", *words).stdout
    assert "one one" not in heimdall("brief", *words, "--budget", "5").stdout
    assert heimdall("brief", *words, "--invariants", "none.md").returncode == 0, "only --strict refuses that"
    tasks = json.dumps([{"task": "1", "spec": "do one", "capsules": "w1"}])
    told = json.loads(heimdall("brief", "wave", "-", "--invariants", "RULES.md", stdin=tasks).stdout)
    assert "Be kind." in told["shared"] and "one one" in told["shared"]
    assert "one one" not in heimdall("brief", "wave", "-", "--budget", "5", stdin=tasks).stdout
    assert "Be kind." not in heimdall("brief", "wave", "-", stdin=tasks).stdout
    for words in (["wave"], ["wave", "a", "b"], ["build", "x"], []):
        assert heimdall("brief", *words).returncode == 2, words
    refused = heimdall("brief", "wave", "-", stdin="{")
    assert refused.returncode == 2 and "- is not a list of tasks: " in refused.stderr
