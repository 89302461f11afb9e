"""What a repository says of its own orders: trusted, or only what narrows them."""

from pathlib import Path
from typing import Any

import pytest

from treadle.errors import ConfigError
from treadle.fleet.submission import completed, described
from treadle.settings import trust
from treadle.wire.fleet.orders import HERE, OrderLimits, OrderRequest

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
    with pytest.raises(ConfigError, match="is not trusted"):
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
        ("[project]\ntask = 'always this'\n", "`task` cannot have a default"),
        ("[project]\nby = 'root'\n", "`by` cannot have a default"),
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


def test_a_file_that_is_odd_or_elsewhere_changes_nothing_and_what_was_typed_comes_first(
    repository: Path, tmp_path: Path
) -> None:
    plain, said = made(tmp_path)
    assert plain == OrderRequest(task="x", root=str(tmp_path)) and said == []
    assert completed({"task": "x"}, "here", said.append) == OrderRequest(task="x")
    put(repository, "")
    assert made(repository)[0] == OrderRequest(task="x", root=str(repository))
    put(repository, '[project]\nland = "next"\npolicy = { deny_write = ["a"], deny_read = ["b"] }\n')
    assert made(repository, land=HERE)[0].land == "next" and made(repository, land="main")[0].land == "main"
    mixed = made(repository, policy={"deny_write": ["c"]})[0].policy
    assert (mixed.deny_write, mixed.deny_read) == (("c",), ("b",))
    with pytest.raises(ConfigError, match="here: this is not an order"):
        made(repository, retry_on=["nonsense"])
    put(repository, "templates = 3\n")
    with pytest.raises(ConfigError, match=r"templates have names: \[templates.NAME\]"):
        made(repository)
    with pytest.raises(ConfigError, match="has no template 'fix'") as refused:
        put(repository, "[project]\n")
        made(repository, template="fix")
    assert refused.value.hint == "there are: none"


def test_an_untrusted_file_that_only_narrows_is_taken_whole(repository: Path) -> None:
    put(repository, '[project]\nclaims = ["a"]\npolicy = { deny_write = ["b"] }\n', trusted=False)
    plain, said = made(repository)
    assert (plain.claims, plain.policy.deny_write, said) == (("a",), ("b",), [])
    put(repository, '[project]\npolicy = { allow_network = ["x.example"] }\n', trusted=False)
    plain, said = made(repository)
    assert plain.policy.allow_network == () and len(said) == 1 and "policy of it does not count" in said[0]
