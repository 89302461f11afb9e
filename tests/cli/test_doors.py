"""What serves a protocol, as a person and an installed program meet it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from tests.installed import started, treadle
from tests.scripts import calls, says
from treadle.cli.doors import _announce, a2a
from treadle.serve.tokens import Tokens, directory
from treadle.wire.a2a.messages import CARD_PATH


class Talk:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def ask(self, method: str, number: int, **params: Any) -> None:
        assert self._process.stdin is not None
        request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()

    def until(self, **fields: Any) -> Any:
        """The first message that has these."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            message = json.loads(line)
            if all(message.get(name) == value for name, value in fields.items()):
                return message
        raise AssertionError(f"nothing with {fields} came")


@contextmanager
def talk(*words: str, cwd: Path) -> Iterator[Talk]:
    with started(*words, cwd=cwd, stdin=subprocess.PIPE) as process:
        try:
            yield Talk(process)
        finally:
            process.kill()


def test_what_the_agent_may_not_do_by_itself_is_asked_of_the_editor(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(calls("bash", {"command": "touch made"}))
    with talk(
        "acp", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest", cwd=tmp_path
    ) as editor:
        editor.ask("initialize", 1, protocolVersion=1, clientCapabilities={})
        editor.ask("session/new", 2, cwd=str(tmp_path), mcpServers=[])
        session = editor.until(id=2)["result"]
        assert session["modes"]["currentModeId"] == "suggest"
        prompt = [{"type": "text", "text": "go"}]
        editor.ask("session/prompt", 3, sessionId=session["sessionId"], prompt=prompt)
        asked = editor.until(method="session/request_permission")
        assert "touch made" in str(asked["params"]) and not (tmp_path / "made").exists()


def test_a_client_puts_the_agent_to_work_as_far_as_the_person_allowed(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(says("Here.", when="hello") + calls("bash", {"command": "touch made"}))
    words = ("mcp", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest")
    with talk(*words, cwd=tmp_path) as client:
        client.ask(
            "initialize", 1, protocolVersion="2025-06-18", capabilities={}, clientInfo={"name": "t", "version": "1"}
        )
        client.ask("tools/call", 2, name="run", arguments={"prompt": "hello"})
        assert "Here." in str(client.until(id=2)["result"])
        client.ask("tools/call", 3, name="run", arguments={"prompt": "touch it", "mode": "yolo"})
        assert "suggest" in str(client.until(id=3)) and not (tmp_path / "made").exists()


def test_it_greets_as_codex_does_and_names_what_it_does_not_use(tmp_path: Path) -> None:
    greeting = {"id": 1, "method": "initialize", "params": {"clientInfo": {"name": "t", "version": "1"}}}
    done = treadle("app-server", "-c", "features.x=true", input=json.dumps(greeting) + "\n", cwd=tmp_path)
    told = json.loads(done.stdout)
    assert told["id"] == 1 and "jsonrpc" not in told and told["result"]["platformFamily"] == "unix"
    assert done.returncode == 0 and "features.x is not used" in done.stderr


def test_looking_is_free_and_everything_else_is_asked_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text(
        calls("bash", {"command": "ls"}, when="go") + calls("bash", {"command": "touch made"}, when="s.toml")
    )
    words = ("app-server", "--model", f"scripted:{tmp_path / 's.toml'}", "--permission-mode", "suggest")
    with talk(*words, cwd=tmp_path) as client:
        client.ask("initialize", 1, clientInfo={"name": "t", "version": "1"})
        client.ask("thread/start", 2, cwd=str(tmp_path))
        thread = client.until(id=2)["result"]["thread"]["id"]
        client.ask("turn/start", 3, threadId=thread, input=[{"type": "text", "text": "go"}])
        asked = client.until(method="item/commandExecution/requestApproval")
        assert asked["params"]["command"] == "touch made" and not (tmp_path / "made").exists()


TREADLE = str(Path(sys.executable).parent / "treadle")


def test_clients_are_told_with_when_they_were_seen_and_programs_get_the_token(
    capsys: pytest.CaptureFixture[str],
) -> None:
    made = json.loads(CliRunner().invoke(a2a, ["--token", "laptop", "--json"]).output)
    assert made["client"] == "laptop" and len(made["token"]) > 40
    assert CliRunner().invoke(a2a, ["--clients"]).output == "laptop  never seen\n"
    tokens = Tokens(os.path.join(directory(), "a2a.json"))
    assert tokens.check(made["token"]) is not None
    assert CliRunner().invoke(a2a, ["--clients"]).output == "laptop  seen 0s ago\n"
    (listed,) = json.loads(CliRunner().invoke(a2a, ["--clients", "--json"]).output)
    assert sorted(listed) == ["created", "id", "name", "used"]
    gone = CliRunner().invoke(a2a, ["--revoke", "laptop"])
    assert (gone.stdout, gone.stderr) == ("", "laptop has no access any more\n")
    assert json.loads(CliRunner().invoke(a2a, ["--clients", "--json"]).output) == []
    for token, access in (
        (True, "Clients need a token: treadle a2a --token NAME. "),
        (False, "Every program here may use it. "),
    ):
        _announce("http://x", False, token=token)
        assert capsys.readouterr() == ("http://x/\n", f"{access}Ctrl-C ends it.\n")
    _announce("http://x", True, token=True)
    out, err = capsys.readouterr()
    assert json.loads(out) == {"url": "http://x/"} and err == ""


def test_it_says_its_address_serves_the_card_and_ends_at_sigterm(tmp_path: Path) -> None:
    words = [TREADLE, "a2a", "--port", "0", "--agent", "native"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().decode().strip()
            with urlopen(url.rstrip("/") + CARD_PATH, timeout=60) as answer:
                assert json.load(answer)["supportedInterfaces"][0]["url"] == url
            server.send_signal(signal.SIGTERM)
            assert server.wait(60) == 0
        finally:
            server.kill()


SIDECAR = str(Path(sys.executable).parent / "treadle-sidecar")


def ran(*words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [SIDECAR, *words], input="", capture_output=True, text=True, timeout=60, env={**os.environ, **env}
    )


def test_an_agent_that_is_not_known_is_named_and_nothing_is_said_on_stdout() -> None:
    done = ran(TREADLE_AGENT="no-such-agent")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("treadle-sidecar: ") and "no-such-agent" in done.stderr


def test_without_a_standard_input_there_are_no_orders() -> None:
    done = subprocess.run(["sh", "-c", f"{SIDECAR} <&-"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and json.loads(done.stdout.splitlines()[0])["t"] == "hello", done.stderr
    assert ran("--nonsense").returncode == 2


SERVE = """
import asyncio, ctypes, sys
from treadle.cli.serving import serve, warner
from treadle.io.process import lifetime

async def work(stream):
    if sys.argv[1] == "answer":
        await stream.write((await stream.read()).upper())
        warner("name")("careful")
        return 7 + ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)  # PR_GET_DUMPABLE: 1 when others may read its memory
    await stream.write(b"ready\\n")
    await asyncio.Event().wait()

lifetime.run(lambda: serve(work))
"""


def test_it_answers_on_stdout_warns_on_stderr_and_ends_with_the_works_code() -> None:
    argv = [sys.executable, "-c", SERVE, "answer"]
    done = subprocess.run(argv, input="hello", capture_output=True, text=True, timeout=60)
    assert (done.stdout, done.stderr, done.returncode) == ("HELLO", "name: careful\n", 7)


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_ends_it_with_the_code_that_shells_know(signum: signal.Signals) -> None:
    argv = [sys.executable, "-c", SERVE, "wait"]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        process.send_signal(signum)
        assert process.wait(60) == 128 + signum
        assert process.stderr is not None and b"Traceback" not in process.stderr.read()


@pytest.mark.parametrize("module", ["__future__", "msgspec"])
@pytest.mark.parametrize("words", [("treadle", "-p", "hi"), ("treadle-worker",), ("treadle-sidecar",)])
def test_ctrl_c_while_it_starts_ends_it_without_a_word(words: tuple[str, ...], module: str, tmp_path: Path) -> None:
    (tmp_path / f"{module}.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    program = Path(sys.executable).with_name(words[0])
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    done = subprocess.run([program, *words[1:]], env=env, input="", capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
