"""Our additions: who a client is, what it wants, whose size counts, who answers the program's queries."""

import os
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests import another_user
from tests.terminal.support import WAIT, Stage, connected, log_lines, plain, receive_frame, until
from treadle.errors import NotFound
from treadle.terminal.client import Client
from treadle.terminal.places import Place
from treadle.wire.terminal import frames as wire


def terminal(stack: ExitStack, path: str, size: tuple[int, int]) -> Client:
    client = stack.enter_context(Client(path))
    client.hello(wire.IS_TERMINAL)
    client.resize(*size)
    client.subscribe()
    client.status()
    return client


def size_of(client: Client) -> tuple[int, int]:
    found = client.detail()["size"]
    return found["cols"], found["rows"]


@pytest.mark.parametrize(
    ("policy", "both", "typed", "left"),
    [
        ("latest", (80, 60), (200, 24), (80, 60)),
        ("smallest", (80, 24), (80, 24), (80, 60)),
        ("leader", (200, 24), (200, 24), (80, 60)),
        ("fixed", (100, 50), (100, 50), (100, 50)),
    ],
)
def test_the_policy_decides_whose_size_counts(
    stage: Stage, policy: str, both: tuple[int, int], typed: tuple[int, int], left: tuple[int, int]
) -> None:
    place = stage.start("cat", resize_policy=policy, cols=100, rows=50)
    with ExitStack() as stack, connected(place) as asker:
        first = terminal(stack, place.sock, (200, 24))
        second = terminal(stack, place.sock, (80, 60))
        assert size_of(asker) == both
        first.input(b"x")
        first.status()
        assert size_of(asker) == typed
        first.close()
        until(lambda: sum(bool(entry["terminal"]) for entry in asker.detail()["clients"]) == 1)
        assert size_of(asker) == left
        second.status()


def test_an_order_to_resize_is_obeyed_also_when_the_size_is_fixed(stage: Stage) -> None:
    place = stage.start("sleep", "60", resize_policy="fixed")
    with connected(place) as client:
        client.hello()
        client.resize(77, 33)
        assert size_of(client) == (77, 33)


FULL_SCREEN = """
import os, signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGWINCH])
print(chr(27) + "[?1049h", flush=True)
while signal.sigwait([signal.SIGWINCH]):
    print("%d x %d" % os.get_terminal_size(), flush=True)
"""


def test_two_who_come_at_once_leave_a_full_screen_program_its_size(stage: Stage) -> None:
    place = stage.python(FULL_SCREEN, resize_policy="fixed", cols=100, rows=50)
    with ExitStack() as stack, connected(place) as watcher:
        watcher.subscribe()
        until(lambda: watcher.detail()["modes"]["alternate"])
        both = [stack.enter_context(Client(place.sock)) for _ in range(2)]
        for client in both:
            client.hello(wire.IS_TERMINAL)
        for client in both:
            client.subscribe()
        seen = b""
        for message in watcher.messages(60):
            seen += message.data if isinstance(message, wire.ProgramOutput) else b""
            if seen.endswith(b"100 x 50\r\n"):
                break
        assert size_of(both[0]) == (100, 50)


def test_one_leads_and_the_next_is_told_when_he_leaves(stage: Stage) -> None:
    place = stage.start("cat")
    with ExitStack() as stack:
        first = terminal(stack, place.sock, (80, 24))
        second = terminal(stack, place.sock, (80, 24))
        assert [message for message in first.waiting() if isinstance(message, wire.Leader)] == [wire.Leader(1)]
        assert wire.Leader(1) not in second.waiting()
        first.close()
        assert next(message for message in second.messages(50) if isinstance(message, wire.Leader)) == wire.Leader(1)


def test_one_who_only_watches_can_do_nothing(stage: Stage) -> None:
    place = stage.start("cat")
    with connected(place) as client:
        client.hello(wire.READ_ONLY)
        client.input(b"forbidden\n")
        assert client.type_in(b"x", wire.ANYWAY)["why"] == client.prompt(b"x", wire.AT_ANY_TIME)["why"] == "read only"
        client.resize(11, 11)
        client.kill()
        client.send(wire.Stop(0))
        assert client.status().alive == 1
        assert size_of(client) == (220, 50)
        assert client.detail()["output"]["end"] == 0


def test_output_is_given_from_an_offset_on_and_what_is_gone_is_told(stage: Stage) -> None:
    place = stage.start("sh", "-c", "printf 0123456789; read x", scrollback_bytes=4)
    with connected(place) as asker:
        until(lambda: asker.detail()["output"]["end"] == 10)
    for start, expected in ((7, b"789"), (10, b""), (99, b"")):
        with connected(place) as client:
            assert client.hello(wire.FROM, start).end == 10
            client.subscribe()
            client.status()
            found = client.waiting()
            assert b"".join(m.data for m in found if isinstance(m, wire.ProgramOutput)) == expected
            assert not [m for m in found if isinstance(m, wire.Gap)], "it has not asked for them"
    with connected(place) as client:
        client.hello(wire.FROM | wire.WANT_GAPS, 0)
        client.subscribe()
        client.status()
        found = client.waiting()
        assert b"".join(m.data for m in found if isinstance(m, wire.ProgramOutput)) == b"0123456789"
        assert not [m for m in found if isinstance(m, wire.Gap)], "nothing is gone"


@pytest.mark.skipif(not another_user.ROOT, reason=another_user.REASON)
def test_another_user_is_refused_even_where_the_files_would_let_him(stage: Stage) -> None:
    """And takes no one's place."""
    place = stage.start("sleep", "60", clients_max=1)
    with connected(place) as silent:
        subprocess.run(another_user.connecting(place.sock), check=True, timeout=60)
        until(
            lambda: any(
                line["event"] == "refused a connection" and line["uid"] == another_user.UID for line in log_lines(place)
            )
        )
        assert silent.status().alive == 1


def test_nothing_unasked_is_sent_to_a_client_of_the_plain_protocol(stage: Stage) -> None:
    place = stage.start("sh", "-c", "printf '\\033]7501;state=working:app=x\\007'; read x; exit 3")
    with plain(place) as sock, connected(place) as other:
        sock.sendall(b"\x02\x00\x00\x00\x00")
        other.hello(wire.WANT_STATES | wire.WANT_SIZES | wire.IS_TERMINAL)
        other.resize(50, 50)
        other.input(b"\n")
        kinds = set()
        while (kind := receive_frame(sock)[0]) != 0x83:
            kinds.add(kind)
        assert kinds <= {0x81}


def test_changes_of_size_are_told_to_who_asked(stage: Stage) -> None:
    place = stage.start("sleep", "60")
    with connected(place) as watcher, connected(place) as other:
        watcher.hello(wire.WANT_SIZES)
        other.resize(61, 16)
        assert next(watcher.messages(50)) == wire.Size(61, 16)


def test_a_question_of_the_program_is_left_to_the_leaders_terminal(stage: Stage) -> None:
    code = "import os,tty\ntty.setraw(0)\nprint('ready')\nos.read(0,1)\nos.write(1,b'\\x1b[c\\x1b]7501;?\\x07')\n"
    code += "print('heard', os.read(0,99))"
    place = stage.python(code)
    with ExitStack() as stack:
        client = terminal(stack, place.sock, (80, 24))
        output, pressed = b"", False
        for message in client.messages(50):
            output += message.data if isinstance(message, wire.ProgramOutput) else b""
            if b"ready" in output and not pressed:  # once: what it reads next must be the answer
                client.input(b"x")
                pressed = True
    assert b"7501;?" in output.split(b"heard")[1]
    assert b"?62;22c" not in output


def test_orders_that_the_protocol_does_not_have_are_not_taken_from_one_who_has_not_said_hello(stage: Stage) -> None:
    place = stage.start("cat")
    with connected(place) as client:
        client.send(wire.Type(wire.ANYWAY, b"typed by mistake\n"))
        client.send(wire.Stop(0))
        client.input(b"meant\n")
        client.subscribe()
        seen = b""
        for message in client.messages(50):
            seen += message.data if isinstance(message, wire.ProgramOutput) else b""
            if seen.count(b"meant") == 2:
                break
        assert b"mistake" not in seen and client.status().alive == 1
        assert client.detail()["id"] == place.id


def test_no_status_of_a_living_program_is_without_its_pid(stage: Stage) -> None:
    """Connected before the program runs, as by a client that waits for the socket."""
    for number in range(5):
        path = Place(str(stage.directory), f"early{number}").sock
        with ThreadPoolExecutor(1) as pool:
            asked = pool.submit(early_status, path)
            stage.start("sleep", "60", id=f"early{number}")
            assert asked.result(WAIT).pid > 0


def early_status(path: str) -> wire.StatusReply:
    client = until(lambda: connect_early(path))
    with client:
        reply: wire.StatusReply = client.status()
        return reply


def connect_early(path: str) -> Client | None:
    try:
        return Client(path, timeout=WAIT)
    except NotFound:  # it is not there yet, or does not listen yet
        return None


def logged(place: Place, event: str) -> list[dict[str, Any]]:
    return [line for line in log_lines(place) if line["event"] == event]


def test_an_ended_program_gets_nothing_typed_and_is_ended_again_without_a_word(stage: Stage) -> None:
    place = stage.start("sh", "-c", "exit 3", linger=60.0)
    until(lambda: os.path.exists(place.exit))
    with connected(place) as client:
        assert client.type_in(b"x", wire.ANYWAY)["why"] == "dead" and client.status().alive == 0
        assert client.stop(5) == {"code": 3, "ended": [], "survivors": [], "unseen": False}
    until(lambda: not os.path.exists(place.pid))
    assert not os.path.exists(place.sock)


def test_a_state_is_told_at_once_and_again_only_when_it_has_changed(stage: Stage) -> None:
    report = r"printf '\033]7501;state=%s\007' "
    place = stage.start(
        "sh", "-c", f"stty -echo; {report}working; read a; {report}working; read a; {report}blocked; cat"
    )
    with connected(place) as client, connected(place) as late:
        client.hello(wire.WANT_STATES)
        names = (message.body["name"] for message in client.messages(WAIT) if isinstance(message, wire.StateFrame))
        assert next(name for name in names if name != "starting") == "thinking"
        client.input(b"\n\n")
        assert next(names) == "permission"
        late.hello(wire.WANT_STATES)
        told = next(message for message in late.messages(WAIT) if isinstance(message, wire.StateFrame))
        assert told.body["name"] == "permission", "who comes later is told list orders"


def test_who_subscribes_twice_gets_everything_once(stage: Stage) -> None:
    place = stage.start("sh", "-c", "stty -echo; printf old; read a; printf new; exit 0")
    with connected(place) as client:
        until(lambda: client.detail()["output"]["end"] == 3)
        for _ in range(2):
            client.subscribe()
        client.input(b"\n")
        assert b"".join(m.data for m in client.messages(WAIT) if isinstance(m, wire.ProgramOutput)) == b"oldnew"


@pytest.mark.parametrize(
    ("policy", "alone", "beside"), [("latest", True, True), ("smallest", True, False), ("fixed", False, False)]
)
def test_a_size_from_one_who_has_not_subscribed_counts_by_the_policy(
    stage: Stage, policy: str, alone: bool, beside: bool
) -> None:
    place = stage.start("cat", resize_policy=policy, cols=100, rows=50)
    with ExitStack() as stack, connected(place) as asker, plain(place) as other:
        other.sendall(wire.encode(wire.Resize(61, 16)) + wire.encode(wire.StatusQuestion()))
        receive_frame(other)
        assert (size_of(asker) == (61, 16)) is alone
        terminal(stack, place.sock, (90, 30))
        other.sendall(wire.encode(wire.Resize(62, 17)) + wire.encode(wire.StatusQuestion()))
        receive_frame(other)
        assert (size_of(asker) == (62, 17)) is beside


def test_a_removed_socket_is_made_again_for_new_clients_and_those_who_are_there_stay(stage: Stage) -> None:
    place = stage.start("cat")
    with connected(place) as client:
        os.unlink(place.sock)
        os.kill(place.pids()[0], signal.SIGUSR1)
        until(lambda: os.path.exists(place.sock))
        with connected(place) as other:
            assert len(other.detail()["clients"]) == 2 and client.status().alive == 1
        assert len(logged(place, "the socket was removed, and is there again")) == 1
        os.kill(place.pids()[0], signal.SIGUSR1)
