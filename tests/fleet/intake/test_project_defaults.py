"""What a repository says of its own orders: trusted, or only what narrows them."""

from pathlib import Path
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.fleet.intake.project_defaults import completed, described
from treadle.settings import trust
from treadle.wire.fleet.orders import OrderLimits, OrderRequest

FILE = """
[project]
agent = "claude"
verify = "make test"
project = "shop"
limits = { tokens = 1000, turns = 9 }
policy = { deny_write = ["*.lock"], allow_network = ["example.org"] }

[templates.fix]
retry_on = ["verify"]
limits = { turns = 30 }
"""


def put(repository: Path, text: str = FILE, *, trusted: bool = True) -> Path:
    (repository / ".treadle").mkdir(exist_ok=True)
    (repository / ".treadle" / "fleet.toml").write_text(text)
    if trusted:
        trust.trust(str(repository))
    return repository


def made(repository: Path, **given: Any) -> tuple[OrderRequest, list[str]]:
    said: list[str] = []
    return completed({"task": "x", "root": str(repository), **given}, "here", said.append), said


def test_a_trusted_project_gives_its_defaults_and_whoever_submits_overrides_them(repository: Path) -> None:
    put(repository)
    plain, said = made(repository)
    assert (plain.agent, plain.verify, plain.project, said) == ("claude", "make test", "shop", [])
    fix, _ = made(repository, template="fix", agent="native", limits={"tokens": 5})
    assert (fix.agent, fix.retry_on, fix.verify) == ("native", ("verify",), "make test")
    assert fix.limits == OrderLimits(tokens=5, turns=30)


def test_an_untrusted_project_only_narrows_and_what_it_was_not_given_is_said(repository: Path) -> None:
    put(repository, trusted=False)
    plain, said = made(repository)
    assert (plain.agent, plain.verify, plain.limits.tokens) == ("native", "", 1000)
    assert plain.policy.deny_write == ("*.lock",) and plain.policy.allow_network == ()
    assert len(said) == 1 and "agent, policy, project, verify" in said[0] and "treadle trust" in said[0]
    with pytest.raises(ConfigError, match="no one has trusted"):
        made(repository, template="fix")
    put(repository, "[project]\nagent = 7\n", trusted=False)
    assert "at `$.agent`" in made(repository)[1][0], "a mistake keeps nobody from working"


def test_a_file_that_changed_since_it_was_trusted_is_not_trusted(repository: Path) -> None:
    put(repository)
    put(repository, FILE.replace("make test", "make other"), trusted=False)
    assert made(repository)[0].verify == ""


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[project]\ncolour = 'red'\n", "colour"),
        ("[project]\ntask = 'always this'\n", "`task` is given with each order"),
        ("[project]\nby = 'root'\n", "`by` is given with each order"),
        ("[order]\nverify = 'x'\n", "neither \\[project\\] nor"),
        ("[templates]\nfix = 3\n", "is not a table"),
    ],
)
def test_a_mistake_in_a_trusted_file_is_named_with_its_place(repository: Path, text: str, problem: str) -> None:
    put(repository, text)
    with pytest.raises(ConfigError, match=problem):
        made(repository)


def test_a_template_that_is_not_there_is_refused_with_those_that_are(repository: Path) -> None:
    with pytest.raises(ConfigError, match="no template 'fix'"):
        made(repository, template="fix")
    put(repository)
    with pytest.raises(ConfigError, match="there are: fix"):
        made(repository, template="fxi")


def test_what_holds_for_orders_is_described_with_each_template(repository: Path) -> None:
    assert described(str(repository), [].append) == ({}, {})
    put(repository, trusted=False)
    fields, templates = described(str(repository), [].append)
    assert "agent" not in fields and templates == {}
    put(repository)
    fields, templates = described(str(repository), [].append)
    assert (fields["agent"], fields["limits"]) == ("claude", {"tokens": 1000, "turns": 9})
    assert templates["fix"]["limits"] == {"tokens": 1000, "turns": 30} and templates["fix"]["agent"] == "claude"
    assert templates["fix"]["retry_on"] == ["verify"]
