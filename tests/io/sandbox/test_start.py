"""Confined programs, judged by what they could do."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.io.sandbox.rooms import ENV, repository, room, sh, shown_place, vanishing_socket
from tests.machines import path_without
from treadle.errors import LocalError, NotFound
from treadle.io.process import table
from treadle.io.process.child import Child
from treadle.io.sandbox import bubblewrap, landlock, methods, start
from treadle.io.sandbox.places import activity
from treadle.session import Confinement, Mount

by_bubblewrap = methods.available().method == "bubblewrap"
pytestmark = pytest.mark.filterwarnings("error")
SWAP = """
import os, sys
work, outside = sys.argv[1:]
os.chdir(work)
while True:
    try:
        os.rename(".git", "real")
        os.symlink(outside, ".git")
        os.unlink(".git")
    except OSError:  # where it has just found nothing, bubblewrap makes an empty directory
        if os.path.isdir("real") and os.path.isdir(".git"):
            os.rmdir(".git")
    if os.path.isdir("real"):
        os.rename("real", ".git")
"""


async def test_only_the_workspace_can_be_written(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    (outside / "file").write_text("as it was")
    if methods.available().method is None:
        with pytest.raises(LocalError, match="cannot be created"):
            await sh(room(inside), "true", inside)
        return
    done = await sh(room(inside), f"echo x > here; echo x > {outside}/file; echo x > {outside}/new; true", inside)
    assert done.code == 0
    assert (inside / "here").read_text() == "x\n"
    assert (outside / "file").read_text() == "as it was" and os.listdir(outside) == ["file"]


async def test_what_is_shown_around_a_workspace_does_not_cover_it(method: None, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    (tmp_path / "program").write_text("")
    walls = msgspec.structs.replace(room(tmp_path / "work"), read_only=(str(tmp_path),))
    done = await sh(walls, "echo x > here; test -e ../program && ! echo x > ../program", tmp_path / "work")
    assert done.code == 0 and (tmp_path / "work" / "here").exists() and (tmp_path / "program").read_text() == ""


async def test_without_a_confinement_a_program_runs_as_it_is(tmp_path: Path) -> None:
    done = await sh(None, "echo x > ../there; exit 3", tmp_path)
    assert done.code == 3 and (tmp_path.parent / "there").exists()


async def test_a_program_that_is_not_there_is_an_error_and_not_an_exit_code(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no-such-program"):
        await start.start(room(tmp_path), ["no-such-program"], cwd=str(tmp_path), env=ENV)


@pytest.fixture(params=[*(["bubblewrap"] if by_bubblewrap else []), *(["landlock"] if not landlock.problem() else [])])
def method(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each available method, the second one as on a machine without the first."""
    if request.param == "landlock":
        monkeypatch.setenv("PATH", path_without("bwrap", tmp_path / "bin"))
    methods.available.cache_clear()
    assert methods.available().method == request.param
    yield
    methods.available.cache_clear()


async def test_asked_to_end_a_program_may_clean_up(method: None, tmp_path: Path) -> None:
    command = "trap 'echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    child = await start.start(room(tmp_path), ["bash", "-c", command], cwd=str(tmp_path), env=ENV)
    async with child, asyncio.timeout(60):
        assert await child.stdio.read() == b"up\n"
        await child.stop(30.0)
        assert await child.stdio.read() == b"cleaned\n"


async def test_a_writable_place_that_has_become_a_link_does_not_open_where_it_leads(
    method: None, tmp_path: Path
) -> None:
    """Trap: a program in the workspace has replaced `.git` by a link since the confinement was made."""
    workspace, outside = tmp_path / "w", tmp_path / "out"
    for place in (workspace / ".git" / "hooks", outside):
        place.mkdir(parents=True)
    walls = room(workspace)
    (workspace / ".git").rename(workspace / "real")
    (workspace / ".git").symlink_to(outside)
    await sh(walls, "echo x > .git/planted", workspace)
    assert os.listdir(outside) == []


if by_bubblewrap:
    # What only bubblewrap enforces. Where it does not work, `treadle doctor` and docs/explanation/safety.md say so.

    async def test_what_is_hidden_cannot_be_read_and_says_so_loudly(tmp_path: Path) -> None:
        (tmp_path / "secrets").mkdir()
        (tmp_path / "secrets" / "key").write_text("canary")
        (tmp_path / ".env").write_text("canary")
        hidden = (str(tmp_path / "secrets"), str(tmp_path / ".env"))
        done = await sh(room(tmp_path, hidden=hidden), "cat secrets/key; cat .env; ls -R; grep -r canary .", tmp_path)
        assert "canary" not in done.text.replace("grep -r canary", "")
        assert done.text.count("Permission denied") >= 2
        assert (tmp_path / ".env").read_text() == "canary"

    async def test_the_parent_of_a_hidden_file_cannot_be_moved_away(tmp_path: Path) -> None:
        (tmp_path / "a" / "b").mkdir(parents=True)
        (tmp_path / "a" / "b" / "key").write_text("canary")
        walls = room(tmp_path, hidden=(str(tmp_path / "a" / "b" / "key"),))
        done = await sh(walls, "mv a c; mv a/b a/d; mv a/b/key x; cat */*/key x", tmp_path)
        assert done.text.count("busy") == 2 and "canary" not in done.text

    async def test_what_is_mounted_over_a_place_is_seen_there_and_the_place_itself_is_untouched(tmp_path: Path) -> None:
        workspace, private = repository(tmp_path / "w"), tmp_path / "private"
        private.mkdir()
        (private / "pointer").write_text("ours")
        shown = (
            Mount(source=str(private), target=str(workspace / ".git"), write=True),
            Mount(source=str(private / "pointer"), target=str(workspace / "file.txt")),
            Mount(source=str(private), target="/run/treadle/deep/there"),
        )
        before = sorted(os.listdir(workspace / ".git"))
        tried = (
            "echo x > .git/new; cat file.txt /run/treadle/deep/there/pointer; echo x > file.txt; rm -rf .git;"
            "mv .git g; echo x > /run/treadle/deep/there/no; mv file.txt f"
        )
        done = await sh(room(workspace, read_only=(), mounts=shown), tried, workspace)
        assert done.text.startswith("oursours") and done.text.count("busy") == 3 and done.text.count("Read-only") == 2
        assert sorted(os.listdir(workspace / ".git")) == before and (workspace / "file.txt").read_text() == "one\n"

    async def test_a_protected_name_that_is_a_link_is_kept_where_it_leads(tmp_path: Path) -> None:
        """Trap: bubblewrap refuses to mount on a link, but unmounted, what editors and git act on would be open."""
        workspace, outside = tmp_path / "w", tmp_path / "out"
        for place in (workspace / "deep" / "editor", workspace / "git", outside):
            place.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", f"--separate-git-dir={workspace}/git", str(tmp_path / "made")], check=True)
        os.symlink("git", workspace / ".git")
        os.symlink("deep/editor", workspace / ".vscode")
        os.symlink(outside, workspace / ".claude")
        os.symlink("nowhere", workspace / ".envrc")
        config = (workspace / "git" / "config").read_bytes()
        tried = (
            "echo x > .vscode/tasks.json; echo x > deep/editor/tasks.json; mv deep d; echo x >> git/config;"
            "echo x >> .git/config; echo x > .git/hooks/post-commit; mv git g; echo x > .claude/settings.json; echo end"
        )
        done = await sh(room(workspace), tried, workspace)
        assert done.text.endswith("end\n")
        assert os.listdir(workspace / "deep" / "editor") == [] and os.listdir(outside) == []
        assert (workspace / "git" / "config").read_bytes() == config
        assert not (workspace / "git" / "hooks" / "post-commit").exists()

    @pytest.mark.slow
    async def test_a_place_that_is_swapped_while_the_sandbox_is_made_opens_nothing(tmp_path: Path) -> None:
        """Trap: a program in the workspace puts a link where something is about to be mounted writable."""
        workspace, outside = tmp_path / "w", tmp_path / "out"
        for place in (workspace / ".git" / "hooks", workspace / "secrets", outside / "hooks"):
            place.mkdir(parents=True)
        (workspace / "secrets" / "key").write_text("canary")
        swap = [sys.executable, "-I", "-S", "-c", SWAP, str(workspace), str(outside)]
        walls = room(workspace, hidden=(str(workspace / "secrets"),))
        began = refused = 0
        with subprocess.Popen(swap) as swapping:
            try:
                for _ in range(25):
                    try:
                        done = await sh(walls, "echo x > .git/planted; cat s*/key; echo began", workspace)
                    except LocalError:
                        refused += 1
                        continue
                    began += "began" in done.text
                    assert "canary" not in done.text
            finally:
                swapping.kill()
        assert sorted(os.listdir(outside)) == ["hooks"] and os.listdir(outside / "hooks") == []
        assert began + refused == 25

    async def test_no_name_is_left_in_the_workspace_by_the_sandbox_itself(tmp_path: Path) -> None:
        walls = room(tmp_path, hidden=(str(tmp_path / "not-there"),), read_only=(str(tmp_path / ".envrc"),))
        assert (await sh(walls, "true", tmp_path)).code == 0
        assert os.listdir(tmp_path) == []

    async def test_a_git_file_that_names_a_strange_place_makes_nothing_writable(tmp_path: Path) -> None:
        workspace, other = tmp_path / "w", tmp_path / "other"
        workspace.mkdir()
        other.mkdir()
        (workspace / ".git").write_text(f"gitdir: {other}\n")
        (other / "commondir").write_text(".\n")
        await sh(room(workspace), f"echo x > {other}/planted", workspace)
        assert not (other / "planted").exists()

    async def test_a_socket_that_vanishes_while_the_sandbox_is_made_does_no_harm(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        workspace = tmp_path / "w"
        workspace.mkdir()
        with vanishing_socket(tmp_path) as path:
            monkeypatch.setenv("PATH", path)
            assert (await sh(room(workspace), "exit 3", workspace)).code == 3

    async def test_only_the_three_standard_streams_are_open(tmp_path: Path) -> None:
        done = await sh(room(tmp_path), "ls /proc/self/fd /proc/1/fd", tmp_path)
        assert {word for word in done.text.split() if word.isdigit()} == {"0", "1", "2", "3"}  # 3: what ls reads

    @pytest.mark.parametrize("more", [{}, {"network": "off", "hosts": ("example.org",)}], ids=["plain", "relayed"])
    async def test_that_a_program_closes_its_output_is_seen_while_it_runs_on(
        tmp_path: Path, more: dict[str, Any]
    ) -> None:
        command = "grep SigIgn /proc/self/status; exec 1>&-; read line; exit 3"
        child = await start.start(
            room(tmp_path, **more), ["bash", "-c", command], cwd=str(tmp_path), env=ENV, stdin="pipe"
        )
        async with child, asyncio.timeout(60):
            said = b""
            while data := await child.stdio.read():
                said += data
            assert child.exit_code is None
            ignored = int(said.split()[1], 16)
            assert not ignored & (1 << signal.SIGINT - 1 | 1 << signal.SIGQUIT - 1)
            await child.stdio.write(b"go on\n")
            assert await child.wait() == 3

    async def test_what_a_command_leaves_running_is_gone_when_it_returns(tmp_path: Path) -> None:
        beats = "(trap '' TERM HUP; setsid sh -c 'while :; do date >> beat; done') >/dev/null 2>&1 & "
        command = beats + "until [ -s beat ]; do sleep 0.01; done"
        await sh(room(tmp_path), command, tmp_path)
        size = (tmp_path / "beat").stat().st_size
        assert size > 0
        await asyncio.sleep(0.1)
        assert (tmp_path / "beat").stat().st_size == size

    async def test_with_linger_what_is_under_way_is_finished_and_what_stays_is_named(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patient = bubblewrap.LINGER.replace("-lt 6 ]", "-lt 1200 ]")  # as long as a busy machine may need for it
            assert patient != bubblewrap.LINGER
            patch.setattr(bubblewrap, "LINGER", patient)
            done = await sh(room(tmp_path), "(sleep 0.1; echo late) & echo first", tmp_path, linger=True)
        assert done.text == "first\nlate\n"
        done = await sh(room(tmp_path), "sleep 60 & echo first", tmp_path, linger=True)
        assert "stopped what the command left running: sleep;" in done.text

    async def test_when_the_wrapper_is_killed_the_kernel_ends_everything_inside(tmp_path: Path) -> None:
        child = await start.start(
            room(tmp_path),
            ["bash", "-c", "setsid sleep 1000 & setsid sleep 1000 & echo up; wait"],
            cwd=str(tmp_path),
            env=ENV,
        )
        async with child, asyncio.timeout(60):
            assert await child.stdio.read() == b"up\n"
            inside = table.descendants(child.pid)
            assert len(inside) >= 3
            os.kill(child.pid, 9)
            await child.wait()
            while any(table.start_time(one.pid) == one.start for one in inside):
                await asyncio.sleep(0.01)

    async def test_the_environment_that_we_run_from_cannot_be_changed_in_the_workspace(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Changed code would run outside the sandbox, as we do."""
        (tmp_path / ".venv" / "bin").mkdir(parents=True)
        (tmp_path / ".venv" / "bin" / "python").write_text("as it was")
        monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
        done = await sh(room(tmp_path), "echo evil > .venv/bin/python; mv .venv v2; echo x > here", tmp_path)
        assert (tmp_path / ".venv" / "bin" / "python").read_text() == "as it was", done
        assert (tmp_path / "here").exists()

    async def test_a_wrapper_that_lies_in_the_workspace_is_never_run(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As in a project's activated environment, which comes first on PATH and which a command can write to."""
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "bwrap").write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / "bin" / "bwrap").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
        assert (await sh(room(tmp_path), "echo confined", tmp_path)).text == "confined\n"
        assert not (tmp_path / "ran").exists()

    async def test_a_program_lives_on_when_the_thread_that_started_it_has_ended(tmp_path: Path) -> None:
        """A wrapper that dies with its parent dies with the thread that forked it, and our reaper has no threads."""
        command = "until [ -e go ]; do sleep 0.01; done; echo done > here"
        made: list[Child] = []

        async def begin() -> None:
            made.append(
                await start.start(room(tmp_path), ["sh", "-c", command], cwd=str(tmp_path), env=ENV, stdout=None)
            )

        thread = threading.Thread(target=lambda: asyncio.run(begin()))
        thread.start()
        await asyncio.to_thread(thread.join)
        try:
            (tmp_path / "go").touch()
            async with asyncio.timeout(60):
                while not (tmp_path / "here").exists():
                    await asyncio.sleep(0.01)
        finally:
            made[0].tree.stop()
            made[0].close()

    async def test_a_first_process_that_was_stopped_from_inside_cannot_hang_us(tmp_path: Path) -> None:
        child = await start.start(room(tmp_path), ["bash", "-c", "echo up; sleep 1000"], cwd=str(tmp_path), env=ENV)
        async with child, asyncio.timeout(60):
            assert await child.stdio.read() == b"up\n"
            first = table.descendants(child.pid)[0]
            os.kill(first.pid, 19)
            report = await child.stop(0.2)
        assert not report.left and report.confirmed

    async def test_a_wrapper_that_confines_nothing_is_found_out_before_the_command_begins(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        liar, workspace = tmp_path / "bwrap", tmp_path / "w"
        workspace.mkdir()
        liar.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; "$@"; exit $?\n')
        liar.chmod(0o755)
        methods.available()  # by the real one, which someone then replaces
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        with pytest.raises(LocalError, match="is incomplete"):
            await sh(room(workspace), "touch ran", workspace)
        assert not (workspace / "ran").exists()

    async def test_a_sandbox_that_cannot_be_made_says_why(tmp_path: Path) -> None:
        walls = Confinement(write=(str(tmp_path),), temp=str(tmp_path / "not-there"))
        with pytest.raises(LocalError, match="cannot be created: No such file"):
            await sh(walls, "true", tmp_path)

    async def test_processes_are_apart_and_may_do_nothing_special(tmp_path: Path) -> None:
        spaces = [f"/proc/self/ns/{name}" for name in ("pid", "ipc", "uts", "mnt")]
        tried = f"readlink {' '.join(spaces)}; grep CapEff /proc/self/status; touch own; chmod 4755 own"
        done = await sh(room(tmp_path), tried, tmp_path)
        said = done.text.splitlines()
        assert not {*said} & {os.readlink(space) for space in spaces} and int(said[4].split()[1], 16) == 0
        assert "not permitted" in said[5], "the filter of system calls holds"

    async def test_our_own_state_is_empty_or_the_given_one_and_never_the_real_one(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work, given = tmp_path / "w", tmp_path / "given"
        work.mkdir()
        given.mkdir()
        with tempfile.TemporaryDirectory(dir=shown_place()) as home:
            state = Path(home, "treadle")
            state.mkdir()
            (state / "config.toml").write_text("canary")
            monkeypatch.setenv("TREADLE_HOME", str(state))
            tried = f"cat {state}/*; echo x > {state}/new"
            for walls in (room(work), room(work, state=str(given)), room(work, write=(str(work), home))):
                assert "canary" not in (await sh(walls, tried, work)).text and not (state / "new").exists()
        assert (given / "new").read_text() == "x\n"

    async def test_root_can_work_in_the_workspace_of_another_user(tmp_path: Path) -> None:
        if os.geteuid() == 0:
            os.chown(tmp_path, 65534, 65534)
        done = await sh(
            room(tmp_path),
            "touch made; for f in /proc/sys/kernel/core_pattern /etc/passwd; do (exec 9>>$f) && echo open; done",
            tmp_path,
        )
        assert (tmp_path / "made").exists() and "open" not in done.text.split()

    @pytest.fixture
    async def inside(tmp_path: Path) -> AsyncIterator[tuple[int, bubblewrap.Mounts]]:
        """The first process of a sandbox, and what is mounted in it."""
        repository(tmp_path)
        for name in ("secrets", "open", "elsewhere"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "file").touch()
        hidden = (str(tmp_path / "secrets"), str(tmp_path / "open" / "file"))
        walls = room(tmp_path, hidden=hidden)
        mounts = bubblewrap.Mounts(walls)
        child = await start.start(walls, ["bash", "-c", "echo up; read end"], cwd=str(tmp_path), env=ENV, stdin="pipe")
        async with child:
            assert await child.stdio.read() == b"up\n"
            yield table.descendants(child.pid)[0].pid, mounts

    def test_what_is_as_it_was_meant_is_fine(inside: tuple[int, bubblewrap.Mounts]) -> None:
        start.check(*inside)

    @pytest.mark.parametrize("kind", ["read_only", "hidden"])
    @pytest.mark.parametrize("name", ["elsewhere", "elsewhere/file", "file.txt"])
    def test_what_can_be_written_or_seen_and_should_not_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, kind: str, name: str
    ) -> None:
        first, mounts = inside
        getattr(mounts, kind).append(str(tmp_path / name))
        with pytest.raises(LocalError, match=f"is incomplete: {tmp_path}/{name} was moved"):
            start.check(first, mounts)

    @pytest.mark.parametrize("name", [".git"])
    def test_another_file_of_the_same_name_is_found(
        inside: tuple[int, bubblewrap.Mounts], tmp_path: Path, name: str
    ) -> None:
        """Outside the sandbox a mount point can be renamed, and the mount goes with it."""
        os.rename(tmp_path / name, tmp_path / "old")
        os.symlink(tmp_path / "old", tmp_path / name)
        with pytest.raises(LocalError, match="was moved"):
            start.check(*inside)


async def test_programs_are_counted_by_the_places_that_they_may_write(tmp_path: Path) -> None:
    places = [str(tmp_path)]
    before, running = activity(places)
    assert not running
    async with await start.start(room(tmp_path), ["cat"], cwd=str(tmp_path), env=ENV, stdin="pipe") as child:
        assert activity(places) == (before + 1, True) and activity(["/elsewhere"]) == (0, False)
        await child.stop(0)
    assert activity(places) == (before + 1, False)
