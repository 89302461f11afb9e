"""heimdall-haid: who is who, and who may do nothing."""

import json
from pathlib import Path

from tests.coordination.conftest import Run, trail
from treadle.coordination.planning import Planning


def test_a_declared_identity_that_was_revoked_can_do_nothing(heimdall: Run) -> None:
    ann = "haid:ann.box-0001"
    heimdall("haid", "register", "--haid", ann)
    assert heimdall("haid", "revoke", ann).returncode == 0
    assert heimdall("haid", "check", ann).returncode == 3
    for words in (["resolve", "set", "F1", "x"], ["claim", "claim", "a", "--task", "T"], ["blackboard", "get", "k"]):
        done = heimdall(*words, HEIMDALL_HAID=ann)
        assert done.returncode == 2 and "revoked" in done.stderr
    for words in (["reinstate", ann], ["register"], ["spawn", "helper"], ["revoke", "haid:bob.box-0002"]):
        assert heimdall("haid", *words, HEIMDALL_HAID=ann).returncode == 2
    heimdall("haid", "reinstate", ann)
    assert heimdall("resolve", "set", "F1", "x", HEIMDALL_HAID=ann).returncode == 0


def test_a_checkout_that_was_revoked_can_do_nothing_but_let_a_person_lift_it(heimdall: Run) -> None:
    own = heimdall("haid", "register").stdout.strip()
    heimdall("haid", "revoke", own)
    for words in (
        ["resolve", "set", "F1", "x"],
        ["protocol", "init"],
        ["protocol", "blackboard", "list"],
        ["validate"],
    ):
        done = heimdall(*words)
        assert done.returncode == 2 and f"{own} is revoked" in done.stderr
    assert heimdall("resolve", "set", "F1", "x", HEIMDALL_HAID="haid:bob.box-0002").returncode == 0
    assert heimdall("protocol", "haid", "reinstate", own).returncode == 0
    assert heimdall("resolve", "F1").stdout == "x\n"


def test_the_haid_command(heimdall: Run) -> None:
    own = heimdall("haid").stdout.strip()
    assert own == heimdall("haid", "current").stdout.strip()
    assert heimdall("haid", "spawn", "Coder").stdout == f"{own}/coder\n"
    assert heimdall("haid", "trailer").stdout == f"Heimdall-Agent: {own}\n"
    assert heimdall("haid", "get", own).stdout == "null\n"
    assert heimdall("haid", "list", "--json").stdout == "[]\n"
    assert heimdall("haid", "check").returncode == 3
    lost = heimdall("haid", "heartbeat")
    assert lost.returncode == 2 and lost.stderr.startswith("heimdall-haid: ")
    assert heimdall("haid", "register", "--role", "lead").stdout == f"{own}\n"
    assert heimdall("haid", "check").returncode == 0
    assert heimdall("haid", "heartbeat").returncode == 0
    assert "\tactive\tlead\t" in heimdall("haid", "list").stdout
    assert heimdall("haid", "revoke").returncode == 2
    assert heimdall("haid", "get", "nonsense").returncode == 2


def test_what_is_known_of_an_identity_is_told_and_written_down(heimdall: Run, project: Path) -> None:
    ann = "haid:ann.box-0001"
    assert heimdall("haid", "check", ann).stdout == f"{ann} unknown\n"
    assert heimdall("haid", "register", "--haid", ann, "--role", "lead", "--tool", "t").stdout == f"{ann}\n"
    assert heimdall("haid", "check", ann).stdout == f"{ann} active\n"
    assert heimdall("haid", "heartbeat", ann).stdout == f"heartbeat {ann}\n"
    assert json.loads(heimdall("haid", "get", ann).stdout)["role"] == "lead"
    assert [row["haid"] for row in json.loads(heimdall("haid", "list", "--json").stdout)] == [ann]
    assert heimdall("haid", "revoke", ann).stdout == f"revoke {ann}\n"
    assert heimdall("haid", "check", ann).stdout == f"{ann} revoked\n"
    acts = [(what, to) for tool, what, to in trail(Planning(str(project / ".planning"))) if tool == "haid"]
    for act in (("check", ann), ("get", ann), ("list", "1")):
        assert act in acts
    for words in (["spawn"], ["spawn", "a", "b"], ["list", "x"], ["get", ann, ann], ["nonsense"]):
        assert heimdall("haid", *words).returncode == 2, words
