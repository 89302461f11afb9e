"""`treadle -p` as scripts and CI use it: the installed command, real pipes, real signals."""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.imports import loaded_by
from tests.installed import TREADLE, started, treadle
from tests.scripts import calls, says
from treadle.cli.oneshot import RunFlags, _prepare, oneshot
from treadle.cli.options import RunOptions
from treadle.errors import ConfigError
from treadle.io.sandbox import methods

SCRIPT = (
    says(f"one two {'more ' * 500}nine ten", when="go on", pace=0.2)
    + says("one two three four five six seven eight nine ten", when="slow", pace=0.2)
    + calls("bash", {"command": "echo noise; sleep 1000 & sleep 1000"}, when="tool")
    + says("the answer", times="always", usage={"input": 3, "output": 2})
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "script.toml").write_text(SCRIPT)
    place = tmp_path / "work"
    place.mkdir()
    return place


def command(work: Path, *arguments: str) -> list[str]:
    return [TREADLE, "-p", "--model", f"scripted:{work.parent / 'script.toml'}", *arguments]


def run(work: Path, *arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    return treadle(*command(work, *arguments)[1:], cwd=work, **more)


def begun(work: Path, *arguments: str, **more: Any) -> subprocess.Popen[str]:
    return started(*command(work, *arguments)[1:], cwd=work, **more)


def shell(work: Path, line: str) -> subprocess.CompletedProcess[str]:
    return treadle("-c", line, program="sh", cwd=work)


def test_text_goes_to_stdout_and_nothing_to_stderr(work: Path) -> None:
    done = run(work, "hello")
    assert (done.returncode, done.stdout, done.stderr) == (0, "the answer\n", "")


def test_a_plain_turn_loads_nothing_for_tools_hooks_and_sandboxes(work: Path) -> None:
    said, loaded = loaded_by("-p", "hello", "--model", f"scripted:{work.parent / 'script.toml'}", cwd=work)
    assert said == "the answer\n" and "treadle.agent.tools.base" in loaded
    idle = {"difflib", "glob", "html", "json", "shutil", "treadle.agent.stored_sessions", "treadle.policy.shell"}
    idle |= {f"treadle.doors.oneshot.{name}" for name in ("hooks", "input", "schema", "verbose")}
    idle |= {
        f"treadle.io.{name}" for name in ("process.child", "sandbox.bubblewrap", "sandbox.start", "sandbox.planted")
    }
    assert not idle & loaded


def test_what_a_person_should_know_is_told_on_stderr(work: Path, state_home: Path) -> None:
    settings = state_home / "treadle" / "config.toml"
    settings.parent.mkdir()
    settings.write_text('[[hooks.turn_end]]\ncommand = "exit 3"\n')
    done = run(work, "hello", "--output-format", "json")
    assert done.returncode == 0
    assert done.stderr == "treadle: the turn_end hook 'exit 3' failed with exit code 3\n"


@pytest.mark.parametrize(("options", "sealed"), [([], False), (["--permission-mode", "full-auto"], True)])
def test_the_result_says_whether_the_run_was_sealed(work: Path, options: list[str], sealed: bool) -> None:
    if sealed and methods.available().method is None:
        pytest.skip("needs a sandbox")
    (work.parent / "script.toml").write_text(calls("bash", {"command": "echo x"}) + says("the answer"))
    done = run(work, "--output-format", "stream-json", *options, "hello")
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["sealed"] is sealed and list(result)[:4] == ["type", "result", "session_id", "subtype"]


def test_what_is_piped_is_added_to_the_prompt(work: Path) -> None:
    (work.parent / "script.toml").write_text('[[reply]]\nwhen = "^sum up\\n\\nline 1\\nline 2$"\ntext = "both"\n')
    assert run(work, "sum up", input="line 1\nline 2").stdout == "both\n"


def test_a_prompt_of_ten_megabytes_is_sent(work: Path) -> None:
    assert run(work, input="x" * 10_000_000).stdout == "the answer\n"


def test_an_open_but_silent_stdin_does_not_block(work: Path) -> None:
    read, write = os.pipe()
    try:
        done = run(work, "hello", stdin=read)
    finally:
        os.close(read)
        os.close(write)
    assert done.stdout == "the answer\n" and "silent" in done.stderr


@pytest.mark.parametrize(
    ("output_format", "signum"), [("text", signal.SIGINT), ("json", signal.SIGTERM), ("stream-json", signal.SIGINT)]
)
def test_a_signal_ends_the_turn_with_what_was_said(work: Path, output_format: str, signum: signal.Signals) -> None:
    process = begun(work, "--output-format", output_format, "--session-id", "victim", "go on")
    _wait_for(work, "victim", b"turn_began")
    process.send_signal(signum)
    out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    if output_format == "text":
        assert "nine ten" not in out
    else:
        result = json.loads(out.splitlines()[-1])
        assert result["subtype"] == "success" and result["terminal_reason"] == "aborted_streaming"


def _wait_for(work: Path, session: str, mark: bytes) -> None:
    """Until the history of the session, which is all that can be seen from outside, has the mark."""
    history = Path(os.environ["TREADLE_HOME"], "sessions", session, "history.jsonl")
    watching = subprocess.run(
        ["sh", "-c", f"until grep -q {mark.decode()} {history} 2>/dev/null; do sleep 0.02; done"], timeout=60
    )
    assert watching.returncode == 0


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM])
def test_an_outside_agent_s_turn_that_was_killed_is_listed_with_the_reason(work: Path, signum: signal.Signals) -> None:
    ours = os.environ["TREADLE_HOME"]
    model = f"scripted:{work.parent / 'script.toml'}"
    agent = f"acp:/usr/bin/env TREADLE_HOME={ours}/inner {TREADLE} acp --model {model}"
    with started("-p", "--agent", agent, "go on", cwd=work) as process:
        _wait_for(work, "*", b"turn_began")
        assert "  (running)" in treadle("sessions", cwd=work).stdout
        process.send_signal(signum)
        process.communicate(timeout=60)
    listed = treadle("sessions", cwd=work).stdout
    if signum == signal.SIGTERM:
        assert "go on" not in listed, "it has ended by itself, and said how"
        return
    assert re.search(r"go on  acp:.*:[0-9a-f-]+  \(killed: its process ended", listed), listed
    assert "no session to continue" in run(work, "--continue", "hello").stderr
    refused = run(work, "--resume", listed.split()[0], "hello")
    assert refused.returncode == 1 and "is of another agent (--resume acp:" in refused.stderr


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_before_there_is_a_session_ends_it_quietly_with_what_it_started(
    work: Path, signum: signal.Signals
) -> None:
    os.mkfifo(work.parent / "pid")
    server = {"command": "sh", "args": ["-c", "echo $$ > ../pid; exec sleep 1000"]}
    (work / ".mcp.json").write_text(json.dumps({"mcpServers": {"slow": server}}))
    with begun(work, "hello", "--trust", "--output-format", "json") as process:
        pid = int((work.parent / "pid").read_text())
        process.send_signal(signum)
        assert process.communicate(timeout=60) == ("", "")
    assert process.returncode == 128 + signum
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_signal_ends_it_also_while_it_waits_for_a_prompt(work: Path) -> None:
    prompt = {"type": "user", "message": {"role": "user", "content": "hello"}}
    arguments = ["--input-format", "stream-json", "--output-format", "json"]
    with begun(work, *arguments, stdin=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(prompt) + "\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"] == "the answer"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == "" and process.wait(60) == 0


def test_an_interrupted_tool_leaves_no_process(work: Path) -> None:
    marker = {"TREADLE_TEST_MARK": f"mark-{os.getpid()}-{work.parent.name}"}
    arguments = ["--permission-mode", "full-auto", "--session-id", "victim", "--output-format", "json", "tool"]
    process = begun(work, *arguments, env={**os.environ, **marker})
    _wait_for(work, "victim", b"call_1_0")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["type"] == "result"
    assert _marked(marker) == []


def _marked(marker: dict[str, str]) -> list[str]:
    [(name, value)] = marker.items()
    wanted = f"{name}={value}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                environment = Path("/proc", entry, "environ").read_bytes()
            except OSError:
                continue
            if wanted in environment.split(b"\0"):
                found.append(entry)
    return found


@pytest.mark.parametrize(("strict", "code"), [([], 1), (["--strict-exit"], 141)])
def test_a_reader_that_leaves_early_ends_it_quietly(work: Path, strict: list[str], code: int) -> None:
    process = begun(work, *strict, "--output-format", "stream-json", "go on")
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(timeout=60) == code
    assert process.stderr.read() == ""
    process.stderr.close()


def test_a_session_goes_on_with_continue(work: Path) -> None:
    first = json.loads(run(work, "--output-format", "json", "hello").stdout)
    second = json.loads(run(work, "--output-format", "json", "-c", "and more").stdout)
    assert first["session_id"] == second["session_id"]
    forked = json.loads(run(work, "--output-format", "json", "-c", "--fork-session", "else").stdout)
    assert forked["session_id"] != first["session_id"]


@pytest.mark.parametrize(
    ("closed", "code", "said"), [("<&-", 0, "the answer\n"), (">&-", 1, ""), ("2>&-", 0, "the answer\n")]
)
def test_a_standard_stream_that_was_never_there_costs_only_itself(
    work: Path, closed: str, code: int, said: str
) -> None:
    ask = shlex.join(command(work, "hello"))
    given = "" if closed == "<&-" else "</dev/null"
    done = shell(work, f"{ask} {given} {closed}")
    assert (done.returncode, done.stdout, done.stderr) == (code, said, "")


def test_without_a_stderr_errors_do_not_land_in_stdout(work: Path) -> None:
    ask = shlex.join([TREADLE, "-p", "--model", "nobody-serves-this", "hello"])
    done = shell(work, f"{ask} 2>&-")
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("output_format", ["text", "stream-json"])
def test_output_that_no_longer_fits_on_the_disk_is_told(work: Path, output_format: str) -> None:
    with open("/dev/full", "wb") as full:
        done = run(work, "--output-format", output_format, "hello", stdout=full)
    assert done.returncode == 1 and "disk is full" in done.stderr and len(done.stderr.splitlines()) == 1


def test_a_signal_that_was_ignored_from_the_start_stays_ignored(work: Path) -> None:
    """As nohup does it, or a shell that starts a job in the background."""
    ours = command(work, "--output-format", "stream-json", "slow")
    process = started("-c", "trap '' HUP; exec \"$@\"", "sh", *ours, program="sh", cwd=work)
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGHUP)
    rest, _ = process.communicate(timeout=60)
    result = json.loads(rest.splitlines()[-1])
    assert result["terminal_reason"] == "completed" and result["result"].endswith("ten")


def test_a_second_signal_does_not_cost_the_record(work: Path) -> None:
    arguments = ["--output-format", "json", "--permission-mode", "yolo", "--session-id", "twice", "tool"]
    process = begun(work, *arguments)
    _wait_for(work, "twice", b"call_1_0")
    process.send_signal(signal.SIGINT)
    process.send_signal(signal.SIGTERM)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    assert json.loads(out)["terminal_reason"] == "aborted_tools" and process.returncode == 0


def test_an_agent_of_a_file_can_be_the_conversation_itself_by_option_and_by_setting(work: Path) -> None:
    (work.parent / "script.toml").write_text(
        says("as a heron", system="You are a heron", times="always") + says("as usual", times="always")
    )
    (work / ".claude" / "agents").mkdir(parents=True)
    (work / ".claude" / "agents" / "heron.md").write_text(
        "---\nname: heron\ndescription: d\ntools: Read\n---\nYou are a heron."
    )
    assert run(work, "hello").stdout == "as usual\n"
    assert run(work, "hello", "--agent", "heron").stdout == "as a heron\n"
    assert run(work, "hello", "--settings", '{"agent": "heron"}').stdout == "as a heron\n"
    done = run(work, "hello", "--agent", "heron", "--output-format", "stream-json", "--verbose")
    assert json.loads(done.stdout.splitlines()[0])["tools"] == ["Read"]


def given(*words: str) -> dict[str, Any]:
    """What these words say, without a run."""
    return oneshot.make_context("treadle -p", [*words]).params


def test_what_programs_give_and_is_not_used_is_named_once_and_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    valued = ("--fallback-model", "--betas", "--thinking-display", "--task-budget", "--debug-file")
    flags = ("--debug", "--debug-to-stderr", "--exclude-dynamic-system-prompt-sections")
    found = given(*(word for name in valued for word in (name, "x")), *flags, "hi")
    assert found["prompt"] == "hi" and not {"debug", "betas", "fallback_model"} & found.keys()
    said = sorted(capsys.readouterr().err.splitlines())
    assert said == sorted(f"treadle: {name} is not used here" for name in (*valued, *flags))
    for words, told in (
        (["--prompt-suggestions"], "--prompt-suggestions is not used here"),
        (["--prompt-suggestions", "off"], ""),
        (["--prompt-suggestions", "FALSE"], ""),
        (["--system-prompt-snapshot", "on"], "--system-prompt-snapshot is not used here: "),
        (["--system-prompt-snapshot", "off"], ""),
        (["--allow-dangerously-skip-permissions"], ""),
    ):
        assert "prompt_suggestions" not in given(*words)
        err = capsys.readouterr().err
        assert (told in err) if told else err == "", words


def prepared(text: str | None, tool: str | None = None, **options: Any) -> Any:
    return _prepare(text, RunOptions(agent="native", **options), RunFlags(permission_prompt_tool=tool), None)


def test_what_a_run_is_opened_with_depends_on_where_its_prompts_come_from(capsys: pytest.CaptureFixture[str]) -> None:
    one, many = prepared("hi"), prepared(None)
    assert (one.spec.answers, one.spec.routine, one.spec.tools.later, one.hooks) == (False, (), False, None)
    assert (many.spec.routine, many.spec.tools.later) == (("sources",), True) and many.hooks is not None
    assert one.spec.mode == "suggest" and one.permitting == "" and one.hosted == ()
    asked = prepared(None, "mcp__s__t", mcp_config=('{"mcpServers": {"s": {"type": "sdk"}, "t": {"command": "x"}}}',))
    assert (asked.permitting, asked.spec.answers, asked.spec.tools.later, asked.hosted) == (
        "mcp__s__t",
        True,
        False,
        ("s",),
    )
    assert asked.spec.tools.denied == ("ask_user",) and capsys.readouterr().err == ""
    hooked = '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}, "apiKeyHelper": "x"}'
    assert prepared("hi", claude_settings=hooked).spec.extra["hooks"][0]["event"] == "Stop"
    assert capsys.readouterr().err == "treadle: --settings: not used here: apiKeyHelper\n"
    with pytest.raises(ConfigError, match="codex does not support hooks in --settings"):
        _prepare("hi", RunOptions(agent="codex", claude_settings=hooked), RunFlags(), None)
    new = prepared("hi", continue_last=True)
    assert new.spec.start.resume is None and "no session to continue here" in capsys.readouterr().err
