"""A command's own view of the machine, made for real."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from treadle.errors import LocalError
from treadle.io.process import tree, view

TRIED = "d=/tmp; mount -t tmpfs x $d && mkdir $d/a $d/b $d/c && mount -t overlay -o lowerdir=$d/a:$d/b x $d/c"
"""By hand: a view of ours that does not work must fail these tests, and not skip them."""


def overlays() -> bool:
    words = ["unshare", "-m" if os.geteuid() == 0 else "-rm", "sh", "-c", TRIED]
    return shutil.which("unshare") is not None and subprocess.run(words, capture_output=True).returncode == 0


pytestmark = pytest.mark.skipif(not overlays(), reason="needs overlays and namespaces")


def look(place: Path, script: str, *steps: tuple[str, str, str], **more: object) -> str:
    """What a script prints that sees `place` as a view made in these steps."""
    plan = {
        "place": os.fsencode(place),
        "user": os.geteuid() != 0,
        "scope": False,
        "steps": [(kind, os.fsencode(source), os.fsencode(path)) for kind, source, path in steps],
        **more,
    }
    read, write = os.pipe()
    with tree.spawn(["sh", "-c", script], cwd=str(place.parent), stdout=write, stderr=write, view=plan) as running:
        os.close(write)
        running.wait(30)
    with os.fdopen(read) as said:
        return said.read()


def test_files_are_seen_through_an_overlay_and_not_written(tmp_path: Path) -> None:
    there, place = tmp_path / "there: with, signs\\", tmp_path / "place"
    there.mkdir()
    place.mkdir()
    (there / "file").write_text("content\n")
    overlay = (view.OVERLAY, str(there), "root/there")
    said = look(place, "cat place/root/there/file; echo x > place/root/there/file", overlay)
    assert said.startswith("content") and "Read-only file system" in said
    assert os.listdir(place) == [], "others see nothing of it"
    assert (there / "file").read_text() == "content\n"


def test_a_file_that_is_mounted_in_a_directory_is_shown_over_the_one_below(tmp_path: Path) -> None:
    """As in containers, whose /etc/hosts and /etc/resolv.conf are mounts."""
    there, place, mounted = tmp_path / "etc", tmp_path / "place", tmp_path / "mounted"
    there.mkdir()
    place.mkdir()
    (there / "hosts").write_text("below\n")
    mounted.write_text("mounted\n")
    steps = [(view.OVERLAY, str(there), "root/etc"), (view.BIND, str(mounted), "root/etc/hosts")]
    assert look(place, "cat place/root/etc/hosts", *steps) == "mounted\n"


def test_links_directories_and_single_files_are_made_as_told(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "file").write_text("content\n")
    steps = [
        (view.DIRECTORY, "", "root/d"),
        (view.LINK, "d", "root/l"),
        (view.BIND, str(tmp_path / "file"), "root/d/f"),
        (view.OVERLAY, str(tmp_path / "missing"), "root/gone"),
    ]
    said = look(tmp_path / "place", "cat place/root/l/f; ls place/root place/root/gone", *steps)
    assert said.split() == ["content", "place/root:", "d", "gone", "l", "place/root/gone:"]


def test_a_command_whose_view_cannot_be_made_does_not_begin(tmp_path: Path) -> None:
    why = f"its sandbox cannot be created: No such file or directory .{tmp_path}/missing."
    with pytest.raises(LocalError, match=why):
        look(tmp_path / "missing", "true")


def test_a_file_system_that_no_overlay_shows_is_bound_where_that_is_allowed(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    step = (view.OVERLAY_OR_BIND, "/proc", "shown/0")
    assert (
        look(tmp_path / "place", "cat place/shown/0/1/comm", step).strip() == Path("/proc/1/comm").read_text().strip()
    )
    with pytest.raises(LocalError, match="its sandbox cannot be created: .*place/root/proc"):
        look(tmp_path / "place", "true", (view.OVERLAY, "/proc", "root/proc"))


def test_a_program_in_a_user_namespace_sees_itself_as_who_it_was(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    script = "id -u; id -g; cat /proc/self/setgroups; grep -c . /proc/self/uid_map; readlink /proc/self/ns/user"
    found = look(tmp_path / "place", script, user=True).split()
    assert found[:4] == [str(os.geteuid()), str(os.getegid()), "deny", "1"]
    assert found[4] != os.readlink("/proc/self/ns/user")
    if os.geteuid() == 0:
        own = look(tmp_path / "place", "readlink /proc/self/ns/user; readlink /proc/self/ns/mnt", user=False).split()
        assert own[0] == os.readlink("/proc/self/ns/user") and own[1] != os.readlink("/proc/self/ns/mnt")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a network beside its own")
def test_a_program_joins_the_network_that_it_is_given(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    with subprocess.Popen(["unshare", "-n", "sh", "-c", "echo up; exec sleep 60"], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline() == b"up\n"
        network = f"/proc/{other.pid}/ns/net"
        script = "readlink /proc/self/ns/net"
        joined = look(tmp_path / "place", script, network=os.fsencode(network)).strip()
        assert joined == os.readlink(network) != os.readlink("/proc/self/ns/net")
        assert look(tmp_path / "place", script, network=b"").strip() == os.readlink("/proc/self/ns/net")
        with pytest.raises(LocalError, match="its sandbox cannot be created"):
            look(tmp_path / "place", script, network=b"/proc/0/ns/net")
        other.kill()
