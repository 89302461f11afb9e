"""The private server: one for each store, found again, and never two."""

import os
import signal
from pathlib import Path

import msgspec
import pytest

from tests.fleet.conftest import await_gone, make_fleet
from treadle.errors import ConfigError, LocalError, NotFound
from treadle.fleet.engine import layout, places, server
from treadle.fleet.engine.bus import Bus
from treadle.io.process import table


def test_the_server_is_found_and_its_version_is_checked() -> None:
    found = server.find_program()
    assert os.access(found.path, os.X_OK) and found.source in ("PATH", "wheel")
    assert tuple(map(int, found.version.split(".")[:2])) >= server.VERSION


def test_its_port_is_none_that_another_program_gets_by_chance() -> None:
    """A port of the kernel's own choice may be any connection's by the time the server listens."""
    first = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    ports = {server.free_port() for _ in range(50)}
    assert len(ports) > 40 and all(server.FIRST_PORT <= port < first for port in ports)


async def test_two_servers_never_share_a_store(fleet: places.Fleet) -> None:
    first = server.running()
    assert server.start(fleet) is False
    assert server.running() == first and server.is_up()


async def test_the_lock_is_held_by_the_server_itself_and_is_free_when_that_was_killed(fleet: places.Fleet) -> None:
    found = server.running()
    assert found is not None
    process = table.look(found.pid)
    assert process is not None
    table.send(process, signal.SIGKILL)
    await_gone(found.pid)
    assert not server.is_up() and server.running() is None
    assert server.start(fleet) is True
    bus = await server.await_ready(fleet)
    await bus.close()


async def test_what_was_acknowledged_is_there_after_kill_9(fleet: places.Fleet, bus: Bus) -> None:
    revision = await bus.put("order.a", b"1", expect=0)
    found = server.running()
    assert found is not None
    os.kill(found.pid, signal.SIGKILL)
    await_gone(found.pid)
    server.start(fleet)
    again = await server.await_ready(fleet)
    entry = await again.get("order.a")
    await again.close()
    assert entry is not None and (entry.value, entry.revision) == (b"1", revision)


async def test_stopping_leaves_no_process_and_a_free_store(fleet: places.Fleet) -> None:
    found = server.running()
    assert found is not None and server.stop()
    assert not server.is_up() and not server.stop()


async def test_it_runs_without_the_keys_of_who_started_it(fleet: places.Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    server.stop()
    for name in ("ANTHROPIC_API_KEY", "SOME_TOKEN", "DATABASE_URL"):
        monkeypatch.setenv(name, "canary")
    server.start(fleet)
    bus = await server.await_ready(fleet)
    await bus.close()
    found = server.running()
    assert found is not None and b"canary" not in Path(f"/proc/{found.pid}/environ").read_bytes()


async def test_a_server_that_cannot_start_says_why(state_home: object) -> None:
    made = make_fleet()
    port = made.url.rpartition(":")[2]
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", int(port)))
        taken.listen()
        server.start(made)
        with pytest.raises(LocalError, match="does not start"):
            await server.await_ready(made, seconds=5)


async def test_streams_are_there_after_a_second_start_with_the_same_settings(fleet: places.Fleet, bus: Bus) -> None:
    await layout.ensure(bus, lease=fleet.lease)
    assert server.disk_used() > 0


async def test_a_reload_lets_new_users_in_and_keeps_who_is_connected(fleet: places.Fleet, bus: Bus) -> None:
    import msgspec

    more = msgspec.structs.replace(fleet, users={**fleet.users, "worker:n2": "new"})
    server.configure(more)
    server.reload()
    joined = await server.await_ready(more, "worker:n2")
    await joined.close()
    assert await bus.api("INFO")


def script(place: Path, says: str) -> Path:
    place.mkdir(exist_ok=True)
    program = place / "nats-server"
    program.write_text(f"#!/bin/sh\necho '{says}'\n")
    program.chmod(0o755)
    return program


def test_the_newest_enough_program_is_taken_from_the_path_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, wheel = tmp_path / "path", tmp_path / "wheel"
    monkeypatch.setenv("PATH", str(here))
    monkeypatch.setattr(server.sys, "executable", str(wheel / "python"))
    with pytest.raises(NotFound, match="there is no nats-server on this machine") as missing:
        server.find_program()
    assert missing.value.hint == "pip install 'treadle[fleet]' brings one"
    script(wheel, "nats-server: v2.12.3")
    assert server.find_program() == (str(wheel / "nats-server"), "2.12.3", "wheel")
    for old in ("nats-server: v2.11.9", "nats-server: v1.20.0", "nats-server: vnext", "nothing"):
        script(here, old)
        assert server.find_program().source == "wheel", old
    for new in ("nats-server: v2.12.0", "nats-server: v3.0.1"):
        script(here, new)
        assert server.find_program() == (str(here / "nats-server"), new.rpartition("v")[2], "PATH")
    (here / "nats-server").unlink()
    (here / "nats-server").symlink_to(wheel / "nats-server")
    assert server.find_program().source == "wheel"
    script(wheel, "nats-server: v2.11.9")
    with pytest.raises(ConfigError, match="says it is 'nats-server: v2.11.9'; 2.12 or newer is needed"):
        server.find_program()
    (wheel / "nats-server").chmod(0o644)
    with pytest.raises(NotFound):
        server.find_program()


def test_disk_is_counted_as_it_is_taken(state_home: Path) -> None:
    assert server.disk_used() == 0
    store = Path(server.directory(), "js", "deep")
    store.mkdir(parents=True)
    (store / "block").write_bytes(b"x" * 8192)
    (store.parent / "other").write_bytes(b"x" * 4096)
    assert server.disk_used() >= 12288


def test_a_user_that_is_never_taken_is_told_and_no_server_takes_any(state_home: Path) -> None:
    made = make_fleet()
    with pytest.raises(LocalError, match="does not accept its new users") as refused:
        server.await_user(made, "admin", 0.05)
    assert refused.value.hint == f"see {server.directory()}/server.log"


async def test_only_a_user_with_its_password_is_taken(fleet: places.Fleet) -> None:
    server.await_user(fleet, "admin", 60)
    wrong = msgspec.structs.replace(fleet, users={"admin": "wrong"})
    with pytest.raises(LocalError):
        server.await_user(wrong, "admin", 0.2)
    found = server.running()
    assert found is not None and found.version == server.find_program().version and found.started > 1e9
    assert os.stat(Path(server.directory(), "server.conf")).st_mode & 0o077 == 0
