"""The record of claims is ours: whatever an agent does to files, variables and processes, another's claim stands."""

import json
import os
import shutil
from pathlib import Path

from tests.coordination.conftest import Run, git
from tests.coordination.test_acting import agent
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning

PLACE = ".git/heimdall"
CLAIMS = f"{PLACE}/ledger/claims"
TAKES_AWAY = {
    "removed": f"rm {CLAIMS}/*.json",
    "emptied": f"for f in {CLAIMS}/*.json; do : > $f; done",
    "dated back": f"touch -d 2020-01-01 {CLAIMS}/*.json",
    "dated ahead": f"touch -d 2040-01-01 {CLAIMS}/*.json",
    "ended": f"sed -i s/20[0-9][0-9]-/2020-/ {CLAIMS}/*.json",
    "shortened": f"sed -i 's/\"ttl_minutes\": 90/\"ttl_minutes\": 0/' {CLAIMS}/*.json",
    "given to the attacker": f"sed -i s/gemini/gemini-2/ {CLAIMS}/*.json",
    "other surfaces": f"sed -i s,src/a,docs, {CLAIMS}/*.json",
    "made shared": f"sed -i s/exclusive/shared/ {CLAIMS}/*.json",
    "renamed": f"for f in {CLAIMS}/*.json; do mv $f $f.old; done",
    "the directory": f"rm -rf {PLACE}/ledger",
    "the whole view": f"rm -rf {PLACE}",
    "replaced by a link": f"rm -rf {CLAIMS}; ln -s /nowhere {CLAIMS}",
    "the fence": f"echo 99 > {PLACE}/ledger/fence",
    "the seats": f"rm -rf {PLACE}/seats",
    "a seat forged": f"mkdir -p {PLACE}/seats;"
    f" echo '{{\"haid\": \"HOLDER\", \"pid\": 1, \"start\": 1}}' > {PLACE}/seats/x.json",
    "released": "HEIMDALL_HAID=HOLDER heimdall-claim release",
    "released by the checkout": "HEIMDALL_HAID=ROOT heimdall-claim release --haid HOLDER",
    "released by force": "heimdall-claim release --haid HOLDER --force --reason mine",
    "released by an orphan": "(setsid sh -c 'heimdall-claim release --haid HOLDER --force --reason x; touch done' &);"
    " until test -e done; do sleep 0.05; done",
    "released in another directory": f"HEIMDALL_PLANNING_DIR={PLACE} heimdall-claim release --haid HOLDER",
    "released as its server": "echo '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":"
    "\"release_claim\",\"arguments\":{\"haid\":\"HOLDER\"}}}' | HEIMDALL_HAID=HOLDER heimdall-ledger-mcp",
    "released as its role": "heimdall-claim release --role gemini",
    "renewed to an end": "HEIMDALL_HAID=HOLDER heimdall-claim claim src/a --task x --ttl 1",
    "reaped": "heimdall-claim reap",
    "in another state directory": f"export TREADLE_HOME=/nowhere; rm -rf {PLACE}; heimdall-claim release --haid HOLDER",
    "committed in another state directory": f"rm -rf {PLACE}; echo x >> src/a/b.ts;"
    " TREADLE_HOME=$PWD/../else git commit -qam x",
    "the guard": "heimdall-claim guard uninstall",
    "the guard weakened": "heimdall-claim guard install --mode warn",
    "allowed by an orphan": "(setsid sh -c 'HEIMDALL_ALLOW=$(treadle coord allow) heimdall-claim release --haid HOLDER"
    " --force --reason x; touch done' &); until test -e done; do sleep 0.05; done",
    "the record in part": "sed -i 's/\"seen\"/\"sen\"/' $TREADLE_HOME/claims/*.json",
    "its holder in the record": "sed -i 's/\"haid\"/\"had\"/' $TREADLE_HOME/claims/*.json",
    "a pipe in its place": f"for f in {CLAIMS}/*.json; do rm $f; mkfifo $f $f.json; done",
    "as its session": "GEMINI_SESSION_ID=g1 heimdall-claim release",
    "as its process": "CLAUDE_PID=HOLDERPID CLAUDE_CODE_SESSION_ID=new heimdall-claim release --haid HOLDER",
}  # fmt: skip
"""What an agent may try from its shell: name -> command."""


def test_another_agent_s_claim_stands_and_its_commit_is_refused(project: Path, heimdall: Run) -> None:
    """One attempt after the other: the claim stands after each."""
    with agent(project) as holder, agent(project) as other:
        haid = holder.claim("src/a/**")["haid"]
        other.claim("docs")
        named = {"HOLDERPID": str(holder.process.pid), "HOLDER": haid, "ROOT": haid.partition("/")[0]}
        for what, command in TAKES_AWAY.items():
            for name, value in named.items():
                command = command.replace(name, value)
            other.shell(f"rm -f done; {command}")
            assert git(project, "log", "--format=%s") == "start", what
            assert heimdall("claim", "check", "src/a/b.ts", HEIMDALL_HAID="haid:eve.box-0003").returncode == 3, what
            code, said = other.shell("echo changed >> src/a/b.ts && git commit -qam change")
            assert code and haid in said, (what, said)
            held = Claims(Planning(project=str(project)), str(project)).of(haid)
            assert held is not None and "src/a/**" in held.texts and held.mode == "exclusive", what


def test_what_was_done_to_a_claim_is_put_back_and_reported(project: Path, heimdall: Run) -> None:
    heimdall("claim", "claim", "src", "--task", "T")
    (file,) = (project / CLAIMS).glob("*.json")
    before = json.loads(file.read_text())
    file.unlink()
    assert "ACTIVE CLAIMS (1)" in heimdall("claim", "list").stdout
    assert json.loads(file.read_text()) == before
    assert "was removed, and was put back" in (project / ".planning/ledger/decisions.md").read_text()
    file.write_text(json.dumps({**before, "claimed_surfaces": ["docs"]}))
    assert heimdall("claim", "check", "docs", "src", HEIMDALL_HAID="haid:bob.box-0002").returncode == 3
    assert json.loads(file.read_text())["claimed_surfaces"] == ["src", "docs"], "it can add, and never remove"
    shutil.rmtree(Path(os.environ["TREADLE_HOME"]) / "claims")
    assert "ACTIVE CLAIMS (1)" in heimdall("claim", "list").stdout
    assert "the record of claims was gone" in (project / ".planning/ledger/decisions.md").read_text()


def test_a_file_that_another_tool_wrote_is_a_claim_as_long_as_it_is_there(project: Path, heimdall: Run) -> None:
    heimdall("claim", "claim", "src", "--task", "T")
    now = Planning(project=str(project)).now()
    theirs = {"haid": "haid:bob.box-0002", "claimed_surfaces": ["docs"], "task_ref": "T-2", "heartbeat": now}
    file = project / CLAIMS / "haid_bob.box-0002.json"
    file.write_text(json.dumps(theirs))
    assert "not recorded by heimdall-claim" in heimdall("claim", "list").stdout
    assert heimdall("claim", "claim", "docs", "--task", "T").returncode == 3
    file.unlink()
    assert heimdall("claim", "claim", "docs", "--task", "T").returncode == 0


def test_where_a_person_sets_the_directory_its_files_are_the_authority(project: Path, heimdall: Run) -> None:
    place = {"HEIMDALL_PLANNING_DIR": str(project.parent / "planning")}
    heimdall("claim", "claim", "src", "--task", "T", **place)
    (file,) = Path(place["HEIMDALL_PLANNING_DIR"], "ledger/claims").glob("*.json")
    file.unlink()
    assert heimdall("claim", "list", **place).stdout == "(no active claims)\n"
