"""What an agent may do against another's claim only with a person's permission."""

from hashlib import sha256
from pathlib import Path

import pytest

from tests.coordination.conftest import Run
from tests.coordination.test_hooks import attempt, change
from treadle.coordination import bindings
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.errors import Denied

BOB = "haid:bob.box-0002"
AGENT = {"CLAUDE_CODE_SESSION_ID": "s1"}


def code(heimdall: Run) -> str:
    return heimdall("allow").stdout.strip()


def test_an_agent_releases_anothers_claim_only_with_a_code_that_works_once(
    heimdall: Run, project: Path, claims: Claims
) -> None:
    release = ("claim", "release", "--haid", BOB, "--force", "--reason", "mine now")
    refused = heimdall(*release, **AGENT)
    assert refused.returncode == 2 and "ask" in refused.stderr and "HEIMDALL" not in refused.stderr
    assert claims.of(BOB) is not None
    assert heimdall(*release, **AGENT, HEIMDALL_ALLOW="guess").returncode == 2
    given = code(heimdall)
    assert heimdall(*release, **AGENT, HEIMDALL_ALLOW=given).returncode == 0 and claims.of(BOB) is None
    claims.claim(BOB, ["src"], "T-2")
    assert heimdall(*release, **AGENT, HEIMDALL_ALLOW=given).returncode == 2
    assert heimdall(*release).returncode == 0, "a person needs none"


def test_an_agent_passes_the_guard_only_with_a_code(heimdall: Run, project: Path, claims: Claims) -> None:
    heimdall("claim", "guard", "install")
    change(project)
    bypass = {**AGENT, "HEIMDALL_GUARD_BYPASS": "because"}
    assert attempt(project, "commit", "-qm", "no", **bypass).returncode
    assert attempt(project, "commit", "-qm", "yes", **bypass, HEIMDALL_ALLOW=code(heimdall)).returncode == 0


def test_an_agent_cannot_allow_itself(heimdall: Run, project: Path) -> None:
    refused = heimdall("allow", **AGENT)
    assert refused.returncode == 2 and refused.stdout == "" and "person" in refused.stderr
    assert heimdall("allow", "--minutes", "x").returncode == 2


def test_a_code_is_good_once_until_its_time_and_kept_where_only_the_person_reads(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TREADLE_HOME", str(tmp_path / "state"))

    def planning(now: float) -> Planning:
        return Planning(project=str(project), clock=lambda: now)

    first, second = bindings.grant(planning(1000.0), 2), bindings.grant(planning(1000.0), 2)
    place = tmp_path / "state" / "allowed"
    assert first != second and len(list(place.iterdir())) == 2 and place.stat().st_mode & 0o777 == 0o700
    bindings.require(planning(1000.0), "do that")  # a person needs none, and none is used up
    monkeypatch.setenv("HEIMDALL_PROCESS", "7:7")
    assert bindings.in_session(planning(1000.0)), "the process of a session was given"
    monkeypatch.setenv("HEIMDALL_ALLOW", first)
    bindings.require(planning(1119.0), "do that")
    with pytest.raises(Denied, match="an agent may not do that") as refused:
        bindings.require(planning(1119.0), "do that")
    assert refused.value.hint == bindings.HINT
    monkeypatch.setenv("HEIMDALL_ALLOW", second)
    with pytest.raises(Denied):
        bindings.require(planning(1120.0), "do that")
    assert list(place.iterdir()) == [], "one that was too late is gone too"
    monkeypatch.delenv("HEIMDALL_ALLOW")
    (place / sha256(b"").hexdigest()).write_text("2999-01-01T00:00:00Z\n")
    with pytest.raises(Denied):
        bindings.require(planning(1000.0), "do that")
    with pytest.raises(Denied, match="only a person"):
        bindings.grant(planning(1000.0), 2)
