"""A confined agent in a repository with claims: what it asks inside is judged outside, under the session's identity."""

import fcntl
import json
import os
import signal
import subprocess
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.agent.checkouts import ENV, Working, checkout, git
from tests.coordination.conftest import BIN
from tests.safety import as_nobody
from tests.terminal.support import until
from treadle.agents import bound_by_claims
from treadle.cli.heimdall import outside
from treadle.cli.heimdall.outside import check
from treadle.coordination import hooks
from treadle.coordination.claims import Claims
from treadle.coordination.planning import Planning
from treadle.coordination.relay import SECONDS, RelayRequest
from treadle.errors import Denied
from treadle.io.sandbox import methods
from treadle.session import Confinement, SessionSpec

pytestmark = pytest.mark.skipif(methods.available().method != "bubblewrap", reason="needs bubblewrap")
BOB = "haid:bob.box-0002"
ANN = "haid:ann.box-0001/treadle-1"


@pytest.fixture
def top(tmp_path: Path) -> Path:
    made = checkout(tmp_path / "w")
    (made / "src").mkdir()
    (made / "src" / "held.py").write_text("1\n")
    (made / "src" / "free.py").write_text("1\n")
    git(made, "add", ".")
    git(made, "commit", "-qm", "two")
    live(made).claim(BOB, ["src/held.py"], "T-1")
    hooks.install(str(made), "block")
    return made


def live(top: Path) -> Claims:
    return Claims(Planning(project=str(top)), str(top))


@pytest.fixture
def spec(top: Path) -> SessionSpec:
    return bound_by_claims(SessionSpec(cwd=str(top), confinement=Confinement(use="on")), {})


@pytest.fixture
def agent(top: Path, spec: SessionSpec) -> Iterator[Working]:
    env = {**ENV, "PATH": f"{BIN}:{ENV['PATH']}", **spec.env}
    made = Working(top, asked=spec.confinement, env=env)
    yield made
    made.confining.close()


async def test_a_commit_of_what_another_holds_is_refused_by_the_live_state_outside(top: Path, agent: Working) -> None:
    done = await agent.run("echo 2 > src/held.py && git commit -qam held")
    assert done.code != 0 and f"cannot commit what {BOB} holds" in done.text
    assert git(top, "log", "-1", "--format=%s") == "two"
    live(top).release(BOB)
    await agent.ok("git commit -qam held")
    assert git(top, "log", "-1", "--format=%s") == "held"


async def test_it_claims_in_the_live_state_and_is_refused_what_another_holds(
    top: Path, agent: Working, spec: SessionSpec
) -> None:
    said = await agent.ok("heimdall-claim claim src/free.py --task T-2 && heimdall-claim check src/free.py")
    assert f"for {spec.env['HEIMDALL_HAID']}" in said and said.endswith("clear")
    assert {claim.haid: claim.texts for claim in live(top).active()} == {
        BOB: ["src/held.py"],
        spec.env["HEIMDALL_HAID"]: ["src/free.py"],
    }
    done = await agent.run("heimdall-claim claim 'src/**' --task T-3")
    assert done.code == 3 and BOB in done.text
    await agent.ok("heimdall-claim release")
    assert [claim.haid for claim in live(top).active()] == [BOB]
    assert git(top, "status", "--porcelain") == ""


async def test_the_identity_is_the_sessions_whatever_is_said_inside(agent: Working, spec: SessionSpec) -> None:
    own = spec.env["HEIMDALL_HAID"]
    assert await agent.ok("heimdall-haid; cd src; heimdall-haid trailer") == f"{own}\nHeimdall-Agent: {own}"
    assert await agent.ok(f"HEIMDALL_HAID={BOB} HEIMDALL_PLANNING_DIR=/tmp heimdall-haid") == own
    assert await agent.ok("env -u HEIMDALL_HAID heimdall-haid current") == own


@pytest.mark.parametrize(
    "command",
    [
        f"heimdall-claim release --haid {BOB}",
        f"heimdall-claim release --haid {BOB} --force --reason why",
        f"HEIMDALL_HAID={BOB} heimdall-claim release",
        f"heimdall-claim heartbeat --haid {BOB}",
        f"heimdall-haid revoke {BOB}",
        f"heimdall-haid register {BOB}",
        "heimdall-claim claim src/held.py --task T --role bob",
        "heimdall-claim guard uninstall",
        "heimdall-resolve set F1 x",
        "heimdall-ledger log --role r --kind k --count /etc/passwd",
        "HEIMDALL_GUARD_BYPASS=why git commit -qm held src/held.py",
    ],
)
async def test_what_is_anothers_or_a_persons_is_refused(top: Path, agent: Working, command: str) -> None:
    (top / "src" / "held.py").write_text("2\n")
    done = await agent.run(command)
    if "HEIMDALL_HAID=" not in command:
        assert done.code != 0 and done.text
    assert [claim.haid for claim in live(top).active()] == [BOB]
    assert hooks.status(str(top))["pre-commit"] == "block" and git(top, "log", "-1", "--format=%s") == "two"
    assert not live(top).agents.revoked(BOB) and live(top).agents.get(BOB) is None


async def test_a_link_that_the_agent_leaves_in_the_worktree_leads_no_write_outside_astray(
    top: Path, agent: Working, tmp_path: Path
) -> None:
    target = tmp_path / "precious"
    target.mkdir()
    await agent.ok(f"rm -rf .planning; ln -s {target} .planning; heimdall-claim claim src/free.py --task T")
    await agent.ok("heimdall-claim release; heimdall-claim reap")
    assert list(target.iterdir()) == []


async def test_without_a_relay_it_says_why(top: Path, spec: SessionSpec) -> None:
    agent = Working(top, env={**ENV, "PATH": f"{BIN}:{ENV['PATH']}", **spec.env})
    done = await agent.run("heimdall-claim claim src/free.py --task T")
    refused = await agent.run("echo 2 > src/free.py && git commit -qam free")
    agent.confining.close()
    assert done.code == 2 and "no relay to it is granted here" in done.text
    assert refused.code != 0 and "no relay to it is granted here" in refused.text


async def test_the_ledger_server_speaks_through_the_relay_and_offers_only_live_state(
    top: Path, agent: Working, spec: SessionSpec
) -> None:
    calls = [
        {"method": "initialize", "params": {"protocolVersion": "2025-06-18", "clientInfo": {"name": "claude-code"}}},
        {"method": "tools/list", "params": {}},
        {"method": "tools/call", "params": {"name": "make_claim", "arguments": {"surfaces": ["new"], "task": "T"}}},
        {"method": "tools/call", "params": {"name": "make_claim", "arguments": {"surfaces": ["src"], "task": "T"}}},
    ]
    lines = [json.dumps({"jsonrpc": "2.0", "id": number, **call}) for number, call in enumerate(calls)]
    (top / "asked").write_text("\n".join(lines) + "\n")
    said = await agent.ok("heimdall-ledger-mcp < asked")
    _, listed, made, refused = map(json.loads, said.splitlines())
    assert {tool["name"] for tool in listed["result"]["tools"]} == {"read_claims", "make_claim", "release_claim"}
    assert spec.env["HEIMDALL_HAID"] in json.dumps(made) and not made["result"].get("isError")
    assert refused["result"]["isError"] and BOB in json.dumps(refused)


async def test_a_hook_of_an_outside_agent_is_judged_outside_and_refuses_when_it_cannot_be(
    top: Path, agent: Working, spec: SessionSpec
) -> None:
    call = {"tool_name": "Write", "tool_input": {"file_path": "held.py"}, "cwd": str(top / "src")}
    (top / "call").write_text(json.dumps(call))
    free = json.dumps({**call, "tool_input": {"file_path": "free.py"}})
    said = json.loads(await agent.ok("treadle coord hook claude < call"))
    assert said["decision"] == "block" and BOB in said["reason"]
    assert await agent.ok(f"echo '{free}' | treadle coord hook claude") == ""
    alone = Working(top, env={**ENV, "PATH": f"{BIN}:{ENV['PATH']}"})
    cannot = json.loads(await alone.ok("treadle coord hook claude < call"))
    alone.confining.close()
    assert cannot["decision"] == "block" and "could not be checked" in cannot["reason"]


def test_only_listed_commands_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEIMDALL_HAID", ANN)
    for command, *words in (
        ["claim", "--json", "list"],
        ["claim", "claim", "a", "b", "--task", "T", "--shared"],
        ["claim", "release", "--haid", ANN],
        ["claim", "show", "--haid", BOB],
        ["haid"],
        ["haid", "get", BOB],
        ["haid", "heartbeat", ANN],
    ):
        check(RelayRequest("", command, words))
    for command, *words in (
        ["setup", "claude"],
        ["claim"],
        ["claim", "radar"],
        ["claim", "release", "--task", "T"],
        ["claim", "heartbeat", "--json"],
        ["claim", "list", "--unheard"],
        ["", ""],
    ):
        with pytest.raises(Denied, match="this cannot be done from inside a sandbox: heimdall-") as refused:
            check(RelayRequest("", command, words))
        assert refused.value.hint == "a person can run it outside"
    for command, *words in (["claim", "release", "--haid", BOB], ["haid", "heartbeat", BOB]):
        with pytest.raises(Denied, match=f"only {ANN} can act"):
            check(RelayRequest("", command, words))
    with pytest.raises(Denied, match="protocol cannot change records of the worktree"):
        check(RelayRequest("", "protocol", ["init"]))


class Relay:
    """What the program outside does with a request, in this process."""

    def __init__(self, top: Path, answer: Path) -> None:
        self.top = top
        self._answer = answer

    def __call__(self, command: str, *words: str, top: Path | None = None, **more: object) -> tuple[int, str, str]:
        """The exit code, what was printed, and what was said beside it."""
        fields = {"top": str(top or self.top), "command": command, "arguments": words, **more}
        code, said = self.given(json.dumps(fields).encode() + b"\n")
        answer = json.loads(said)
        assert code == 0
        return answer["code"], answer["out"], answer["err"]

    def given(self, line: bytes, then: Callable[[int, int], object] | None = None) -> tuple[int, bytes]:
        """With this line on its input, and what `then` does once that was read: it gets both ends of the input."""
        streams = [os.dup(fd) for fd in (0, 1)]
        before = signal.getsignal(signal.SIGALRM)
        inner, outer = os.pipe()
        os.dup2(inner, 0)
        with open(self._answer, "wb") as answer:
            os.dup2(answer.fileno(), 1)
        os.write(outer, line)
        helper = threading.Thread(target=self._then, args=(inner, outer, then))
        try:
            helper.start()
            code = outside.main()
            self.handler, self.left = signal.getsignal(signal.SIGALRM), signal.alarm(0)
        finally:
            signal.signal(signal.SIGALRM, before)
            for fd, stream in enumerate(streams):
                os.dup2(stream, fd)
                os.close(stream)
            helper.join(60)
            os.close(inner)
        return code, self._answer.read_bytes()

    def _then(self, inner: int, outer: int, then: Callable[[int, int], object] | None) -> None:
        if then:
            until(lambda: _is_read(inner))
            then(inner, outer)
        os.close(outer)


def _is_read(pipe: int) -> bool:
    return int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder) == 0


@pytest.fixture
def relay(top: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Relay:
    monkeypatch.chdir(top)
    monkeypatch.setenv("HEIMDALL_HAID", ANN)
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", Planning(project=str(top)).live)
    return Relay(top, tmp_path / "answer")


def test_a_request_is_done_under_our_identity_within_its_time_and_with_its_own_streams(relay: Relay) -> None:
    streams = sys.stdin, sys.stdout, sys.stderr
    assert relay("haid", "current") == (0, f"{ANN}\n", "")
    assert relay.handler is outside._late and 0 < relay.left <= SECONDS
    said = {"type": "question", "from": "a", "msg_id": "m", "question": "which?"}
    assert relay("validate", stdin=json.dumps(said)) == (0, '{"valid":true,"errors":[]}\n', "")
    assert relay("claim", "claim", "src/held.py", "--task", "T")[0] == 3
    assert relay("claim", "check", "src/held.py", "--unheard")[::2] == (
        2,
        "heimdall: this cannot be done from inside a sandbox: heimdall-claim check src/held.py --unheard\n"
        "  a person can run it outside\n",
    )
    assert relay("hook", "nobody")[::2] == (2, relay("hook")[2])
    assert relay("hook")[2].startswith("heimdall: expected one of claude, ")
    assert (sys.stdin, sys.stdout, sys.stderr) == streams


def test_what_takes_too_long_is_given_up_and_what_is_too_long_is_refused(
    relay: Relay, monkeypatch: pytest.MonkeyPatch
) -> None:
    main = threading.main_thread().ident
    assert main is not None
    _, late = relay.given(b"{", lambda inner, outer: signal.pthread_kill(main, signal.SIGALRM))
    assert json.loads(late)["code"] == 2 and f"longer than {SECONDS} s and was given up" in json.loads(late)["err"]
    _, cut = relay.given(b"{")
    assert json.loads(cut)["err"] == "heimdall: the request is not one line, or too long\n"
    code, schema, _ = relay("validate", "--schema")
    monkeypatch.setattr(outside, "LARGEST", len(schema.encode()))
    assert relay("validate", "--schema") == (0, schema, "")
    monkeypatch.setattr(outside, "LARGEST", len(schema.encode()) - 1)
    refused = relay("validate", "--schema")
    assert refused[:2] == (2, "") and "the answer has more than" in refused[2]
    line = RelayRequest(str(relay.top), "haid", ["current"]).line()
    monkeypatch.setattr(outside, "LARGEST", len(line))
    assert json.loads(relay.given(line)[1])["out"] == f"{ANN}\n"
    monkeypatch.setattr(outside, "LARGEST", len(line) - 1)
    assert "or too long" in json.loads(relay.given(line)[1])["err"]


def test_it_serves_its_own_worktree_and_what_is_below_and_no_other(
    relay: Relay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert relay("haid", top=relay.top / "src")[0] == 0
    for other in (checkout(tmp_path / "w-2"), checkout(relay.top / "inner"), tmp_path):
        said = f"heimdall: the relay of this session is for {relay.top}, not for {other}\n  to claim there,"
        assert relay("haid", top=other)[::2] == (2, f"{said} use a session in that repository\n")
    monkeypatch.chdir(tmp_path)
    code, _, said = relay("haid", top=tmp_path)
    assert code == 2 and f"is for {tmp_path}, not for {tmp_path}" in said


def test_a_git_hook_is_judged_by_what_it_found_inside(relay: Relay) -> None:
    held = [{"by": "", "files": ["src/held.py"]}]
    code, out, said = relay("claim", "guard", "pre-commit", changed=held)
    assert (code, out) == (3, "") and f"cannot commit what {BOB} holds" in said and f"  you are {ANN}\n" in said
    assert f"cannot push what {BOB} holds" in relay("claim", "guard", "pre-push", "--mode", "block", changed=held)[2]
    code, _, said = relay("claim", "guard", "pre-commit", "--mode", "warn", changed=held)
    assert code == 0 and said.startswith("warning: ") and BOB in said
    assert relay("claim", "guard", "pre-commit", changed=[{"by": "", "files": ["src/free.py"]}]) == (0, "", "")
    live(relay.top).claim(BOB, [".planning/x"], "T-1")
    assert relay("claim", "guard", "pre-commit", changed=[{"by": "", "files": [".planning/x"]}]) == (0, "", "")
    assert relay("claim", "guard", "pre-commit")[::2] == (
        2,
        "heimdall: the request does not list what is committed or pushed\n",
    )
    for words in (["pre-commit", "x"], ["update"], ["pre-commit", "--mode", "off"], []):
        assert "cannot be done from inside" in relay("claim", "guard", *words, changed=held)[2], words
    live(relay.top).agents.register(ANN)
    live(relay.top).agents.revoke(ANN)
    assert "has been revoked" in relay("claim", "guard", "pre-commit", changed=[])[2]


def test_no_relay_where_the_agent_could_write_the_live_state(
    top: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(top / "plans"))
    assert bound_by_claims(SessionSpec(cwd=str(top)), {}).confinement.relay is None
    monkeypatch.setenv("HEIMDALL_PLANNING_DIR", str(tmp_path / "plans"))
    granted = bound_by_claims(SessionSpec(cwd=str(top)), {}).confinement.relay
    assert granted is not None and ("HEIMDALL_PLANNING_DIR", os.path.realpath(tmp_path / "plans")) in granted.env


@pytest.mark.parametrize("kind", ["linked worktree", "directory below the top"])
async def test_it_works_where_the_git_directory_is_elsewhere(top: Path, tmp_path: Path, kind: str) -> None:
    place, held, free = top / "src", "held.py", "free.py"
    if kind == "linked worktree":
        place, held, free = tmp_path / "linked", "src/held.py", "src/free.py"
        git(top, "worktree", "add", "-q", "-b", "other", str(place))
    spec = bound_by_claims(SessionSpec(cwd=str(place), confinement=Confinement(use="on")), {})
    agent = Working(place, asked=spec.confinement, env={**ENV, "PATH": f"{BIN}:{ENV['PATH']}", **spec.env})
    await agent.ok("heimdall-claim claim src/free.py --task T")
    assert live(top).of(spec.env["HEIMDALL_HAID"]) is not None
    assert (await agent.run("heimdall-claim claim src/held.py --task T")).code == 3
    if kind == "linked worktree":
        assert (await agent.run(f"echo 2 > {held}; git commit -qam x")).code != 0
        await agent.ok(f"git checkout -q {held}; echo 2 > {free}; git commit -qam free")
        assert git(place, "log", "-1", "--format=%s") == "free"
    agent.confining.close()


async def test_a_relay_that_takes_a_request_and_is_gone_is_a_refusal(top: Path, spec: SessionSpec) -> None:
    assert spec.confinement.relay is not None
    broken = replace(spec.confinement, relay=replace(spec.confinement.relay, argv=("/bin/true",)))
    agent = Working(top, asked=broken, env={**ENV, "PATH": f"{BIN}:{ENV['PATH']}", **spec.env})
    done = await agent.run("echo 2 > src/free.py && git commit -qam free")
    agent.confining.close()
    assert done.code != 0 and "did not answer" in done.text and git(top, "log", "-1", "--format=%s") == "two"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start something as another user")
def test_it_works_for_an_ordinary_user_too(tmp_path: Path) -> None:
    top = checkout(tmp_path / "w")
    granted = bound_by_claims(SessionSpec(cwd=str(top)), {}).confinement.relay
    for place in (top, *top.rglob("*")):
        os.chown(place, as_nobody.NO_ID, as_nobody.NO_ID)
    shown = (str(top / ".git"), os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix))
    room = Confinement(write=(str(top),), read_only=shown, relay=granted)
    command = f"cd {top} && {BIN}/heimdall-claim claim file.txt --task T"
    done = subprocess.run(as_nobody.argv(room, command, top), capture_output=True, text=True, timeout=60)
    assert "claimed 1 surface(s)" in done.stdout, done.stdout + done.stderr
    [claim] = live(top).active()
    assert claim.texts == ["file.txt"] and os.stat(claim.path).st_uid == as_nobody.NO_ID


@pytest.mark.slow
async def test_a_push_of_what_another_holds_is_refused_too(agent: Working) -> None:
    await agent.ok("git init -q --bare /tmp/r; git push -q --no-verify /tmp/r main")
    await agent.ok("echo 2 > src/free.py; git commit -qam free; git push -q /tmp/r main")
    done = await agent.run("echo 2 > src/held.py; git commit -qnam held; git push -q /tmp/r main")
    assert done.code != 0 and f"cannot push what {BOB} holds" in done.text


async def test_a_request_without_end_is_cut_off(agent: Working) -> None:
    ask = (
        "import socket; s=socket.socket(socket.AF_UNIX); s.connect('/run/treadle-coordination')\n"
        "try:\n    [s.sendall(b'x' * 1000000) for _ in range(30)]\nexcept OSError: pass\n"
        "try: print(s.recv(9999).decode())\nexcept OSError: print('closed')"
    )
    said = await agent.ok(f'{sys.executable} -c "{ask}"')
    assert "too long" in said or said == "closed"
