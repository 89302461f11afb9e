"""What a confined program may use, tried with programs that use more.

The kernel of the machine decides whether memory can be limited; where it cannot, that is what the test sees.
"""

import os
import subprocess
import sys
import types
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.io.process.test_keepers import made
from tests.io.sandbox.rooms import ENV, needs_bubblewrap, needs_sandbox, room, writing_counts
from tests.safety import as_nobody
from treadle.confinement import ResourceLimits
from treadle.errors import LocalError
from treadle.io.process import cgroup
from treadle.io.sandbox import limits
from treadle.io.sandbox.start import start

MANY = "dash -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do sleep 60 & done'"
"""Without bash, which tries to fork again for 15 s."""
GREEDY = "b = bytearray(400 << 20)\nprint('had it')"


def divisible() -> Path | None:
    """A cgroup in which groups can have limits. The kernel's older interface has the same files for processes."""
    for place in (made(), *([Path("/sys/fs/cgroup/pids")] if os.geteuid() == 0 else [])):
        controllers = place / "cgroup.controllers" if place is not None else Path("/")
        if controllers.is_file() and "pids" in controllers.read_text().split():
            (controllers.parent / "cgroup.subtree_control").write_text("+pids +memory")
            return place
        if place is not None and place.name.startswith("treadle_test_"):
            place.rmdir()
        elif place is not None and place.is_dir():
            inner = place / f"treadle_test_{uuid.uuid4().hex}"
            inner.mkdir()
            return inner
    return None


@pytest.fixture
def base(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path | None]:
    """Groups of programs are made here; None where this machine lets us make none."""
    place = divisible()
    # Replaced, because a group of the kernel's older interface, where the controllers may be, is never given to us.
    monkeypatch.setattr(limits, "divided", lambda: str(place) if place is not None else None)
    try:
        yield place
    finally:
        if place is not None:
            assert [one.name for one in place.iterdir() if one.is_dir()] == []  # each was removed with its program
            place.rmdir()


async def tried(tmp_path: Path, command: str, **allowed: int) -> tuple[int, str, str]:
    """The exit code, what it printed, and which limit it came up to."""
    walls = room(tmp_path, limits=ResourceLimits(**allowed))
    async with await start(walls, ["bash", "-c", command], cwd=str(tmp_path), env=ENV, stderr="stdout") as child:
        said = b""
        while data := await child.stdio.read():
            said += data
        code = await child.wait()
        await child.stop(0)
        return code, said.decode(), child.exceeded(said.decode() if code else "")


@needs_sandbox
async def test_a_limit_that_someone_set_and_that_cannot_be_enforced_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "divided", lambda: None)
    with pytest.raises(
        LocalError, match="a limit of memory was set and cannot be enforced: no cgroup is ours"
    ) as refused:
        await tried(tmp_path, "true", memory=1 << 30)
    assert "remove it from [sandbox]" in refused.value.hint
    assert (await tried(tmp_path, "true"))[0] == 0 == (await tried(tmp_path, "true", memory=0))[0]


@needs_sandbox
async def test_a_group_limits_the_processes_of_a_command(base: Path | None, tmp_path: Path) -> None:
    if base is None:
        assert limits.unlimited(ResourceLimits(), namespace=False)
        return
    code, said, exceeded = await tried(tmp_path, MANY, processes=20)
    assert code != 0 and "Cannot fork" in said
    assert exceeded == "it was refused another process: it had 20 of them and of threads"
    assert (await tried(tmp_path, "for i in $(seq 10); do sleep 0 & done; wait", processes=20)) == (0, "", "")


@needs_sandbox
async def test_a_group_limits_the_memory_of_a_command(base: Path | None, tmp_path: Path) -> None:
    if base is None or not (base / "memory.max").exists():
        assert limits.divided() is not None or "memory" in limits.unlimited(ResourceLimits(), namespace=True)[0]
        return
    greedy = f'{sys.executable} -c "{GREEDY}"; echo $?'
    code, said, exceeded = await tried(tmp_path, greedy, memory=100 << 20)
    assert (code, said.splitlines()[-1]) == (0, "137") and "had it" not in said.splitlines()
    assert exceeded == "the kernel ended the process that had most: it used more than 100 MB of memory"
    assert await tried(tmp_path, greedy) == (0, "had it\n0\n", "")


@needs_sandbox
async def test_a_limit_of_zero_is_none(base: Path | None, tmp_path: Path) -> None:
    if base is None:
        return
    command = "cat /proc/self/cgroup"
    _, said, _ = await tried(tmp_path, command, processes=0, memory=0)
    assert cgroup.LIMITED in said
    group = limits.LimitedGroup(str(base), ResourceLimits(processes=0, memory=0))
    try:
        assert Path(group.path, "pids.max").read_text() == "max\n" and group.processes == group.memory == 0
    finally:
        group.close()


@needs_bubblewrap
def test_without_a_group_the_processes_of_an_ordinary_user_are_limited_all_the_same(tmp_path: Path) -> None:
    """In the user namespace of that command: what else this user runs does not count."""
    with as_nobody.room() as base:
        walls = room(base, limits=ResourceLimits(processes=20))
        user = as_nobody.NO_ID if os.geteuid() == 0 else None
        others = [subprocess.Popen(["sleep", "60"], user=user) for _ in range(25)]
        try:
            argv = as_nobody.argv(walls, f"ulimit -u; true & wait; echo ran; {MANY}", base)
            done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        finally:
            for one in others:
                one.kill()
                one.wait()
    assert done.stdout.startswith("20\nran\n") and "Cannot fork" in done.stdout, done


def test_what_programs_say_about_a_refused_process_is_known() -> None:
    said = ["bash: fork: retry: Resource temporarily unavailable", "dash: 1: Cannot fork"]
    said += ["RuntimeError: can't start new thread"]
    said += ["java.lang.OutOfMemoryError: unable to create native thread", "Error: spawn /bin/ls EAGAIN"]
    assert all(map(limits.NO_FORK.search, said))
    assert not limits.NO_FORK.search("read: Resource temporarily unavailable\nforked")


@writing_counts
async def test_a_command_that_writes_more_than_it_may_is_stopped(tmp_path: Path) -> None:
    # In processes of their own that have ended, as those of a build.
    command = "for i in $(seq 40); do head -c 5M /dev/zero > $i; sync $i; done; sleep 60"
    code, _, exceeded = await tried(tmp_path, command, disk=50 << 20)
    assert code != 0 and exceeded.startswith("stopped: it had written ") and exceeded.endswith(", more than 50 MB")


@needs_sandbox
@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a small disk")
async def test_a_command_that_fills_the_disk_is_stopped_while_some_is_left(tmp_path: Path) -> None:
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", str(tmp_path)], check=True)
    try:
        code, _, exceeded = await tried(tmp_path, "fallocate -l 60M x; sleep 60")
        assert code != 0 and exceeded.startswith("stopped: ") and f"are left on the disk of {tmp_path}, " in exceeded
        assert exceeded.endswith("less than when it began")
        (tmp_path / "x").unlink()
        assert await tried(tmp_path, "fallocate -l 40M x; sleep 0.5") == (0, "", "")
        (tmp_path / "x").unlink()
        assert await tried(tmp_path, "fallocate -l 60M x; sleep 0.5", disk=0) == (0, "", "")
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def group(base: Path, **allowed: int) -> limits.LimitedGroup:
    return limits.LimitedGroup(str(base), ResourceLimits(**allowed))


def test_a_group_has_the_limits_that_its_files_can_hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With ordinary files in the place of the kernel's."""
    bare = group(tmp_path)
    assert (bare.memory, bare.processes, bare.exceeded()) == (0, 0, "") and os.listdir(bare.path) == []
    assert os.path.basename(bare.path).startswith(f"{cgroup.LIMITED}{os.getpid()}-")
    bare.close()
    assert not os.path.exists(bare.path)
    usual = os.mkdir

    def made(path: str, mode: int = 0o777) -> None:
        usual(path, mode)
        for name in ("memory.max", "memory.swap.max", "pids.max", "cgroup.procs", "cgroup.kill"):
            Path(path, name).touch()

    monkeypatch.setattr(os, "mkdir", made)

    def files(one: limits.LimitedGroup) -> list[str]:
        return [Path(one.path, name).read_text() for name in ("memory.max", "memory.swap.max", "pids.max")]

    one = group(tmp_path, memory=5 << 20, processes=7)
    assert files(one) == [str(5 << 20), "0", "7"] and (one.memory, one.processes) == (5 << 20, 7)
    usual_share = group(tmp_path)
    assert files(usual_share)[1:] == ["", "8192"] and 0 < usual_share.memory == int(files(usual_share)[0])
    none = group(tmp_path, memory=0, processes=0)
    assert files(none) == ["", "", ""] and (none.memory, none.processes) == (0, 0)
    for each in (one, none):
        Path(each.path, "memory.events").write_text("oom 3\noom_kill 0\n")
        Path(each.path, "pids.events").write_text("max 0\n")
        assert each.exceeded() == ""
        Path(each.path, "pids.events").write_text("max 2\n")
    assert one.exceeded() == "it was refused another process: it had 7 of them and of threads" and none.exceeded() == ""
    Path(one.path, "memory.events").write_text("oom_kill 1\n")
    assert one.exceeded() == "the kernel ended the process that had most: it used more than 5 MB of memory"
    one.hold(123)
    assert Path(one.path, "cgroup.procs").read_text() == "123"
    one.close()
    assert Path(one.path, "cgroup.kill").read_text() == "1", "what is in it is ended"


def test_the_smallest_limit_around_a_group_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    monkeypatch.setattr(cgroup, "MOUNTS", (str(tmp_path),))
    (tmp_path / "memory.max").write_text("1\n")
    (tmp_path / "a" / "memory.max").write_text("1000\n")
    (inner / "memory.max").write_text("max\n")
    assert limits.memory(ResourceLimits(), str(inner)) == 900 and limits.memory(ResourceLimits(memory=5), "/") == 5
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert limits.memory(ResourceLimits(), "/") == int(0.9 * whole)


Given = Callable[[Path | None], None]


@pytest.fixture
def given(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Given]:
    """Says which directory is the group that was given to us to divide: one with such files as the kernel's."""
    proc = tmp_path_factory.mktemp("proc")
    monkeypatch.setattr(cgroup, "PROC", str(proc))
    (proc / "self").mkdir()

    def say(place: Path | None) -> None:
        limits.divided.cache_clear()
        (proc / "self" / "cgroup").write_text("0::/\n" if place is not None else "")
        if place is not None:
            monkeypatch.setattr(cgroup, "MOUNTS", (str(place),))
            for name in ("controllers", "subtree_control", "procs", "kill"):
                (place / f"cgroup.{name}").write_text("memory pids")

    yield say
    limits.divided.cache_clear()


@pytest.mark.parametrize(
    ("release", "user", "counts"), [("5.14.0-x", 1, True), ("5.13.9", 1, False), ("6.1", 0, False)]
)
def test_what_has_no_limit_is_said(
    given: Given, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: str, user: int, counts: bool
) -> None:
    monkeypatch.setattr(os, "uname", lambda: types.SimpleNamespace(release=release))
    monkeypatch.setattr(os, "geteuid", lambda: user)
    given(None)
    assert limits.counts_in_namespaces() is counts
    said = limits.unlimited
    both = "limit memory and the number of processes (no cgroup is ours to divide)"
    alone = "limit memory (no cgroup is ours to divide)"
    assert said(ResourceLimits(), namespace=True) == ((alone if counts else both),)
    assert said(ResourceLimits(), namespace=False) == (both,) and said(
        ResourceLimits(processes=0), namespace=False
    ) == (alone,)
    assert said(ResourceLimits(memory=0, processes=0), namespace=False) == ()
    given(tmp_path)
    assert said(ResourceLimits(), namespace=False) == ()
