"""The small `heimdall-*` commands: symbols, facts, capsules, briefs, tokens, messages, identities, the umbrella."""

import json
from pathlib import Path

from tests.coordination.conftest import Run


def test_an_id_is_found_by_its_value_and_a_lookup_takes_any_name(heimdall: Run) -> None:
    assert heimdall("resolve", "set", "list", "x").stdout == "list = x\n"
    assert heimdall("resolve", "--reverse", "x").stdout == "list\n"
    assert heimdall("resolve", "--reverse", "y").returncode == 1
    assert heimdall("resolve", "lookup", "list").stdout == "x\n"
    assert heimdall("resolve", "list").stdout == "list\tx\n"


def test_bytes_that_are_no_text_come_back_as_they_went_in(installed: Run) -> None:
    assert installed("blackboard", "set", "k", "\udcff\udcfe").returncode == 0
    assert installed("blackboard", "get", "k").stdout == "\udcff\udcfe\n"


def test_a_brief_is_built_of_what_the_options_name(heimdall: Run) -> None:
    heimdall("resolve", "set", "F1", "src/a.py")
    heimdall("capsule", "write", "w1", "--what", "one")
    words = ["build", "--task", "3", "--spec", "do it", "--symbols", "F1", "--capsules", "w1"]
    told = heimdall("brief", *words).stdout
    assert all(part in told for part in ("task 3", "do it", "F1 = src/a.py", "one"))
    assert heimdall("brief", *words, "--invariants", "none.md", "--strict").returncode == 1


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


def test_tokens_are_shown_by_role_and_run(heimdall: Run, project: Path) -> None:
    for role, run in (("b", "r1"), ("a", "r1"), ("a", "r2")):
        heimdall("ledger", "log", "--role", role, "--kind", "k", "--tokens", "5", "--run", run)
    report = "token ledger (tokens by role)\n  a: {} tokens ({} msgs)\n  b: 5 tokens (1 msgs)\n  TOTAL: {} tokens\n"
    assert heimdall("ledger", "report").stdout == report.format(10, 2, 15)
    assert heimdall("ledger", "report", "--run", "r1").stdout == report.format(5, 1, 10)
    assert heimdall("ledger", "report", HEIMDALL_RUN="r1").stdout == report.format(5, 1, 10)
    assert heimdall("ledger", "report", "--run", "", HEIMDALL_RUN="r1").stdout == report.format(10, 2, 15)
    assert heimdall("ledger", "baseline", "--role", "a", "--tokens", "20").stdout == "baseline a = 20 (v1)\n"
    first, row = heimdall("ledger", "delta", "--role", "a").stdout.splitlines()
    assert first == "token delta (v1 baseline -> measured)" and row.startswith("  ") and "20" in row and "10" in row
    (row_of_run,) = json.loads(heimdall("ledger", "delta", "--role", "a", "--run", "r1", "--json").stdout)
    assert (row_of_run["role"], row_of_run["measured"]) == ("a", 5)
    entries = [json.loads(line) for line in (project / ".planning/protocol/ledger.jsonl").read_text().splitlines()]
    assert {entry["source"] for entry in entries} == {"declared"} and {entry["kind"] for entry in entries} == {"k"}
    with (project / ".planning/protocol/ledger.jsonl").open("a") as file:
        file.write("no line\n")
    assert heimdall("ledger", "report").stderr == "heimdall-ledger: 1 unreadable line(s) skipped\n"


ANN, BOB = "haid:ann.box-0001/native", "haid:bob.box-0002/coder"


def test_a_question_is_asked_read_answered_found_and_acknowledged(heimdall: Run) -> None:
    asked = heimdall("message", "ask", "which port?", "--to", BOB, HEIMDALL_HAID=ANN).stdout.strip()
    assert f"{asked}  {ANN} -> {BOB}  question" in heimdall("message", "read", HEIMDALL_HAID=BOB).stdout
    answer = {"type": "task_result", "from": "bob", "msg_id": "r1", "task": "port", "status": "pass", "reply_to": asked}
    assert heimdall("message", "post", "--to", ANN, stdin=json.dumps(answer), HEIMDALL_HAID=BOB).returncode == 0
    thread = json.loads(heimdall("message", "thread", "r1", "--json").stdout)
    assert [entry["message"]["msg_id"] for entry in thread] == [asked, "r1"]
    assert asked in heimdall("message", "search", "WHICH").stdout
    assert heimdall("message", "search", "nothing").stdout == "(no messages)\n"
    assert "r1" in heimdall("message", "read", "--ack", HEIMDALL_HAID=ANN).stdout
    assert heimdall("message", "read", HEIMDALL_HAID=ANN).stdout == "(no messages)\n"
    assert "r1" in heimdall("message", "read", "--all", HEIMDALL_HAID=ANN).stdout


def test_what_is_no_message_is_refused_with_the_reason(heimdall: Run) -> None:
    for given, why in (("{", "not JSON"), ('{"type": "question"}', "missing required field")):
        refused = heimdall("message", "post", stdin=given, HEIMDALL_HAID=ANN)
        assert refused.returncode == 2 and why in refused.stderr


GOOD = '{"type":"question","from":"coder","msg_id":"m1","question":"which port?"}'


def test_a_valid_message_is_0_and_any_other_is_1_with_its_faults(heimdall: Run) -> None:
    fine = heimdall("validate", stdin=GOOD)
    assert (fine.returncode, json.loads(fine.stdout)) == (0, {"valid": True, "errors": []})
    for text in ("{", "[]", '{"type":"question"}', GOOD.replace("question", "riddle", 1)):
        done = heimdall("validate", stdin=text)
        found = json.loads(done.stdout)
        assert (done.returncode, found["valid"]) == (1, False) and found["errors"], text


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
        assert done.returncode == 2 and f"{own} has been revoked" in done.stderr
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


def test_the_trail_can_be_tailed(heimdall: Run) -> None:
    for number in range(25):
        heimdall("resolve", "set", f"F{number}", "x")
    assert len(heimdall("protocol", "log").stdout.splitlines()) == 20
    assert heimdall("protocol", "log", "2").stdout.splitlines()[1].endswith("\tresolve\tset\tF24=x")
    assert len(heimdall("protocol", "log", "9" * 18).stdout.splitlines()) == 25
