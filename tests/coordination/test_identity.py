"""HAIDs and the registry."""

import hashlib
import json
import os
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.coordination.conftest import Clock, git
from treadle.coordination import identity
from treadle.coordination.identity import Agents, current, is_haid, root, slug, spawn
from treadle.coordination.planning import Planning
from treadle.errors import ConfigError, Denied, NotFound

FORM = re.compile(r"haid:[a-z0-9-]+\.[a-z0-9-]+-[0-9a-f]{4}(/[a-z0-9][a-z0-9-]*)?")
ANN = "haid:ann.box-0001"


@given(st.text() | st.from_regex(FORM, fullmatch=True) | st.text(alphabet="haid:.-/0af"))
def test_what_is_a_haid_is_decided_as_by_its_regular_expression(text: str) -> None:
    assert is_haid(text) == (FORM.fullmatch(text) is not None)


@given(st.text())
def test_a_slug_has_only_plain_characters(text: str) -> None:
    assert re.fullmatch(r"([a-z0-9]+(-[a-z0-9]+)*-?)?", slug(text)) and len(slug(text)) <= 24


def test_the_root_is_made_from_the_checkout(project: Path, tmp_path: Path) -> None:
    machine = slug(os.uname().nodename.split(".")[0])
    digest = hashlib.sha256("\x1f".join(["ann", machine, str(project)]).encode()).hexdigest()
    assert root(str(project / "src")) == f"haid:ann.{machine}-{digest[:4]}"
    git(project, "worktree", "add", "-q", str(tmp_path / "other"), "-b", "other")
    assert root(str(tmp_path / "other")) != root(str(project))  # two checkouts are two identities


def test_without_an_address_in_git_it_is_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "Bob B.")
    assert root(str(tmp_path)).startswith("haid:bob-b.")
    monkeypatch.setenv("USER", "")
    monkeypatch.setenv("LOGNAME", "")
    assert root(str(tmp_path)).startswith("haid:unknown.")


def test_who_acts_can_be_declared(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert spawn(str(project), "Code Reviewer") == root(str(project)) + "/code-reviewer"
    monkeypatch.setenv("HEIMDALL_HAID", f"{ANN}/coder")
    assert current(str(project)) == f"{ANN}/coder"
    assert spawn(str(project), "tester") == f"{ANN}/tester"
    monkeypatch.setenv("HEIMDALL_HAID", "somebody")
    with pytest.raises(ConfigError):
        current(str(project))
    with pytest.raises(ConfigError):
        spawn(str(project), "!!")


@pytest.fixture
def agents(tmp_path: Path, clock: Clock) -> Agents:
    return Agents(Planning(str(tmp_path / ".planning"), project=str(tmp_path), clock=clock))


def test_an_entry_has_its_fields_in_order(agents: Agents) -> None:
    agents.register(f"{ANN}/cursor", tool="cursor", tool_version="1.2")
    text = Path(agents.document.path).read_text()
    assert json.loads(text) == {
        "version": "1.0.0",
        "agents": {
            f"{ANN}/cursor": {
                "human": "ann",
                "role": "cursor",
                "tool": "cursor",
                "tool_version": "1.2",
                "first_seen": "2026-06-11T12:07:27Z",
                "last_heartbeat": "2026-06-11T12:07:27Z",
                "status": "active",
            }
        },
    }
    agents.register(ANN)
    assert agents.all()[ANN]["role"] == "orchestrator"


def test_registering_again_keeps_since_when_it_is_known_and_that_it_is_revoked(agents: Agents, clock: Clock) -> None:
    agents.register(ANN, role="lead")
    agents.revoke(ANN)
    clock.now += 60
    agents.register(ANN)
    entry = agents.get(ANN)
    assert entry is not None
    assert (entry["first_seen"], entry["role"], entry["status"]) == ("2026-06-11T12:07:27Z", "lead", "revoked")


def test_a_revoked_identity_and_its_roles_are_refused_until_reinstated(agents: Agents) -> None:
    agents.register(ANN)
    agents.register(f"{ANN}/coder")
    agents.revoke(ANN)
    for haid in (ANN, f"{ANN}/coder", f"{ANN}/never-registered"):
        with pytest.raises(Denied, match="revoked"):
            agents.require(haid)
    with pytest.raises(Denied):
        agents.heartbeat(ANN)
    agents.require("haid:bob.box-0002")
    agents.reinstate(ANN)
    agents.require(ANN)
    agents.revoke(f"{ANN}/coder")
    agents.require(ANN)


def test_who_was_not_heard_of_for_half_an_hour_is_stale(agents: Agents, clock: Clock) -> None:
    agents.register(ANN)
    clock.now += identity.STALE_SECONDS
    assert agents.all()[ANN]["status"] == "active"
    clock.now += 1
    assert agents.all()[ANN]["status"] == "stale"
    agents.heartbeat(ANN)
    assert agents.all()[ANN]["status"] == "active"
    agents.revoke(ANN)
    clock.now += 3600
    assert agents.all()[ANN]["status"] == "revoked"


def test_who_is_not_registered_cannot_be_revoked(agents: Agents) -> None:
    with pytest.raises(NotFound):
        agents.revoke(ANN)
    assert agents.get(ANN) is None
