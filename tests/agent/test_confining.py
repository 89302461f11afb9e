"""What a session's rules and mode make of its sandbox."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository, sh
from tests.machines import LANDLOCK_CREATE_RULESET, refusing
from treadle.agent.confining import Confining
from treadle.errors import Denied
from treadle.io.disk import DISK
from treadle.io.sandbox import landlock, methods
from treadle.policy.rules import RuleSet
from treadle.session import Confinement, Mode, Rules

ASKED = Confinement()
has_bubblewrap = methods.available().method == "bubblewrap"


def confining(
    cwd: Path, mode: Mode | None = "full-auto", asked: Confinement = ASKED, **rules: tuple[str, ...]
) -> Confining:
    made = Confining(str(cwd), (), asked, session="s")
    made.obey(RuleSet(Rules(**rules), str(cwd), DISK), mode)
    return made


def test_where_no_mode_or_person_wants_it_programs_run_as_they_are(tmp_path: Path) -> None:
    assert confining(tmp_path, "suggest").now() is None
    assert confining(tmp_path, asked=Confinement(use="off")).now() is None


def test_a_session_is_called_sealed_only_if_nothing_of_it_ran_outside(tmp_path: Path) -> None:
    """And before anything has run, where it is to be, that is not known yet."""
    assert confining(tmp_path, "suggest").sealed is False
    assert confining(tmp_path, asked=Confinement(use="off")).sealed is False
    made = confining(tmp_path)
    assert made.sealed is None
    made.leave()
    assert made.sealed is False
    made.close()


if methods.available().method is not None:

    def test_what_read_rules_deny_is_hidden_wherever_it_is(tmp_path: Path) -> None:
        (tmp_path / "secrets").mkdir()
        (tmp_path / "deep" / "er").mkdir(parents=True)
        (tmp_path / "deep" / "er" / ".env.local").touch()
        made = confining(tmp_path, deny=("Read(secrets/**)", "Read(.env*)", "Read(/etc/shadow)", "Read(~/.ssh/**)"))
        found = made.now()
        assert found is not None
        wanted = {str(tmp_path / "secrets"), str(tmp_path / "deep" / "er" / ".env.local"), "/etc/shadow"}
        assert wanted <= set(found.hidden)
        made.close()

    def test_a_protected_file_that_a_rule_of_a_person_names_may_be_written(tmp_path: Path) -> None:
        for allow in ((), ("Write",), ("Write(src/**)",)):
            made = confining(tmp_path, allow=allow)
            found = made.now()
            assert found is not None and {str(tmp_path / ".vscode"), str(tmp_path / ".envrc")} <= set(found.read_only)
            made.close()
        made = confining(tmp_path, allow=("Write(.vscode/**)", "Edit(.envrc)"))
        found = made.now()
        assert found is not None and str(tmp_path / ".claude") in found.read_only
        assert not {str(tmp_path / ".vscode"), str(tmp_path / ".envrc")} & set(found.read_only)
        made.close()

    def test_what_write_rules_deny_is_read_only_and_what_they_allow_is_not(tmp_path: Path) -> None:
        (tmp_path / "prot.lock").touch()
        (tmp_path / "free.lock").touch()
        made = confining(tmp_path, deny=("Write(prot*.lock)",), ask=("Write(free.lock)",))
        found = made.now()
        assert found is not None and str(tmp_path / "prot.lock") in found.read_only
        assert str(tmp_path / "free.lock") not in found.read_only
        made.close()


if has_bubblewrap:

    async def test_what_one_command_leaves_in_tmp_the_next_one_finds_and_nobody_else(tmp_path: Path) -> None:
        made = confining(tmp_path)
        await sh(made.now(), "echo kept > /tmp/left-by-treadle-test", tmp_path)
        assert (await sh(made.now(), "cat /tmp/left-by-treadle-test", tmp_path)).text == "kept\n"
        assert not Path("/tmp/left-by-treadle-test").exists()
        made.close()

    async def test_a_command_that_makes_a_protected_file_is_found_out(tmp_path: Path) -> None:
        repository(tmp_path)
        made = confining(tmp_path, deny=("Write(prot*.lock)",))
        check = made.watching(None)()
        command = "echo ../evil > .git/commondir; echo x > .envrc; echo x > prot9.lock; echo x > fine"
        await sh(made.now(), command, tmp_path)
        with pytest.raises(Denied, match="taken out of the workspace"):
            await asyncio.to_thread(check)
        assert not any((tmp_path / name).exists() for name in (".git/commondir", ".envrc", "prot9.lock"))
        assert (tmp_path / "fine").exists()
        made.close()

    async def test_no_command_changes_what_others_hold_in_whatever_way_it_tries(tmp_path: Path) -> None:
        held = tmp_path / "src/deep/held.txt"
        held.parent.mkdir(parents=True)
        held.write_text("theirs\n")
        (tmp_path / "src/deep/free.txt").write_text("free\n")
        by = {str(held): "held.txt overlaps src held by bob"}
        made = Confining(str(tmp_path), (), Confinement(use="on"), session="s", holding=lambda: by)
        ways = """
            h=src/deep/held.txt; f=src/deep/free.txt
            echo x > $h; echo x >> $h; rm -f $h; mv $h x; cp /etc/passwd $h; sed -i s/t/x/ $h; truncate -s0 $h
            mv src y; mv src/deep src/z; rm -rf src/deep; ln -f $f $h; mv $f $h; chmod 777 $h; ln $h l && echo x > l
            cd src/deep; echo x > held.txt; cd ..; perl -e 'open(F, ">", "deep/held.txt")'; umount deep/held.txt; exit 0
        """
        await sh(made.now(), ways, tmp_path)
        assert held.read_text() == "theirs\n" and held.stat().st_mode & 0o777 == 0o644
        await sh(made.now(), "echo mine > src/deep/free.txt; echo new > src/deep/new.txt", tmp_path)
        assert (tmp_path / "src/deep/new.txt").exists()
        by.clear()
        await sh(made.now(), "echo released > src/deep/held.txt", tmp_path)
        assert held.read_text() == "released\n"
        made.close()

    def test_offline_there_is_nothing_to_ask_about(tmp_path: Path) -> None:
        assert confining(tmp_path, asked=Confinement(use="on", network="off")).offline
        assert not confining(tmp_path).offline
        assert not confining(tmp_path, asked=Confinement(use="on", network="off", hosts=("a.b",))).offline


def test_watching_asks_the_other_watcher_too(tmp_path: Path) -> None:
    told: list[str] = []

    def other() -> object:
        told.append("before")
        return lambda: told.append("after")

    confining(tmp_path, "suggest").watching(other)()()  # type: ignore[arg-type]
    assert told == ["before", "after"]


UNKEPT = """
import sys
from treadle.agent.confining import Confining
from treadle.io.disk import DISK
from treadle.policy.rules import RuleSet
from treadle.session import Confinement, Rules

for mode in ("suggest", "full-auto"):
    made = Confining(sys.argv[1], (), Confinement(), session="s")
    made.obey(RuleSet(Rules(), sys.argv[1], DISK), mode)
    print(repr(made.unenforced()))
    print(repr(made.unenforced()))
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (refusing(LANDLOCK_CREATE_RULESET), "'commands run without a sandbox: bubblewrap: there is no program bwrap; "),
        ("", "'the sandbox (landlock) cannot hide files that rules deny to read, "),
    ],
    ids=["with nothing", "with Landlock only"],
)
def test_what_a_machine_cannot_keep_is_told_once(tmp_path: Path, before: str, told: str) -> None:
    if landlock.problem() is not None:
        told = "'commands run without a sandbox: bubblewrap: there is no program bwrap; "
    argv = [sys.executable, "-c", before + UNKEPT, str(tmp_path)]
    done = subprocess.run(argv, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60)
    first, second, third, fourth = done.stdout.splitlines()
    assert (first, second, fourth) == ("''", "''", "''") and third.startswith(told), done.stderr
