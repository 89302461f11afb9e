"""The promises of the specification, on real ptys and real sockets."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.terminal.support import (
    Stage,
    alive,
    connected,
    log_lines,
    plain,
    receive,
    receive_frame,
    until,
    watch,
)
from tests.waiting import stop
from treadle.io.process import table
from treadle.terminal.client import Client
from treadle.terminal.loop import READ
from treadle.terminal.places import Place
from treadle.terminal.supervisor import Supervisor
from treadle.wire.terminal import frames as wire

# The connection...


def test_the_mode_byte_comes_at_once_and_unframed(stage: Stage) -> None:
    with plain(stage.start("sleep", "60")):
        pass  # `plain` has read exactly one byte, 0x00


def test_the_pseudocode_client_of_the_protocol_works(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read line; echo got $line; exit 5")
    with plain(place) as sock:
        sock.sendall(b"\x03\x00\x00\x00\x00")
        kind, payload = receive_frame(sock)
        assert (kind, len(payload)) == (0x82, 15)
        assert int.from_bytes(payload[:4], "big") == place.pids()[1]
        assert (payload[8], payload[14]) == (1, 0)
        sock.sendall(b"\x02\x00\x00\x00\x00" + b"\x01\x00\x00\x00\x03hi\n")
        output = b""
        while True:
            kind, payload = receive_frame(sock)
            if kind == 0x83:
                break
            assert kind == 0x81
            output += payload
        assert b"got hi" in output
        assert payload == b"\x00\x00\x00\x05"


def test_fifty_connections_that_come_and_go_leave_no_trace(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    for _ in range(50):
        plain(place).close()
    with connected(place) as client:
        until(lambda: len(client.detail()["clients"]) == 1)


@pytest.mark.slow
def test_status_is_answered_between_the_output_of_a_subscriber(stage: Stage) -> None:
    place = stage.start("sh", "-c", "while :; do echo tick; done")
    with connected(place) as client:
        client.subscribe()
        for _ in range(20):
            assert client.status().alive == 1


# Bad frames...


def test_a_malformed_frame_closes_that_connection_and_harms_no_other(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    bad = {
        "a gibibyte": b"\x01" + (1 << 30).to_bytes(4, "big"),
        "resize of 3 bytes": b"\x04\x00\x00\x00\x03abc",
        "noise": b"\xff" * 64,
    }
    with connected(place) as other:
        for number, (what, data) in enumerate(bad.items(), 1):
            with plain(place) as sock:
                sock.sendall(data)
                assert sock.recv(1) == b"", what
                assert other.status().alive == 1
            assert [line["event"] for line in log_lines(place)].count("malformed frame") == number


def test_junk_in_a_type_that_the_protocol_does_not_use_is_ignored(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    for kind in range(0x06, 0x10):
        with plain(place) as sock:
            sock.sendall(wire.frame(kind, b"") + wire.frame(kind, b"junk{") + wire.frame(wire.STATUS, b""))
            while (found := receive_frame(sock)[0]) != wire.STATUS_RESP:
                assert found > wire.EXIT  # our answer to what looked like a question


def test_half_a_frame_and_a_hang_up_are_forgotten(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    for cut in (1, 4, 5, 7):
        with plain(place) as sock:
            sock.sendall(b"\x01\x00\x00\x00\x05hello"[:cut])
    with connected(place) as client:
        assert client.status().alive == 1


def test_a_frame_of_a_mebibyte_is_taken(stage: Stage) -> None:
    code = (
        "import sys,tty; tty.setraw(0); print('ready'); n=0\nwhile n<2**20: n+=len(sys.stdin.buffer.read1())\nprint(n)"
    )
    place = stage.python(code)
    with connected(place) as client:
        output = client.output(50)
        assert b"ready" in next(output)  # raw by now: in line mode the kernel would keep only 4095 bytes of a line
        client.send(wire.Input(bytes(range(32, 96)) * 2**14))
        assert b"1048576" in b"".join(output)


# Output...


def test_a_child_that_ends_in_a_millisecond_still_gives_its_output_and_code(stage: Stage) -> None:
    for code in range(5):
        assert watch(stage.start("sh", "-c", f"echo word {code}; exit {code}")) == (f"word {code}\r\n".encode(), code)


def test_the_last_words_are_drained_before_exit(stage: Stage) -> None:
    output, code = watch(stage.start("sh", "-c", "seq 1 60000", scrollback_bytes=1 << 20))
    assert output.split() == [b"%d" % number for number in range(1, 60001)]
    assert code == 0


def test_every_subscriber_sees_the_same_bytes(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read x; seq 1 20000")
    clients = [Client(place.sock) for _ in range(8)]
    outputs: dict[int, bytes] = {}

    def drain(index: int) -> None:
        outputs[index] = b"".join(clients[index].output(20))

    threads = [threading.Thread(target=drain, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    with connected(place) as typist:
        until(lambda: sum(client["subscribed"] for client in typist.detail()["clients"]) == 8)
        typist.input(b"\n")
    for thread in threads:
        thread.join(50)
    for client in clients:
        client.close()
    assert len(set(outputs.values())) == 1
    assert outputs[0].split() == [b"%d" % number for number in range(1, 20001)]


def test_binary_bytes_and_escape_sequences_pass_unchanged(stage: Stage) -> None:
    code = "import os,tty; tty.setraw(1); os.write(1, bytes(range(256))+b'\\x1b[31mred\\x1b[0m')"
    assert watch(stage.python(code)) == (bytes(range(256)) + b"\x1b[31mred\x1b[0m", 0)


def test_replay_then_live_has_no_gap_and_no_repeat(stage: Stage) -> None:
    """Subscribers connect at every moment of a steady stream; each must see a contiguous run of numbers to the end."""
    place = stage.python("import time\nfor n in range(4000): print(n)\n", scrollback_bytes=2000)
    found: list[bytes] = []

    def subscribe() -> None:
        with connected(place) as client:
            found.append(b"".join(client.output(50)))

    threads = [threading.Thread(target=subscribe) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    for output in found:
        numbers = [int(line) for line in output.split(b"\r\n")[1:-1]]
        assert numbers == list(range(4000))[-len(numbers) :]


def test_a_late_joiner_is_shown_the_end_of_the_output_up_to_the_limit(stage: Stage) -> None:
    place = stage.start("sh", "-c", "seq 1 5000; read x", scrollback_bytes=256)
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"] >= 28893 - 5)
        client.subscribe()
        message = next(client.messages(50))
        assert isinstance(message, wire.ProgramOutput)
        assert len(message.data) == 256
        assert message.data.endswith(b"4999\r\n5000\r\n")


def test_frames_are_never_larger_than_a_mebibyte(stage: Stage) -> None:
    place = stage.start("sh", "-c", "head -c 6000000 /dev/zero", scrollback_bytes=4 << 20)
    until(lambda: os.path.exists(place.exit))
    with plain(place) as sock:
        sock.sendall(b"\x02\x00\x00\x00\x00")
        total = 0
        while (found := receive_frame(sock))[0] != 0x83:
            assert len(found[1]) <= 1 << 20
            total += len(found[1])
    assert total == 4 << 20


# After death...


def test_after_death_status_says_so_and_a_new_subscriber_gets_replay_and_exit(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo last words; exit 9")
    until(lambda: os.path.exists(place.exit))
    with connected(place) as client:
        status = client.status()
        assert (status.alive, status.state, status.pid) == (0, wire.DEAD, place.pids()[1])
        assert b"".join(client.output(50)) == b"last words\r\n"
        assert client.exit_code == 9
        client.input(b"anybody there?")
        client.kill()
        assert client.status().alive == 0


def test_after_the_linger_time_socket_and_pid_file_go_and_the_exit_record_stays(stage: Stage) -> None:
    place = stage.start("sh", "-c", "exit 4", linger=0.2)
    until(lambda: not os.path.exists(place.pid))
    assert not os.path.exists(place.sock)
    record = json.loads(Path(place.exit).read_text())
    assert (record["format"], record["id"], record["code"]) == (1, place.id, 4)


def test_a_command_that_does_not_exist_fails_the_start_and_leaves_127_with_the_reason(stage: Stage) -> None:
    with pytest.raises(RuntimeError, match="No such file"):
        stage.start("no-such-program", id="x")
    place = Place(str(stage.directory), "x")
    until(lambda: os.path.exists(place.exit))
    record = json.loads(Path(place.exit).read_text())
    assert record["code"] == 127 and "No such file" in record["reason"]
    assert b"no-such-program" in Path(place.out).read_bytes()


def test_a_background_process_that_keeps_the_terminal_does_not_hold_up_exit(stage: Stage) -> None:
    place = stage.start("sh", "-c", "trap '' HUP; (trap '' HUP TERM; sleep 60) & echo started; exit 6")
    output, code = watch(place)
    assert (output, code) == (b"started\r\n", 6)


def test_a_flood_from_a_background_process_does_not_hold_up_exit_for_ever(stage: Stage) -> None:
    place = stage.start("sh", "-c", "trap '' HUP; yes flood & sleep 0.1; exit 8", scrollback_bytes=4096)
    assert watch(place)[1] == 8


def test_nothing_follows_exit_though_somebody_still_writes(stage: Stage) -> None:
    place = stage.start("sh", "-c", "trap '' HUP; yes flood & exit 8", kill_process_group=False)
    with plain(place) as sock:
        sock.sendall(b"\x02\x00\x00\x00\x00")
        while receive_frame(sock)[0] != 0x83:
            pass
        for _ in range(20):
            sock.sendall(b"\x03\x00\x00\x00\x00")
            assert receive_frame(sock)[0] == 0x82


# Input...


def test_input_reaches_the_program_also_from_a_client_that_does_not_subscribe(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read line; echo got:$line")
    with connected(place) as client:
        client.input(b"over here\n")
    assert b"got:over here" in watch(place)[0]


def test_a_large_paste_arrives_whole_and_in_order(stage: Stage) -> None:
    """The program reads slowly: the terminal takes 4 KiB at a time, and the rest has to wait."""
    code = """
import hashlib, sys, tty, time
tty.setraw(0); print("ready", flush=True); digest = hashlib.sha256(); n = 0
while n < 3_000_000:
    data = sys.stdin.buffer.read1(65536); digest.update(data); n += len(data)
print(n, digest.hexdigest())
"""
    import hashlib
    import random

    paste = random.Random(1).randbytes(3_000_000)
    place = stage.start(sys.executable, "-u", "-c", code)
    with connected(place) as client:
        output = client.output(50)
        assert b"ready" in next(output)
        client.input(paste)
        assert f"3000000 {hashlib.sha256(paste).hexdigest()}".encode() in b"".join(output)


def test_input_that_nobody_reads_is_bounded_and_others_are_still_heard(stage: Stage) -> None:
    place = stage.python("import tty,time; tty.setraw(0); print('ready'); time.sleep(60)")
    with connected(place) as client, plain(place) as sock:
        until(lambda: client.detail()["output"]["end"] > 0)
        sock.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(100):
                sock.sendall(b"\x01\x00\x10\x00\x00" + bytes(1 << 20))
        assert client.status().alive == 1
        client.kill()
        until(lambda: not client.status().alive)


# Slow readers...


@pytest.mark.slow
def test_a_stalled_subscriber_loses_the_oldest_output_but_not_its_answers_or_exit(stage: Stage) -> None:
    place = stage.python(
        "import sys\nsys.stdin.readline()\nprint(*range(300_000), sep='\\n', flush=True)\nsys.stdin.readline()",
        scrollback_bytes=1 << 16,
    )
    with connected(place) as fast, connected(place) as slow:
        slow.hello(wire.WANT_GAPS)
        slow.subscribe()
        fast.input(b"go\n")
        until(lambda: fast.hello().end > 2_000_000)  # the child was never held up
        slow.send(wire.StatusQuestion())  # still read, though it does not read
        slow.input(b"done\n")
        until(lambda: not fast.status().alive)
        output, missed, answered = b"", 0, 0
        for message in slow.messages(50):
            if isinstance(message, wire.ProgramOutput):
                output += message.data
            elif isinstance(message, wire.Gap):
                missed += message.missed
            elif isinstance(message, wire.StatusReply):
                answered += 1
        assert isinstance(message, wire.Exit)
        assert answered == 1
        assert missed > 0
        assert len(output) + missed == fast.detail()["output"]["end"]
        assert output.endswith(b"299999\r\ndone\r\n") or b"299999\r\n" in output[-100:]


def test_a_stuck_client_cannot_keep_others_from_typing_resizing_and_killing(stage: Stage) -> None:
    place = stage.start("yes", "flood")
    with plain(place) as stuck:
        stuck.sendall(b"\x02\x00\x00\x00\x00")
        with connected(place) as client:
            until(lambda: client.hello().end > 2_000_000)
            stuck.sendall(b"\x04\x00\x00\x00\x04\x00\x50\x00\x18")
            until(lambda: client.detail()["size"]["cols"] == 80)
            stuck.sendall(b"\x05\x00\x00\x00\x00")
            until(lambda: not client.status().alive)
            assert client.status().state == wire.DEAD


def test_memory_is_bounded_with_many_stuck_clients(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read x; head -c 25000000 /dev/zero; read x", scrollback_bytes=1 << 16)
    stuck = [plain(place) for _ in range(60)]
    for sock in stuck:
        sock.sendall(b"\x02\x00\x00\x00\x00")
    with connected(place) as client:
        before = _resident(place)
        client.input(b"\n")
        until(lambda: client.hello().end >= 25_000_000)
        grown = _resident(place) - before
    for sock in stuck:
        sock.close()
    assert grown < 12 << 20


def _resident(place: Place) -> int:
    return int(Path(f"/proc/{place.pids()[0]}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_a_client_that_asks_and_never_reads_is_not_read_any_more(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with plain(place) as rude, connected(place) as client:
        rude.settimeout(0.5)
        with pytest.raises(TimeoutError):
            for _ in range(10_000):
                rude.sendall(b"\x03\x00\x00\x00\x00" * 1000)
        assert client.status().alive == 1
        rude.settimeout(50)
        assert receive(rude, 20)[0] == 0x82


# Sizes...


def test_any_size_is_passed_to_the_kernel(stage: Stage) -> None:
    place = stage.start("sleep", "60", cols=0, rows=0)
    with connected(place) as client:
        for size in ((0, 0), (0, 1), (1, 0), (65535, 65535), (120, 40)):
            client.resize(*size)
            detail = client.detail()["size"]
            assert (detail["cols"], detail["rows"]) == size
            assert client.status().alive == 1


def test_the_program_starts_with_its_size_and_hears_of_a_new_one(stage: Stage) -> None:
    place = stage.start(
        "bash", "-c", "trap 'stty size; exit' WINCH; stty size; while :; do sleep 0.05; done", cols=91, rows=33
    )
    with connected(place) as client:
        output = client.output(50)
        assert next(output) == b"33 91\r\n"
        client.resize(100, 20)
        assert b"".join(output) == b"20 100\r\n"


# Environment, directory, files...


def test_the_child_knows_its_session_its_additions_its_terminal_and_its_directory(stage: Stage, tmp_path: Path) -> None:
    place = stage.start(
        "sh",
        "-c",
        'echo "$MY_SESSION|$EXTRA|$TERM|$TMUX|$(pwd)|$HEIMDALL_SESSION_ID"',
        session_env_var="MY_SESSION",
        env=[["EXTRA", "a b"]],
        workdir=str(tmp_path),
        term="vt220",
    )
    assert watch(place)[0].decode().strip() == f"{place.id}|a b|vt220||{tmp_path.resolve()}|"


def test_the_child_has_no_descriptors_and_signals_of_ours(stage: Stage) -> None:
    output, _ = watch(stage.start("sh", "-c", "ls /proc/self/fd; grep -E 'Sig(Blk|Ign|Cgt)' /proc/self/status"))
    fds, _, signals = output.decode().partition("Sig")
    assert fds.split() == ["0", "1", "2", "3"]  # ls reads the directory with 3
    blocked, ignored = (int(line.split()[1], 16) for line in ("Sig" + signals).splitlines()[:2])
    ordinary = 0x7FFFFFFF  # higher ones belong to the C library, and the caller of the tests may have changed them
    assert blocked & ordinary == ignored & ordinary == 0


def test_everything_is_for_this_user_alone(stage: Stage) -> None:
    place = stage.start("sh", "-c", "echo x; read y")
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
    until(lambda: os.path.exists(place.summary))
    kept = (place.sock, place.pid, place.log, place.out, place.summary)
    assert {stat.S_IMODE(os.stat(path).st_mode) for path in kept} == {0o600}
    assert stat.S_IMODE(stage.directory.stat().st_mode) == 0o700


def test_the_pid_file_has_supervisor_and_child_with_no_newline_at_its_end(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    supervisor, child = Path(place.pid).read_text().split("\n")
    assert alive(int(supervisor)) and alive(int(child))
    with connected(place) as client:
        assert client.status().pid == int(child)


# Stopping...


def test_kill_is_sigterm_to_the_group_and_gives_143(stage: Stage) -> None:
    place = stage.start("sh", "-c", "sleep 60 & echo $!; wait")
    with connected(place) as client:
        output = client.output(50)
        grandchild = int(next(output))
        client.kill()
        list(output)
        assert client.exit_code == 143
    until(lambda: not alive(grandchild))


def test_kill_without_the_group_spares_what_runs_beside_it(stage: Stage) -> None:
    place = stage.start(
        "sh", "-c", "trap '' HUP; sleep 60 & trap - HUP; echo $!; wait", kill_process_group=False, linger=0.0
    )
    with connected(place) as client:
        output = client.output(50)
        grandchild = int(next(output).split()[0])
        client.kill()
        list(output)
    try:
        until(lambda: not os.path.exists(place.pid))
        assert alive(grandchild)
    finally:
        os.kill(grandchild, signal.SIGKILL)


def test_a_stopped_child_does_not_stop_us(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    child = place.pids()[1]
    stop(child)
    with connected(place) as client:
        for _ in range(3):
            assert client.status().alive == 1
        os.kill(child, signal.SIGKILL)
        until(lambda: not client.status().alive)


def test_stop_ends_a_child_that_is_stopped_and_one_that_ignores_sigterm(stage: Stage) -> None:
    place = stage.start("sh", "-c", "trap '' TERM HUP; echo ready; while :; do sleep 0.05; done")
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"])
        stop(place.pids()[1])
        report = client.stop(grace=0.3)
    assert report["code"] == 128 + signal.SIGKILL
    assert {entry["by"] for entry in report["ended"]} <= {"SIGKILL", "SIGHUP", "SIGTERM"}
    assert report["survivors"] == []


def test_stop_reaches_the_jobs_of_an_interactive_shell(stage: Stage) -> None:
    """Job control gives each job its own group, which a signal to the shell's group does not reach."""
    place = stage.start("bash", "--norc", "-i")
    with connected(place) as client:
        client.subscribe()
        client.input(b"sleep 61 & sleep 62 &\n")
        until(lambda: [job.name for job in table.descendants(place.pids()[1])] == ["sleep", "sleep"])
        report = client.stop(grace=5)
    assert [entry["name"] for entry in report["ended"]].count("sleep") == 2
    assert report["survivors"] == []


def test_what_the_program_leaves_behind_is_ended_when_it_ends(stage: Stage) -> None:
    up = stage.directory / "up"
    left = f"trap '' HUP TERM; sleep 60 & echo $!; : > {up}; wait"
    place = stage.start("sh", "-c", f'setsid -f sh -c "$0"; until [ -e {up} ]; do sleep 0.01; done', left)
    grandchild = int(watch(place)[0].split()[0])
    until(lambda: not alive(grandchild))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_ends_everything_in_order(stage: Stage, number: int) -> None:
    place = stage.start("sleep", "60")
    supervisor, child = place.pids()
    with connected(place) as client:
        client.subscribe()
        os.kill(supervisor, number)
        assert [message for message in client.messages(50)] == [wire.Exit(143)]
    until(lambda: not os.path.exists(place.pid))
    assert not alive(child) and not os.path.exists(place.sock)
    assert json.loads(Path(place.exit).read_text())["code"] == 143


# A full house...


def test_one_client_more_than_allowed_is_refused_and_the_others_stay(stage: Stage) -> None:
    place = stage.start("sleep", "60", clients_max=3)
    silent = [plain(place) for _ in range(9)]
    clients = [Client(place.sock) for _ in range(3)]
    assert all(client.status().alive for client in clients), "who says nothing gives way"
    for sock in silent:
        sock.close()
    with socket.socket(socket.AF_UNIX) as fourth:
        fourth.settimeout(50)
        fourth.connect(place.sock)
        assert fourth.recv(1) == b""
    assert all(client.status().alive for client in clients)
    for client in clients:
        client.close()
    until(lambda: _comes_in(place.sock))


def _comes_in(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(50)
        sock.connect(path)
        return sock.recv(1) == b"\0"


def test_running_out_of_descriptors_pauses_new_connections_and_burns_no_processor(stage: Stage) -> None:
    place = stage.start("bash", "-c", "sleep 60", clients_max=5000)
    supervisor = place.pids()[0]
    import resource

    used = len(os.listdir(f"/proc/{supervisor}/fd"))
    resource.prlimit(supervisor, resource.RLIMIT_NOFILE, (used + 3, used + 3))
    socks = []
    for _ in range(8):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(place.sock)
        socks.append(sock)
    until(lambda: any(line["event"] == "cannot accept" for line in log_lines(place)))
    before = _cpu(supervisor)
    time.sleep(0.5)
    assert _cpu(supervisor) - before < 0.2
    for sock in socks:
        sock.close()
    with connected(place) as client:
        assert client.status().alive == 1


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# A person's terminal...


def test_an_attached_terminal_misses_nothing_however_slowly_it_reads(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read go; seq 1 400000")
    with connected(place) as person:
        person.hello(wire.IS_TERMINAL | wire.WANT_GAPS)
        person.subscribe()
        person.resize(80, 24)
        person.input(b"\n")
        with connected(place) as other:
            until(lambda: other.hello().end > 300_000)
            held = other.hello().end
            assert other.status().alive and held < 2_000_000  # the rest waits in the program
        output = b"".join(message.data for message in person.messages(50) if isinstance(message, wire.ProgramOutput))
    assert output.split() == [b"%d" % number for number in range(1, 400_001)]


@pytest.mark.slow
def test_a_program_is_not_held_up_for_ever_by_a_terminal_that_takes_nothing(stage: Stage) -> None:
    place = stage.start("sh", "-c", "read go; seq 1 300000; read x")
    with connected(place) as person, connected(place) as other:
        person.hello(wire.IS_TERMINAL)
        person.resize(80, 24)
        person.subscribe()
        person.input(b"\n")
        until(lambda: other.hello().end > 2_000_000)
        until(lambda: any(line["event"] == "a terminal takes no output" for line in log_lines(place)))


def test_a_program_is_told_where_its_cursor_really_is(stage: Stage) -> None:
    code = r"""
import os, tty
tty.setraw(0)
os.write(1, b"one\r\ntwo\r\n> \x1b[6n")
print("<", os.read(0, 100)[1:].decode(), ">", sep="", end="\r\n", flush=True)
"""
    output, _ = watch(stage.python(code))
    assert b"<[3;3R>" in output


GIVEN_UP = """\
import os, signal, sys
from treadle.io.process import reaper
from treadle.terminal.launch import launch
from treadle.terminal.settings import TerminalSettings

def kill(self):
    os.kill(self.root, signal.SIGKILL)
    return False  # as after five seconds in which nothing has died

reaper.Reaper.kill = kill
settings = TerminalSettings()
settings.id, settings.directory, settings.command = "x", sys.argv[1], ["sleep", "600"]
launch(settings)
"""


def test_a_program_that_dies_after_its_reaper_has_given_it_up_is_known_to_be_dead(stage: Stage) -> None:
    command = [sys.executable, "-c", GIVEN_UP, str(stage.directory)]
    subprocess.run(command, check=True, env={**os.environ, "TREADLE_WARM": "0"}, timeout=60)
    with Client(Place(str(stage.directory), "x").sock, timeout=60) as client:
        assert client.stop(0)["code"] == 137


# Without a program, in this process...


Alone = Callable[..., Supervisor]


def hang_up(supervisor: Supervisor) -> None:
    """The program closes its side."""
    os.close(supervisor.pty.slave)
    supervisor.pty.slave = -1


def draw(supervisor: Supervisor, text: bytes) -> None:
    os.write(supervisor.pty.slave, text)
    until(lambda: supervisor.state() and supervisor.scrollback.end >= len(text))


def events(supervisor: Supervisor) -> list[tuple[str, str]]:
    path = Path(supervisor.place.log)
    return [(line["level"], line["event"]) for line in log_lines(supervisor.place)] if path.exists() else []


def test_a_terminal_that_all_have_closed_is_read_again_later(alone: Alone) -> None:
    supervisor = alone()
    slave = os.ttyname(supervisor.pty.slave)
    hang_up(supervisor)
    assert supervisor._read_output() == 0 and supervisor.pty.hung_up and supervisor.loop.has("reopen")
    supervisor._watch_terminal()
    assert supervisor.pty.master not in supervisor.loop._acts
    supervisor.pty.slave = os.open(slave, os.O_RDWR | os.O_NOCTTY)
    supervisor._reopen()
    assert not supervisor.pty.hung_up and supervisor.loop._acts[supervisor.pty.master][0] == READ
    draw(supervisor, b"again")
    supervisor.held = True
    supervisor._watch_terminal()
    assert supervisor.pty.master not in supervisor.loop._acts, "held, and nothing to type"
    supervisor.loop.at("hold", 0.0, lambda: None)
    supervisor.read_on()
    assert supervisor.loop._acts[supervisor.pty.master][0] == READ and not supervisor.loop.has("hold")


def test_the_state_is_judged_by_all_that_was_written_unless_that_is_too_much(alone: Alone) -> None:
    supervisor = alone()
    os.write(supervisor.pty.slave, b"$ ")
    until(lambda: supervisor.state() and supervisor.scrollback.end == 2)
    assert not supervisor.watch.behind
    supervisor.held = True
    os.write(supervisor.pty.slave, b"more")
    supervisor.state()
    assert supervisor.watch.behind and supervisor.scrollback.end == 2


def test_files_that_were_removed_are_made_again_unless_another_has_the_id(alone: Alone) -> None:
    supervisor = alone()
    supervisor.pid = 77
    os.unlink(supervisor.place.sock)
    os.unlink(supervisor.place.pid)
    supervisor._signalled(bytes([signal.SIGUSR1]))
    assert os.path.exists(supervisor.place.sock) and supervisor.place.pids() == (os.getpid(), 77)
    again = [("warn", f"the {name} was removed, and is there again") for name in ("pid file", "socket")]
    assert events(supervisor) == again
    assert os.path.exists(supervisor.place.summary) and supervisor.loop.has("socket") and not supervisor.ending
    supervisor._look_at_socket()
    assert events(supervisor) == again, "nothing was removed"
    os.unlink(supervisor.place.sock)
    os.unlink(supervisor.place.pid)
    Path(supervisor.place.pid).write_text("1\n2")
    supervisor._look_at_socket()
    assert not os.path.exists(supervisor.place.sock) and events(supervisor) == again
