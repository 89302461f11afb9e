"""The terminal commands as a person types them, with the installed program."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from tests.imports import loaded_by
from tests.installed import TREADLE, started, treadle
from tests.terminal.recordings import load
from tests.terminal.support import alive, connected, until
from treadle.cli.names import TERMINAL
from treadle.cli.terminal import duration
from treadle.errors import ConfigError
from treadle.io import files
from treadle.io.process import table
from treadle.io.reading import read_if_there
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire


class Shell:
    def __init__(self, home: Path, cwd: Path) -> None:
        self.directory = home / "treadle" / "terminals"
        self.cwd = cwd

    def __call__(self, *arguments: str, code: int | None = 0, stdin: str = "") -> str:
        done = self.run(*arguments, stdin=stdin)
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done.stdout

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return treadle(*arguments, input=stdin, cwd=self.cwd)

    def place(self, name: str) -> Place:
        return Place(str(self.directory), name)

    def written(self, name: str) -> str:
        """All that its program has written, without a command: for those who ask again and again."""
        return (read_if_there(self.place(name).out) or b"").decode(errors="replace")

    def explained(self, name: str) -> str:
        with connected(self.place(name)) as client:
            return json.dumps(client.explain())


@pytest.fixture
def shell(state_home: Path, tmp_path: Path) -> Iterator[Shell]:
    found = Shell(state_home, tmp_path)
    yield found
    for path in found.directory.glob("*.pid"):
        if alive(found.place(path.stem).pids()[0]):
            found("kill", path.stem, "--grace", "0", code=None)  # it may end by itself meanwhile


def test_run_detached_prints_the_id_when_the_socket_answers(shell: Shell) -> None:
    assert shell("run", "--id", "a1", "--detach", "--", "sleep", "60") == "a1\n"
    lines = dict(line.split(":", 1) for line in shell("status", "a1").splitlines())
    assert lines["session"].strip() == "a1" and lines["alive"].strip() == "true"
    assert int(lines["pid"]) == shell.place("a1").pids()[1]
    assert lines["state"].strip().startswith("starting (")


def test_an_id_is_made_from_the_programs_name(shell: Shell) -> None:
    assert shell("run", "--detach", "sleep", "60") == "sleep\n"
    assert shell("run", "--detach", "sleep", "60") == "sleep-2\n"


def test_options_reach_the_program(shell: Shell, tmp_path: Path) -> None:
    shell(
        *("run", "--detach", "--id", "x", "--env", "A=1 2", "--env=B=", "--workdir", str(tmp_path), "--term", "vt100"),
        *("--cols", "91", "--rows", "17", "--session-env-var", "SID", "--", "sh", "-c"),
        'echo "$A|$B|$PWD|$TERM|$SID|$(stty size)"',
    )
    assert shell("wait", "x", "--exit") == ""
    assert shell("tail", "x").strip() == f"1 2||{tmp_path}|vt100|x|17 91"


def test_wait_gives_the_programs_code_while_it_runs_and_long_after(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "0", "--", "sh", "-c", "sleep 0.3; exit 9")
    shell("wait", "x", "--exit", code=9)
    until(lambda: not os.path.exists(shell.place("x").pid))
    shell("wait", "x", "--exit", code=9)
    record = json.loads(shell("status", "x", "--json"))
    assert (record["code"], record["alive"]) == (9, False)


def test_wait_understands_a_supervisor_that_has_only_the_protocol(shell: Shell) -> None:
    shell.directory.mkdir(parents=True, mode=0o700)
    Path(shell.place("x").pid).write_text(f"{os.getpid()}\n")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(shell.place("x").sock)
        listener.listen()

        def supervise() -> None:
            sock, _ = listener.accept()
            with sock:
                sock.sendall(b"\0")
                heard = b""
                while not heard.endswith(b"\x02\0\0\0\0"):
                    heard += sock.recv(100)
                sock.sendall(b"\x81\0\0\0\x02hi\x83\0\0\0\x04\0\0\0\x07")

        thread = threading.Thread(target=supervise, daemon=True)
        thread.start()
        shell("wait", "x", "--exit", code=7)
        thread.join(50)
    Path(shell.place("x").pid).unlink()  # it is ours, and not to be ended


def test_wait_is_124_when_the_time_is_up(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sleep", "60")
    done = shell.run("wait", "x", "--exit", "--timeout", "0.2")
    assert done.returncode == 124 and "0.2 s" in done.stderr
    shell("wait", "x", "--state", "thinking", "--timeout", "0.2", code=124)


def test_send_and_wait_make_a_program_scriptable(shell: Shell) -> None:
    program = 'printf "\\033]7501;state=idle:app=x\\007"; '
    program += 'while read line; do printf "\\033]7501;state=working:app=x\\007"; sleep 0.2; echo "did $line"; '
    program += 'printf "\\033]7501;state=done:app=x\\007"; done'
    shell("run", "--detach", "--id", "agent", "--", "sh", "-c", program)
    shell("wait", "agent", "--state", "idle", "--timeout", "50")
    shell("send", "agent", "first", "task", "--enter", "--wait-idle", "--timeout", "50")
    assert "did first task" in shell("tail", "agent", "--strip")
    shell("send", "agent", "second\\n")
    shell("wait", "agent", "--state", "done", "--timeout", "50")
    until(lambda: "did second" in shell.written("agent"))


def test_wait_idle_tells_when_a_person_is_needed_and_send_does_not_press_buttons(shell: Shell) -> None:
    program = 'printf "\\033]7501;state=blocked:app=x:kind=permission:msg=cm0gLXJm\\007"; cat'
    shell("run", "--detach", "--id", "agent", "--", "sh", "-c", program)
    shell("wait", "agent", "--state", "permission", "--timeout", "50")
    assert shell("wait", "agent", "--state", "idle", "--timeout", "50", code=3) == "permission: rm -rf\n"
    done = shell.run("send", "agent", "hello", "--enter")
    assert done.returncode == 3 and "rm -rf" in done.stderr and "--anyway" in done.stderr
    shell("send", "agent", "hello", code=3)
    shell("send", "agent", "--enter", code=3)
    shell("send", "agent", "1")
    shell("send", "agent", "yes", "--enter", "--anyway")
    until(lambda: "1yes" in shell.written("agent"))


def test_send_takes_a_file_standard_input_and_escapes(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("from a file\n")
    shell("run", "--detach", "--id", "x", "--", "cat", "-v")
    shell("send", "x", "--file", str(tmp_path / "text"))
    shell("send", "x", "--file", "-", stdin="from stdin\n")
    shell("send", "x", "tab\\tbell\\x01 back\\\\slash\\q\\n")
    until(lambda: "back\\slash\\q" in shell.written("x"))
    assert shell("tail", "x").count("from a file") == 2
    assert "from stdin" in shell("tail", "x")
    assert shell.run("send", "x").returncode == 2


def test_tail_shows_the_last_lines_and_follows_to_the_end(shell: Shell) -> None:
    shell(
        "run",
        "--detach",
        "--id",
        "x",
        "--scrollback-bytes",
        "64",
        "--",
        "sh",
        "-c",
        "seq 1 5000; read x; seq 1 3; exit 5",
    )
    until(lambda: shell("tail", "x", "--lines", "1") == "5000\n")
    assert shell("tail", "x", "--lines", "3", "--strip").split() == ["4998", "4999", "5000"]
    assert len(shell("tail", "x", "-n", "4000").split()) == 4000
    follower = started("tail", "-f", "x", "-n", "2", stderr=None)
    assert follower.stdout
    assert [follower.stdout.readline().strip() for _ in range(2)] == ["4999", "5000"]
    shell("send", "x", "\\n")
    assert follower.stdout.read().split() == ["1", "2", "3"]
    assert follower.wait(50) == 5
    follower.stdout.close()
    assert shell("tail", "x", "-n", "1") == "3\n"


def test_ls_lists_the_living_and_with_all_the_dead_and_changes_nothing(shell: Shell) -> None:
    assert "No sessions yet" in shell("ls")
    shell("run", "--detach", "--id", "one", "--", "sleep", "60")
    shell("run", "--detach", "--id", "two", "--linger", "0", "--", "sh", "-c", "exit 3")
    until(lambda: not os.path.exists(shell.place("two").pid))
    (shell.directory / "three.pid").write_text("999999999\n999999998")
    (shell.directory / "notes.txt").touch()
    before = sorted(os.listdir(shell.directory))
    text = shell("ls")
    assert text.startswith("Active sessions:\n  one ") and "two" not in text
    rows = {row["id"]: row for row in json.loads(shell("ls", "--all", "--json"))}
    assert (rows["one"]["alive"], rows["two"]["code"], rows["three"]["alive"]) == (True, 3, False)
    assert "code 3" in shell("ls", "--all")
    assert sorted(os.listdir(shell.directory)) == before


def test_ls_takes_one_that_does_not_answer_for_alive(shell: Shell) -> None:
    shell("run", "--detach", "--id", "stuck", "--", "sleep", "60")
    supervisor, child = shell.place("stuck").pids()
    os.kill(supervisor, signal.SIGSTOP)
    try:
        assert f"unknown     pid {child}, its supervisor does not answer" in shell("ls")
    finally:
        os.kill(supervisor, signal.SIGCONT)


def test_kill_ends_everything_and_tells_what_died(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "bash", "--norc", "-i")
    shell("send", "x", "sleep 61 & sleep 62\\n")
    until(lambda: "sleep 61" in shell.written("x"))
    bash = shell.place("x").pids()[1]
    until(lambda: [job.name for job in table.descendants(bash)] == ["sleep", "sleep"])
    jobs = [job.pid for job in table.descendants(bash)]
    text = shell("kill", "x", "--grace", "3")
    assert text.count("sleep") == 2 and "bash" in text
    assert not any(map(alive, jobs))
    shell("run", "--detach", "--id", "y", "--", "sh", "-c", "trap '' TERM HUP; echo deaf; sleep 60")
    until(lambda: "deaf" in shell.written("y"))
    report = json.loads(shell("kill", "y", "--grace", "0.1", "--json"))
    assert report["survivors"] == [] and report["code"] == 137


def test_kill_does_without_a_supervisor_that_is_stuck(shell: Shell) -> None:
    shell("run", "--detach", "--id", "stuck", "--", "sleep", "60")
    supervisor, child = shell.place("stuck").pids()
    os.kill(supervisor, signal.SIGSTOP)
    try:
        assert shell("kill", "stuck", "--grace", "1") == f"stuck ended\n  SIGTERM  {child} sleep\n"
        assert not alive(child)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    shell("wait", "stuck", "--exit", code=143)


def test_ps_lists_a_terminal_until_it_is_gone(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "0", "--", "sleep", "60")
    supervisor, child = shell.place("x").pids()
    [tree] = json.loads(shell("ps", "--json"))
    assert (tree["owner"], tree["pid"], tree["command"], tree["running"]) == (supervisor, child, ["sleep", "60"], True)
    shell("kill", "x")
    until(lambda: json.loads(shell("ps", "--json")) == [])


def test_resize_changes_the_size_whatever_the_policy(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--resize", "fixed", "--", "sleep", "60")
    shell("resize", "x", "100x30")
    size = json.loads(shell("status", "x", "--json"))["size"]
    assert (size["cols"], size["rows"], size["policy"]) == (100, 30, "fixed")
    assert shell.run("resize", "x", "wide").returncode == 2


def test_clean_only_looks_unless_told_and_spares_the_living_and_the_young(shell: Shell) -> None:
    shell("run", "--detach", "--id", "alive", "--", "sleep", "60")
    for name in ("old", "young"):
        shell("run", "--detach", "--id", name, "--linger", "0", "--", "echo", "x")
        until(lambda name=name: not os.path.exists(shell.place(name).pid))
    for path in shell.directory.glob("old.*"):
        os.utime(path, (1, 1))
    os.utime(shell.place("alive").log, (1, 1))
    assert "old.log" in shell("clean") and (shell.directory / "old.log").exists()
    found = json.loads(shell("clean", "--force", "--json"))
    assert {Path(path).name for path in found["files"]} == {"old.exit", "old.log", "old.out"}
    left = {path.stem for path in shell.directory.iterdir()}
    assert left == {"alive", "young"}
    assert shell.run("clean", "--older-than", "10").returncode == 1


def test_replay_plays_what_was_recorded_and_ends_with_its_code(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "x", "--record", "x.cast", "--", "sh", "-c", "echo recorded; sleep 0.2; exit 6")
    shell("wait", "x", "--exit", code=6)
    assert shell("replay", str(tmp_path / "x.cast"), "--speed", "100", code=6) == "recorded\n"


def test_peek_shows_the_screen(shell: Shell, tmp_path: Path) -> None:
    shell("run", "--detach", "--id", "x", "--cols", "40", "--rows", "5", "--", "sh", "-c", "printf '\\033[31mred'; cat")
    until(lambda: shell("peek", "x") == "red\n")
    assert json.loads(shell("peek", "x", "--json"))["cursor"] == {"x": 3, "y": 0, "visible": True}
    shell("peek", "x", "--png", str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_in_the_foreground_it_is_the_service_and_says_when_it_is_ready(shell: Shell, tmp_path: Path) -> None:
    import socket

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(tmp_path / "notify"))
        notify.settimeout(50)
        command = [
            TREADLE,
            "run",
            "--foreground",
            "--id",
            "svc",
            "--linger",
            "0",
            "--",
            "sh",
            "-c",
            "trap 'exit 3' TERM; echo $NOTIFY_SOCKET; while :; do sleep 0.05; done",
        ]
        env = {**os.environ, "NOTIFY_SOCKET": str(tmp_path / "notify")}
        service = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL)
        assert f"READY=1\nMAINPID={service.pid}" in notify.recv(1000).decode()
        until(lambda: shell("tail", "svc") == "\n")
        service.send_signal(signal.SIGTERM)
        assert service.wait(50) == 3
    assert not os.path.exists(shell.place("svc").pid)


def test_the_configuration_file_of_the_protocol_is_read(shell: Shell, tmp_path: Path, state_home: Path) -> None:
    directory = state_home / ".config" / "heimdall"
    directory.mkdir(parents=True)
    (directory / "heimdall.toml").write_text(
        f'socket_dir = "{shell.directory}"\nsession_env_var = "SID"\n[classifier.claude]\nidle_threshold_ms = 50\n'
        '[[env]]\nname = "EXTRA"\nvalue = "from file"\n'
    )
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo $SID $EXTRA; cat")
    until(lambda: "x from file" in shell.written("x"))
    shell("run", "--detach", "--id", "y", "--env", "EXTRA=given", "--", "sh", "-c", "echo $EXTRA; cat")
    until(lambda: "given" in shell.written("y"))


def test_a_configuration_that_came_with_a_repository_can_do_no_harm(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "heimdall.toml").write_text(
        'scrollback_bytes = 100\n[[env]]\nname = "LD_PRELOAD"\nvalue = "/evil.so"\n'
    )
    done = shell.run("run", "--detach", "--id", "x", "--", "sh", "-c", 'echo "<$LD_PRELOAD>"; cat')
    assert "env is ignored" in done.stderr
    until(lambda: "<>" in shell.written("x"))
    (tmp_path / "heimdall.toml").write_text('classifier = "psychic"\n')
    done = shell.run("run", "--detach", "--", "true")
    assert done.returncode == 1 and "psychic" in done.stderr
    assert "alive:   true" in shell("status", "x")  # which needs nothing from it


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("status", "nobody"), 1, "No session found: nobody"),
        (("status", "../x"), 1, "cannot be the id"),
        (("status",), 2, "expected one id"),
        (("run", "--detach"), 1, "no command"),
        (("run", "--detach", "--cols", "many", "true"), 2, "--cols"),
        (("run", "--detach", "--workdir", "/nowhere", "true"), 1, "/nowhere"),
        (("run", "--frobnicate", "true"), 2, "--frobnicate"),
        (("run", "true"), 2, "--detach"),
        (("run", "--detach", "--env", "novalue", "true"), 2, "NAME=VALUE"),
        (("run", "--detach", "--config", "/nowhere.toml", "true"), 1, "/nowhere.toml"),
        (("wait", "nobody", "--state", "x"), 1, "No session found"),
        (("replay", "/nowhere"), 1, "/nowhere"),
        (("run", "--detach", "--linger", "1e10", "true"), 2, "from 0 to 1e+09"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(shell: Shell, arguments: tuple[str, ...], code: int, words: str) -> None:
    done = shell.run(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", TERMINAL)
def test_every_command_teaches_itself(shell: Shell, name: str) -> None:
    assert f"treadle {name}" in shell(name, "--help")


def test_the_list_of_commands_has_them_with_a_line_each(shell: Shell) -> None:
    text = shell("--help")
    for name in TERMINAL:
        assert f"  {name} " in text


def test_the_small_commands_import_nothing_heavy(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sleep", "60")
    heavy = {"msgspec", "asyncio", "psutil", "tomllib", "click", "typing", "http"}
    if sys.version_info < (3, 14):  # from then on argparse itself loads them, for its colours
        heavy |= {"dataclasses", "inspect"}
    for arguments in (["status", "x"], ["send", "x", "hi"], ["ls"], ["run", "--detach", "--id", "y", "--", "true"]):
        _, loaded = loaded_by(*arguments)
        assert "treadle.cli" in loaded and not heavy & loaded, arguments


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("2h30m", 9000), ("1d", 86400), ("1d2h3m4s", 93784)]
)
def test_a_duration_is_digits_and_units(text: str, seconds: int) -> None:
    assert duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0s", "10", "5w", "m", "1h5", "-5m", "1.5h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        duration(text)


def test_reading_output_into_a_pipe_that_closes_is_no_error(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "head -c 9000000 /dev/zero")
    shell("wait", "x", "--exit")
    reader = subprocess.Popen([TREADLE, "tail", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert reader.stdout and reader.stderr
    reader.stdout.read(1)
    reader.stdout.close()
    assert reader.wait(50) == 141 and reader.stderr.read() == b""
    reader.stderr.close()


def test_detached_sessions_hold_nothing_of_the_launcher_open(shell: Shell) -> None:
    command = f"{TREADLE} run --detach --id x -- sleep 60 | cat"  # cat ends when no one has its input open any more
    subprocess.run(command, shell=True, check=True, timeout=50, capture_output=True)


def reporting(*states: str) -> str:
    """A program for `sh -c` that reports one state after another, each when a line is typed."""
    report = "printf '\\033]7501;state=%s:app=x\\007' "
    return report + f"'{states[0]}'; " + "".join(f"read line; {report}'{state}'; " for state in states[1:]) + "cat"


def test_a_program_that_nobody_recognises_is_unknown_and_enter_is_not_pressed_in_it(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo building; cat")
    until(lambda: "unknown" in shell("status", "x"))
    done = shell.run("send", "x", "next", "thing", "--enter")
    assert done.returncode == 3 and "--anyway" in done.stderr and "explain" in done.stderr
    assert shell.run("send", "x", "next", "thing", "--wait-idle").returncode == 3
    assert "next" not in shell("tail", "x")
    shell("send", "x", "only typed")
    shell("send", "x", "and sent", "--enter", "--anyway")
    until(lambda: shell.written("x").count("only typedand sent") == 2)


def test_a_shell_with_a_prompt_is_idle_and_can_be_worked_with(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--env", "PS1=$ ", "--", "sh", "-i")
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    shell("send", "x", "sleep 0.2; echo su''m", "--wait-idle", "--timeout", "50")
    assert "sum" in shell("tail", "x")


def test_a_turn_that_fails_has_a_state_and_an_exit_code_of_its_own(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", reporting("idle", "working", "error:msg=NDAx"))
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    shell("send", "x", "try", "--enter")
    shell("wait", "x", "--state", "working", "--timeout", "50")
    assert "--when-idle" in shell.run("send", "x", "more", "--enter").stderr
    shell("send", "x", "more", "--enter", "--anyway")
    shell("wait", "x", "--state", "error", "--timeout", "50")
    assert shell("wait", "x", "--state", "idle", "--timeout", "50", code=5) == "error: 401\n"
    assert "error" in shell("ls") and "401" in shell("ls")


def test_wait_idle_tells_what_became_of_the_turn(shell: Shell) -> None:
    for name, last, code in (("done", "done", 0), ("failed", "error", 5), ("asks", "blocked:kind=question", 3)):
        program = reporting("idle", "working").removesuffix("cat") + f"sleep 0.2; {reporting(last)}"
        shell("run", "--detach", "--id", name, "--", "sh", "-c", program)
        shell("wait", name, "--state", "idle", "--timeout", "50")
        shell("send", name, "go", "--wait-idle", "--timeout", "50", code=code)


def test_a_prompt_that_starts_no_work_was_not_submitted(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", reporting("idle"))
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    monkeypatch.setenv("TREADLE_SUBMIT_SECONDS", "0.5")
    done = shell.run("send", "x", "go", "--wait-idle", "--timeout", "50")
    assert done.returncode == 4 and "not known whether the text was submitted" in done.stderr


QUICK = """
import os, tty
tty.setraw(0)
asked, text = [], ""
while True:
    lines = ["Claude Code v2.1.325", *asked, "\u2500" * 60, "\u276f " + text, "\u2500" * 60, "  ? for shortcuts"]
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())
    for letter in os.read(0, 4096).decode():
        if letter == "\\r":
            asked, text = ["\u276f " + text, "\u25cf Done."], ""
        else:
            text += letter
"""


REPLACEABLE = """
import os, tty
tty.setraw(0)
asked, text, working = [], "", False
while True:
    footer = "  esc to interrupt" if working else "  ? for shortcuts"
    lines = ["Claude Code v2.1.325", *asked, "\u2500" * 60, "\u276f " + text, "\u2500" * 60, footer]
    os.write(1, ("\\x1b[2J\\x1b[H" + "\\r\\n".join(lines)).encode())
    for letter in os.read(0, 4096).decode():
        if letter == "\\r" and text:
            working = text.startswith("wait")
            asked, text = [*asked, "\u276f " + text, "\u25cf Done."], ""
        elif letter == "\\x15":
            text = ""
        elif letter >= " ":
            text += letter
"""


def agent_program(shell: Shell, code: str) -> None:
    """Run a program that looks like Claude Code and is idle."""
    program = shell.cwd / "claude"
    program.write_text(f"#!{sys.executable} -ISu\n{code}")
    program.chmod(0o700)
    shell("run", "--detach", "--id", "x", "--", str(program))
    shell("wait", "x", "--state", "idle", "--timeout", "50")


def test_a_turn_that_is_over_before_anybody_sees_it_run_was_submitted(shell: Shell) -> None:
    agent_program(shell, QUICK)
    shell("send", "x", "tidy up", "--wait-idle", "--timeout", "50")


def test_a_text_that_still_stands_in_the_box_after_enter_was_not_submitted(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent_program(shell, QUICK.replace('letter == "\\r"', "False"))
    monkeypatch.setenv("TREADLE_SUBMIT_SECONDS", "0.5")
    done = shell.run("send", "x", "tidy up", "--enter")
    assert done.returncode == 4 and "still stands in its input box" in done.stderr


def test_an_enter_that_takes_the_input_box_away_is_not_a_success(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    vanish = 'os.write(1, b"\\x1b[2J\\x1b[Hwhat now"); os.read(0, 9)'
    agent_program(shell, QUICK.replace('asked, text = ["', f'{vanish}; asked, text = ["'))
    monkeypatch.setenv("TREADLE_SUBMIT_SECONDS", "0.5")
    done = shell.run("send", "x", "tidy up", "--enter")
    assert done.returncode == 4 and "has vanished" in done.stderr


def test_a_text_that_nobody_submitted_is_not_joined_with_the_next_one(shell: Shell) -> None:
    agent_program(shell, REPLACEABLE)
    shell("send", "x", "half a thought")
    until(lambda: "half a thought" in shell.explained("x"))
    done = shell.run("send", "x", "tidy up", "--enter")
    assert done.returncode == 3 and "--replace" in done.stderr
    shell("send", "x", "tidy up", "--wait", "--replace", "--timeout", "50")
    assert "\u276f tidy up" in shell("peek", "x")
    shell("send", "x", "another half")
    until(lambda: "another half" in shell.explained("x"))
    shell("send", "x", "--wait", "--timeout", "50")  # Enter alone submits what is there
    assert "\u276f another half" in shell("peek", "x")


def test_what_is_queued_is_typed_in_order_one_for_each_turn_and_can_be_cancelled(shell: Shell) -> None:
    agent_program(shell, REPLACEABLE)
    shell("send", "x", "wait for it", "--enter")
    numbers = [shell("send", "x", f"step {step}", "--when-idle").strip() for step in range(3)]
    row = json.loads(shell("ls", "--json"))[0]
    assert [prompt["text"] for prompt in row["prompts"]][-3:] == ["step 0", "step 1", "step 2"]
    assert "3 queued" in shell("ls") and "step 1" in shell("status", "x")
    enter = shell("send", "x", "", "--enter", "--when-idle").strip()
    assert f"queued until it is idle: {enter}" in shell("status", "x")
    shell("send", "x", "--cancel", enter)
    assert "already" in shell.run("send", "x", "--cancel", "1").stderr
    shell("send", "x", "--cancel", numbers[1])
    done = shell.run("send", "x", "pushing in", "--enter")
    assert done.returncode == 3
    shell("send", "x", "go on", "--enter", "--anyway")
    shell("send", "x", "step 3", "--when-idle", "--wait", "--timeout", "50")
    asked = [line for line in shell("tail", "x").split("\x1b[2J")[-1].splitlines() if line.startswith("\u276f ")]
    assert asked[-4:] == ["\u276f step 0", "\u276f step 2", "\u276f step 3", "\u276f "]
    assert json.loads(shell("status", "x", "--json"))["prompts"] == []
    assert "nothing with the number" in shell.run("send", "x", "--cancel", numbers[2]).stderr


def test_a_long_text_is_pasted_whole_or_refused(shell: Shell) -> None:
    code = "import os, sys, tty; tty.setraw(0); os.write(1, b'\\x1b[?2004h\\x1b]7501;state=idle:app=x\\x07ready')\n"
    code += "d = b''\nwhile not d.endswith(b'\\r'): d += os.read(0, 65536)\nprint(len(d), d[:6], d[-7:])"
    shell("run", "--detach", "--id", "x", "--", sys.executable, "-c", code)
    shell("wait", "x", "--state", "idle", "--timeout", "50")
    shell("send", "x", "--file", "-", "--enter", stdin="w" * 20_000)
    until(lambda: "20013 b'\\x1b[200~' b'\\x1b[201~\\r'" in shell.written("x"))
    shell("run", "--detach", "--id", "y", "--env", "PS1=$ ", "--", "sh", "-i")
    shell("wait", "y", "--state", "idle", "--timeout", "50")
    assert "would be cut" in shell.run("send", "y", "--file", "-", stdin="w" * 5000).stderr


def test_of_several_the_first_that_gets_there_is_named(shell: Shell) -> None:
    shell("run", "--detach", "--id", "busy", "--", "sh", "-c", reporting("working"))
    shell("run", "--detach", "--id", "asks", "--", "sh", "-c", reporting("working", "blocked:kind=permission"))
    shell("wait", "asks", "--state", "working", "--timeout", "50")
    shell("send", "asks", "\\n")
    assert shell("wait", "--any", "busy", "asks", "--timeout", "50") == "asks permission\n"
    shell("wait", "busy", "asks", "--state", "idle", code=2)


def test_a_command_runs_when_a_terminal_starts_to_wait_for_a_person(shell: Shell, tmp_path: Path) -> None:
    note = 'echo "$TREADLE_ID $TREADLE_STATE $TREADLE_MESSAGE" >> told'
    program = reporting("working", "blocked:kind=permission:msg=cm0gLXJm", "working", "blocked:kind=question:msg=cmVk")
    shell("run", "--detach", "--id", "x", "--notify", f"cd {tmp_path}; {note}", "--", "sh", "-c", program)
    told = tmp_path / "told"
    shell("send", "x", "\\n")
    until(lambda: told.exists() and told.read_text() == "x permission rm -rf\n")
    shell("send", "x", "\\n", "--anyway")
    shell("wait", "x", "--state", "working", "--timeout", "50")
    shell("send", "x", "\\n", "--anyway")
    until(lambda: told.read_text() == "x permission rm -rf\nx question red\n")


def test_explain_says_what_a_state_rests_on(shell: Shell) -> None:
    recording = load("gemini-perm-allow")
    at = next(moment["byte"] for moment in recording.moments if moment["truth"] == "permission")
    (shell.cwd / "screen").write_bytes(recording.data[:at])
    shell("run", "--detach", "--id", "g", "--cols", "110", "--rows", "40", "--", "sh", "-c", "cat screen; cat")
    shell("wait", "g", "--state", "permission", "--timeout", "50")
    text = shell("explain", "g")
    assert "agent:    gemini, known by sight" in text and "no input box" in text and "Allow execution of" in text
    found = json.loads(shell("explain", "g", "--json"))
    assert found["state"] == "permission" and any(sign["seen"] for sign in found["signs"])
    done = shell.run("send", "g", "next", "thing", "--enter")
    assert done.returncode == 3 and "permission" in done.stderr


def test_the_configuration_may_be_named_before_the_command(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text(f'socket_dir = "{tmp_path}/elsewhere"\nsession_env_var = "SID"\n')
    shell("--config", "c.toml", "run", "--id", "x", "--detach", "--", "sh", "-c", "echo =$SID=; cat")
    until(lambda: "=x=" in shell("--config", "c.toml", "tail", "x"))
    assert (tmp_path / "elsewhere" / "x.pid").exists()
    shell("--config", "c.toml", "kill", "x", "--grace", "0")


def test_ps_says_which_terminal_a_supervisor_has(shell: Shell) -> None:
    shell("run", "--id", "a1", "--detach", "--", "cat")
    supervisor = shell.place("a1").pids()[0]
    assert " ".join(table.command_line(supervisor)).startswith("treadle: terminal a1")
    (reaper,) = [each for each in table.descendants(supervisor) if each.parent == supervisor]
    assert " ".join(table.command_line(reaper.pid)).startswith("treadle: reaper of a terminal")
    shell("rename", "a1", "b2")
    assert " ".join(table.command_line(supervisor)).startswith("treadle: terminal b2")


# What goes wrong around a terminal...


def test_a_removed_directory_is_made_anew_at_once_when_the_supervisor_is_signalled(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo here; cat")
    supervisor, child = shell.place("x").pids()
    shutil.rmtree(shell.directory)
    os.kill(supervisor, signal.SIGUSR1)
    until(lambda: shell.place("x").pids() == (supervisor, child) and os.path.exists(shell.place("x").sock))
    assert "is already running" in shell.run("run", "--detach", "--id", "x", "--", "cat").stderr
    assert shell("ls").startswith("Active sessions:\n  x  ")
    assert "x ended" in shell("kill", "x")
    assert not alive(supervisor) or until(lambda: not alive(supervisor))


def test_a_removed_directory_is_made_anew_when_a_person_asks_for_it(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "cat")
    shell("run", "--detach", "--id", "y", "--socket-dir", "elsewhere", "--", "cat")
    there = Path(shell.cwd / "elsewhere" / "y.sock")
    shutil.rmtree(shell.directory)
    there.unlink()
    done = shell.run("ls", "--repair")
    assert "x.sock: made again" in done.stderr and done.stdout.startswith("Active sessions:\n  x  ")
    assert "y.sock" not in done.stderr
    assert "y.sock: made again" in shell.run("ls", "--repair", "--socket-dir", "elsewhere").stderr and there.exists()
    shell("kill", "y", "--socket-dir", "elsewhere", "--grace", "0")


def test_a_removed_socket_is_made_anew_and_nobody_takes_the_terminal_for_dead(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "echo here; cat")
    os.unlink(shell.place("x").sock)
    listed = shell("ls")
    assert listed.startswith("Active sessions:\n  x  ") and "dead" not in listed
    assert "is already running" in shell.run("run", "--detach", "--id", "x", "--", "cat").stderr
    assert "alive:   true" in shell("status", "x")
    assert "x ended" in shell("kill", "x")


def test_a_program_that_cannot_be_started_fails_the_run(shell: Shell) -> None:
    done = shell.run("run", "--detach", "--id", "x", "--", "no-such-program")
    assert done.returncode == 1 and "no-such-program" in done.stderr and "No such file" in done.stderr
    assert shell.run("run", "--detach", "--id", "", "--", "cat").returncode == 1


def test_a_mistyped_id_is_corrected(shell: Shell) -> None:
    shell("run", "--detach", "--id", "builder", "--", "cat")
    assert "did you mean builder?" in shell.run("status", "bulider").stderr


def test_kill_ends_several_or_all(shell: Shell) -> None:
    for name in ("a", "b", "c", "d"):
        shell("run", "--detach", "--id", name, "--linger", "0", "--", "cat")
    assert set(json.loads(shell("kill", "a", "b", "--json"))) == {"a", "b"}
    text = shell("kill", "--all")
    assert "c ended" in text and "d ended" in text
    until(lambda: shell("ls") == "No active sessions\n")
    shell("kill", code=2)


def test_kill_sees_everything_though_the_supervisor_is_stuck_and_the_reaper_killed(shell: Shell) -> None:
    shell(
        "run", "--detach", "--id", "x", "--", "sh", "-c", "setsid sh -c 'sleep 61 & sleep 62 &' & trap '' HUP TERM; cat"
    )
    supervisor, _ = shell.place("x").pids()
    until(lambda: sum(found.name == "sleep" for found in table.descendants(supervisor)) == 2)
    sleeps = [found.pid for found in table.descendants(supervisor) if found.name == "sleep"]
    (reaper,) = [found.pid for found in table.descendants(supervisor) if found.name == "treadle-reaper"]
    os.kill(supervisor, signal.SIGSTOP)
    os.kill(reaper, signal.SIGKILL)
    done = shell.run("kill", "x", "--grace", "0.2")
    assert done.returncode == 0 and all(f"{pid} sleep" in done.stdout for pid in sleeps)
    until(lambda: not any(map(alive, sleeps)))
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not alive(supervisor))


def test_kill_ends_what_is_left_of_one_whose_supervisor_and_reaper_were_killed_at_once(shell: Shell) -> None:
    """It is known by a variable that it was started with. One without it could not be seen, so exit code 1."""
    shell("run", "--detach", "--id", "x", "--", "sh", "-c", "setsid sleep 61 & trap '' HUP TERM; sleep 62")
    supervisor, _ = shell.place("x").pids()
    until(lambda: sum(found.name == "sleep" for found in table.descendants(supervisor)) == 2)
    below = table.descendants(supervisor)
    (reaper,) = [found.pid for found in below if found.name == "treadle-reaper"]
    sleeps = [found.pid for found in below if found.name == "sleep"]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in (supervisor, reaper):
            os.kill(pid, number)
    until(lambda: not alive(supervisor) and not alive(reaper))
    done = shell.run("kill", "x", "--grace", "0.2")
    assert done.returncode == 1 and "all that watched it was killed" in done.stderr
    assert all(f"{pid} sleep" in done.stdout for pid in sleeps)
    until(lambda: not any(map(alive, sleeps)))


def test_attach_alone_joins_the_only_one_and_refuses_to_guess(shell: Shell) -> None:
    assert "No active sessions" in shell.run("attach").stderr
    shell("run", "--detach", "--id", "x", "--", "cat")
    assert "attach needs a terminal" in shell.run("attach").stderr
    shell("run", "--detach", "--id", "y", "--", "cat")
    done = shell.run("attach")
    assert done.returncode == 2 and "x, y" in done.stderr


def test_a_terminal_is_not_attached_to_itself(shell: Shell) -> None:
    shell("run", "--detach", "--id", "x", "--linger", "60", "--", TREADLE, "attach", "x")
    until(lambda: "this is the terminal x" in shell.written("x"))


def test_a_supervisor_with_nothing_but_the_protocol_is_served_by_every_command(shell: Shell) -> None:
    place = shell.place("hm")
    shell.directory.mkdir(parents=True, mode=0o700, exist_ok=True)
    ready, stop = threading.Event(), threading.Event()

    def serve(sock: socket.socket) -> None:
        with sock, suppress(ConnectionError):  # the one who asked may have left
            sock.sendall(b"\0")
            data = b""
            while len(data) < 5 and (part := sock.recv(1000)):
                data += part
                while len(data) >= 5:
                    kind, size = data[0], int.from_bytes(data[1:5], "big")
                    data = data[5 + size :]
                    if kind == wire.STATUS:
                        sock.sendall(wire.encode(wire.StatusReply.of(os.getpid(), 7, True, wire.IDLE, 9)))
                    elif kind == wire.SUBSCRIBE:
                        sock.sendall(wire.encode(wire.ProgramOutput(b"one\r\ntwo\r\n$ ")))

    def supervise() -> None:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(place.sock)
            listener.listen()
            listener.settimeout(0.2)
            ready.set()
            while not stop.is_set():
                try:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
                except TimeoutError:
                    pass

    thread = threading.Thread(target=supervise)
    thread.start()
    ready.wait(50)
    with files.locked(place.pid):
        Path(place.pid).write_text(f"{os.getpid()}\n{os.getpid()}")
        try:
            with ThreadPoolExecutor(6) as pool:  # each waits two seconds for an answer that does not come
                status = pool.submit(shell, "status", "hm", "--json")
                tail = pool.submit(shell, "tail", "hm", "--strip")
                peek = pool.submit(shell, "peek", "hm")
                wait = pool.submit(shell, "wait", "hm", "--state", "idle", "--timeout", "50")
                ls = pool.submit(shell, "ls")
                send = pool.submit(shell, "send", "hm", "x", "--enter", code=3)
            assert json.loads(status.result())["state"]["name"] == "idle"
            assert tail.result() == "one\ntwo\n$ "
            assert peek.result().splitlines() == ["one", "two", "$"]
            assert "idle" in ls.result()
            wait.result()
            send.result()
        finally:
            stop.set()
            thread.join(50)
    Path(place.pid).unlink()


def test_rename_gives_another_id_and_the_program_goes_on(shell: Shell) -> None:
    shell("run", "--detach", "--id", "old", "--", "sh", "-c", "echo hello; exec cat")
    supervisor, child = shell.place("old").pids()
    assert shell("rename", "old", "new") == "new\n"
    assert shell.place("new").pids() == (supervisor, child)
    assert "old" not in shell("ls") and "new" in shell("ls")
    assert "No session found" in shell.run("status", "old").stderr
    shell("send", "new", "typed", "--enter", "--anyway")
    until(lambda: "typed" in shell.written("new"))
    assert shell("tail", "new").startswith("hello")
    shell("run", "--detach", "--id", "old", "--", "cat")  # its state file is another one
    files = [json.loads(shell("status", name, "--json"))["state_file"] for name in ("old", "new")]
    assert len(set(files)) == 2
    assert "is already running" in shell.run("rename", "new", "old").stderr
    assert "cannot be the id" in shell.run("rename", "new", "../x").stderr
    shell("kill", "new")
    assert shell("wait", "new", "--exit", code=None) == ""
    assert json.loads(Path(shell.place("new").exit).read_text())["id"] == "new"


def test_one_that_was_renamed_and_killed_leaves_its_record_under_its_last_id(shell: Shell) -> None:
    shell("run", "--detach", "--id", "old", "--", "cat")
    shell("rename", "old", "new")
    os.kill(shell.place("new").pids()[0], signal.SIGKILL)
    until(lambda: Path(shell.place("new").exit).exists())
    assert json.loads(Path(shell.place("new").exit).read_text())["id"] == "new"
    until(lambda: not Path(shell.place("new").pid).exists())
    assert not Path(shell.place("old").exit).exists()


def test_a_socket_that_a_crash_has_left_is_named_and_removed_when_asked(shell: Shell) -> None:
    shell("run", "--detach", "--id", "alive", "--", "cat")
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(shell.place("gone").sock)
    assert shell.place("gone").sock in shell.run("ls").stderr and os.path.exists(shell.place("gone").sock)
    assert "removed" in shell.run("ls", "--repair").stderr
    assert not os.path.exists(shell.place("gone").sock) and os.path.exists(shell.place("alive").sock)
    done = shell.run("ls")
    assert done.stderr == "" and "alive" in done.stdout
