"""One agent has one identity in everything it does: its MCP server, its shell, the git hooks of its commits."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.coordination.conftest import BIN, Run, git, grow_old
from treadle.coordination import identity
from treadle.coordination.bindings import IdentityBindings, acting
from treadle.coordination.claims import Claims
from treadle.coordination.identity import root
from treadle.coordination.planning import Planning
from treadle.errors import Denied

AGENT = """
import json, os, subprocess, sys
server = subprocess.Popen([sys.argv[1] + "/heimdall-ledger-mcp"], stdin=-1, stdout=-1, text=True)
number = 0
def call(method, params):
    global number
    number += 1
    asked = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    print(json.dumps(asked), file=server.stdin, flush=True)
    return json.loads(server.stdout.readline())["result"]
call("initialize", {"clientInfo": {"name": os.environ.get("CLIENT", "gemini")}})
for line in sys.stdin:
    kind, what = json.loads(line)
    if kind == "shell":
        done = subprocess.run(["sh", "-c", what], capture_output=True, text=True)
        print(json.dumps([done.returncode, done.stdout + done.stderr]), flush=True)
    else:
        print(json.dumps(call("tools/call", {"name": kind, **what})["structuredContent"]), flush=True)
server.stdin.close()
server.wait()
"""
"""A program that is to the server and the shell what an agent is: their parent."""


class Agent:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self.process = process

    def do(self, kind: str, what: Any) -> Any:
        assert self.process.stdin is not None and self.process.stdout is not None
        print(json.dumps([kind, what]), file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def claim(self, *surfaces: str, **more: Any) -> Any:
        return self.do("make_claim", {"arguments": {"surfaces": surfaces, "task": "T"}, **more})

    def shell(self, command: str) -> tuple[int, str]:
        code, said = self.do("shell", command)
        return code, said


@contextmanager
def agent(cwd: Path, **env: str) -> Iterator[Agent]:
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", **env}
    process = subprocess.Popen(
        [sys.executable, "-c", AGENT, str(BIN)], stdin=-1, stdout=-1, text=True, cwd=cwd, env=environ
    )
    try:
        yield Agent(process)
    finally:
        process.communicate(timeout=60)


def test_what_an_agent_claimed_over_mcp_it_commits_from_its_shell(project: Path, heimdall: Run) -> None:
    heimdall("claim", "guard", "install")
    with agent(project) as one, agent(project) as two:
        claimed = one.claim("src/a/**")
        assert "HEIMDALL_HAID" not in claimed["commit"]
        assert one.shell("heimdall-haid")[1].strip() == claimed["haid"]
        other = two.shell("heimdall-haid")[1].strip()
        assert {claimed["haid"].partition("/")[2], other.partition("/")[2]} == {"gemini", "gemini-2"}
        change = "echo 'changed' >> src/a/b.ts && git commit -qam change"
        code, said = two.shell(change)
        assert code and claimed["haid"] in said
        code, said = one.shell(change)
        assert (code, said) == (0, "")
    done = subprocess.run(["git", "-C", str(project), "log", "--oneline"], capture_output=True, text=True)
    assert len(done.stdout.splitlines()) == 2


def test_a_session_id_joins_what_no_parent_shows(project: Path) -> None:
    """Codex's shell cannot see its ancestors, and its MCP server learns the session only from each call."""
    with agent(project) as one:
        haid = one.claim("src", _meta={"threadId": "t1"})["haid"]
        planning = Planning(project=str(project))
        (seat,) = Path(planning.private_path("seats")).glob("*.json")
        seat.write_text(json.dumps({**json.loads(seat.read_text()), "space": "pid:[of the agent]"}))
        for thread, whose in (("t1", haid), ("t2", None)):
            env = {**os.environ, "CODEX_THREAD_ID": thread}
            done = subprocess.run([str(BIN / "heimdall-haid")], env=env, capture_output=True, text=True, cwd=project)
            assert (done.stdout.strip() == haid) == (whose is not None)
        assert acting(planning) != haid


def test_a_session_without_a_server_gets_an_identity_when_it_claims(project: Path, heimdall: Run) -> None:
    one, two = {"CLAUDE_CODE_SESSION_ID": "s1"}, {"CLAUDE_CODE_SESSION_ID": "s2"}
    before = heimdall("haid", **one).stdout
    assert heimdall("claim", "claim", "src", "--task", "T", **one).returncode == 0
    mine = heimdall("haid", **one).stdout.strip()
    assert mine.endswith("/claude-code") and before.strip() != mine
    assert heimdall("claim", "claim", "src", "--task", "T", **two).returncode == 3
    assert heimdall("claim", "claim", "docs", "--task", "T", **two).returncode == 0
    assert heimdall("haid", **two).stdout.strip().endswith("/claude-code-2")
    assert heimdall("claim", "check", "src", **one).returncode == 0
    assert heimdall("claim", "check", "src").returncode == 3


def test_the_host_may_say_who_it_is(project: Path) -> None:
    ann = "haid:ann.box-0001/coder"
    with agent(project, HEIMDALL_HAID=ann) as one:
        assert one.claim("src")["haid"] == ann == one.shell("heimdall-haid")[1].strip()


def test_sub_agents_are_separate_when_they_say_so_and_their_session_may_commit(project: Path, heimdall: Run) -> None:
    heimdall("claim", "guard", "install")
    with agent(project) as one:
        reviewer = one.do(
            "make_claim", {"arguments": {"surfaces": ["src"], "task": "T", "client_identity": "reviewer"}}
        )
        other = one.do("make_claim", {"arguments": {"surfaces": ["docs"], "task": "T", "client_identity": "writer"}})
        assert {reviewer["haid"].partition("/")[2], other["haid"].partition("/")[2]} == {"reviewer", "writer"}
        assert one.shell("heimdall-claim check src")[0] == 3
        assert one.shell("echo x >> src/a/b.ts && git commit -qam x")[0] == 0
    git(project, "diff", "--quiet")


def test_a_holder_that_is_connected_is_renewed_and_one_that_is_gone_says_since_when(
    project: Path, heimdall: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    with agent(project) as one:
        haid = one.claim("src")["haid"]
        (file,) = (project / ".git/heimdall/ledger/claims").glob("*.json")
        fields = json.loads(file.read_text())
        grow_old(Claims(Planning(project=str(project))), haid)
        assert haid in heimdall("claim", "list").stdout
        assert heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002").returncode == 3
        assert json.loads(file.read_text())["heartbeat"] > fields["heartbeat"][:4]
        assert f"{haid}  here since" in heimdall("claim", "who").stdout
    assert "holder not connected since 20" in heimdall("claim", "list").stdout
    refused = heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002")
    assert refused.returncode == 3 and "holder not connected since 20" in refused.stderr
    grow_old(Claims(Planning(project=str(project))), haid)
    assert heimdall("claim", "claim", "src", "--task", "T", HEIMDALL_HAID="haid:bob.box-0002").returncode == 0


def test_what_a_program_holds_for_itself_is_its_as_long_as_it_runs(project: Path, heimdall: Run) -> None:
    """A session of ours passes its identity and its process on to its commands: a sandbox would hide the process."""
    ann = "haid:ann.box-0001/treadle-1"
    program = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
    try:
        key = identity.key_of(program.pid)
        assert key is not None
        env = {"HEIMDALL_HAID": ann, "HEIMDALL_PROCESS": f"{key[0]}:{key[1]}"}
        assert heimdall("claim", "claim", "src", "--task", "T", **env).returncode == 0
        assert f"{ann}  here since" in heimdall("claim", "who").stdout
    finally:
        program.communicate(b"")
    assert "holder not connected since" in heimdall("claim", "list").stdout
    assert heimdall("claim", "claim", "docs", "--task", "T", HEIMDALL_HAID=ann, HEIMDALL_PROCESS="x:y").returncode == 0


def test_a_session_acts_as_its_own_and_its_sub_agents_and_as_what_is_over_but_not_as_another(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planning = Planning(project=str(project))
    first, second = (IdentityBindings(planning, root(planning.project), remote=True) for _ in range(2))
    theirs, mine = first.haid("codex"), second.enter("gemini", "gemini:s2", None)
    helper, reviewer = first.haid("helper", of=theirs), second.haid("reviewer", of=mine)
    monkeypatch.setenv("GEMINI_SESSION_ID", "s2")
    for declared in (mine, reviewer, helper):
        monkeypatch.setenv("HEIMDALL_HAID", declared)
        assert acting(planning) == declared
    monkeypatch.setenv("HEIMDALL_HAID", theirs)
    with pytest.raises(Denied, match=f"may not act as {theirs}"):
        acting(planning)
    monkeypatch.delenv("GEMINI_SESSION_ID")
    assert acting(planning) == theirs, "a person may"
    monkeypatch.setenv("GEMINI_SESSION_ID", "s2")
    first.leave()
    assert acting(planning) == theirs, "it is over"
    second.leave()
