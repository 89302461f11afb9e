"""`treadle warm`: runs and workers that start from a process that is there already, and are no different for it."""

import json
import os
import pty
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

from click.testing import CliRunner

from tests.cli.warm_runs import TRACED, Warm, loaded, name_of
from tests.installed import TREADLE
from tests.terminal.support import alive, until
from treadle.cli.warm import AGENT
from treadle.cli.warm_start import _record, warm_start
from treadle.errors import ConfigError
from treadle.io.process import table

WORKER = str(Path(sys.executable).with_name("treadle-worker"))


SLOW = '[[reply]]\n[[reply.call]]\nname = "bash"\narguments = { command = "echo $$ > pid; exec sleep 300" }\n'


def test_it_is_started_asked_about_and_ended_by_hand(warm: Warm) -> None:
    assert "warm already" in warm.do(TREADLE, "warm").stdout
    parent = warm.parent
    assert f"process {parent}" in warm.do(TREADLE, "warm", "status").stdout
    (row,) = json.loads(warm.do(TREADLE, "warm", "status", "--json").stdout)
    assert row["pid"] == parent and row["rss_bytes"] > 1_000_000 and row["for"] == "runs and workers"
    assert json.loads(warm.do(TREADLE, "warm", "--json").stdout) == {"started": False}
    assert json.loads(warm.do(TREADLE, "warm", "stop", "--json").stdout) == {"ended": [parent]}
    until(lambda: not alive(parent))
    assert json.loads(warm.do(TREADLE, "warm", "status", "--json").stdout) == []
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and loaded(done)
    off = warm.do(TREADLE, "warm", env={**warm.env, "TREADLE_WARM": "0"})
    assert off.returncode == 1 and "TREADLE_WARM=0" in off.stderr


def test_what_is_typed_is_one_of_three_and_what_is_off_is_said() -> None:
    assert CliRunner().invoke(warm_start, ["status"]).output == "nothing is warm: `treadle warm` starts it\n"
    assert json.loads(CliRunner().invoke(warm_start, ["status", "--json"]).output) == []
    assert CliRunner().invoke(warm_start, ["stop"]).output == "there was none\n"
    assert json.loads(CliRunner().invoke(warm_start, ["stop", "--json"]).output) == {"ended": []}
    off = CliRunner().invoke(warm_start)
    assert isinstance(off.exception, ConfigError) and "TREADLE_WARM=0 says that nothing" in str(off.exception)
    for words in (["--idle", "0"], ["dance"]):
        assert CliRunner().invoke(warm_start, words).exit_code == 2
    assert _record(os.getpid(), AGENT)["for"] == "runs and workers" and _record(os.getpid(), "x")["for"] == "workers"
    assert _record(os.getpid(), AGENT)["rss_bytes"] and _record(2**22 + 1, AGENT)["rss_bytes"] == 0


def test_what_a_run_has_from_whoever_starts_it_is_the_same_as_without(warm: Warm) -> None:
    def on_one_core() -> None:
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

    words = ["--output-format", "stream-json", "--verbose", "--permission-mode", "bypassPermissions"]
    seen = []
    for idle in ("600", "0"):
        env = {**warm.env, "TREADLE_WARM": idle, "TZ": "HERE-3"}
        done = warm.once("surroundings", *words, env=env, umask=0o027, preexec_fn=on_one_core)
        records = [json.loads(line) for line in done.stdout.splitlines()]
        (told,) = [record for record in records if record["type"] == "user"]
        seen.append(told["message"]["content"][0]["content"].split())
    assert seen[0] == seen[1] == [str(warm.here), "+0300", "0027", "1"]


def test_who_has_other_limits_does_not_get_those_of_the_warm_parent(warm: Warm) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))

    done = warm.do(*TRACED, "-p", "hi", *warm.model, preexec_fn=limited)
    assert done.stdout == "hello\n" and loaded(done)


def test_a_terminal_of_whoever_starts_it_is_written_to(warm: Warm) -> None:
    leader, follower = pty.openpty()
    command = [TREADLE, "-p", "hi", *warm.model]
    try:
        done = subprocess.run(
            command, env=warm.env, cwd=warm.here, stdin=follower, stdout=follower, stderr=follower, timeout=60
        )
        assert done.returncode == 0 and b"hello" in os.read(leader, 4096)
    finally:
        os.close(leader)
        os.close(follower)


def test_a_signal_goes_to_the_run_and_its_partial_result_is_told(warm: Warm) -> None:
    run = warm.begin("--output-format", "json", script=SLOW)
    tool = warm.tool()
    run.send_signal(signal.SIGINT)
    said, _ = run.communicate(timeout=60)
    assert json.loads(said)["terminal_reason"] == "aborted_tools" and run.returncode == 0
    until(lambda: not alive(tool))


def test_a_run_that_is_stopped_stands_still_until_it_is_let_go_on(warm: Warm) -> None:
    until(lambda: not warm.copies())
    run = warm.begin(script=SLOW)
    try:
        warm.tool()
        (copy,) = until(warm.only_copy)
        run.send_signal(signal.SIGTSTP)
        until(lambda: state(copy) == "T" and state(run.pid) == "T")
        run.send_signal(signal.SIGCONT)
        until(lambda: state(copy) != "T")
    finally:
        run.terminate()
        run.send_signal(signal.SIGCONT)
        run.communicate(timeout=60)


def state(pid: int) -> str:
    found = table.look(pid)
    return found.state if found else ""


def test_when_whoever_started_it_is_killed_the_run_and_its_tools_end(warm: Warm) -> None:
    run = warm.begin(script=SLOW)
    tool = warm.tool()
    run.kill()
    run.communicate(timeout=60)
    until(lambda: not alive(tool))
    until(lambda: not warm.copies())


def test_a_run_goes_on_when_the_warm_parent_is_killed_and_the_next_starts_by_itself(warm: Warm) -> None:
    os.mkfifo(warm.here / "gate")
    run = warm.begin(script=SLOW.replace("exec sleep 300", "cat gate") + '[[reply]]\ntext = "done"\n')
    warm.tool()
    parent = warm.parent
    os.kill(parent, signal.SIGKILL)
    until(lambda: not alive(parent))
    (warm.here / "gate").write_text("go\n")
    assert run.communicate(timeout=60)[0] == "done\n" and run.returncode == 0
    done = warm.traced("hi")
    assert done.stdout == "hello\n" and loaded(done)


def test_two_at_once_are_two_runs(warm: Warm) -> None:
    out: list[str] = []
    threads = [threading.Thread(target=lambda: out.append(warm.once("hi").stdout)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert out == ["hello\n"] * 3


def test_no_key_of_whoever_asked_stays_in_the_warm_parent(warm: Warm) -> None:
    warm.env["ACME_API_KEY"] = "sk-very-secret-key-of-mine"
    assert warm.once("hi").stdout == "hello\n"
    assert Path(f"/proc/{warm.parent}/environ").read_bytes().strip(b"\0") == b""
    assert not holds(warm.parent, b"sk-very-secret")


def holds(pid: int, word: bytes) -> bool:
    """Whether a process has this word anywhere in the memory that it can write to."""
    with open(f"/proc/{pid}/maps") as maps, open(f"/proc/{pid}/mem", "rb", 0) as memory:
        for line in maps:
            span, mode = line.split()[:2]
            if mode.startswith("rw"):
                start, end = (int(edge, 16) for edge in span.split("-"))
                memory.seek(start)
                if word in memory.read(end - start):
                    return True
    return False


def test_one_who_is_confined_is_not_set_free_by_it(warm: Warm) -> None:
    """With no_new_privs as every sandbox sets it; the copy would not have it."""
    confine = "import ctypes, os, sys; ctypes.CDLL(None).prctl(38, 1, 0, 0, 0); os.execv(sys.argv[1], sys.argv[1:])"
    done = warm.do(sys.executable, "-c", confine, *TRACED, "-p", "hi", *warm.model)
    assert done.stdout == "hello\n" and loaded(done)


def test_the_keeper_of_a_copy_s_commands_is_a_copy_too(warm: Warm) -> None:
    until(lambda: not warm.copies())
    run = warm.begin(script=SLOW)
    tool = warm.tool()
    (keeper,) = until(lambda: [pid for pid in warm.copies() if name_of(pid) == "treadle-keeper"])
    assert tool in [found.pid for found in table.descendants(keeper)]
    assert Path(f"/proc/{keeper}/environ").read_bytes().strip(b"\0") == b"" and state(keeper) != "T"
    core = [line for line in Path(f"/proc/{tool}/limits").read_text().splitlines() if line.startswith("Max core")]
    assert core[0].split()[4] == "0"  # the limits are those of its owner
    os.kill(keeper, signal.SIGKILL)
    until(lambda: not alive(tool))
    run.terminate()
    run.communicate(timeout=60)
