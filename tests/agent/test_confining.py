"""What a session's rules and mode make of its sandbox."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.io.process.trees import SOURCES
from tests.io.sandbox.rooms import repository, sh
from tests.machines import LANDLOCK_CREATE_RULESET, refusing
from treadle.confinement import Mount, ResourceLimits
from treadle.errors import Denied
from treadle.io.paths import DISK
from treadle.io.process.programs import find_outside
from treadle.io.sandbox import landlock, methods, places, proxy
from treadle.io.sandbox.proxy import FoundHosts
from treadle.policy.rules import RuleSet
from treadle.sandboxed import confining as module
from treadle.sandboxed.confining import Confining, settled
from treadle.session import Confinement, Mode, Rules
from treadle.settings.config import SandboxSettings, Settings

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
    above = made.above = confining(tmp_path)
    made.leave()
    assert made.sealed is False and above.sealed is False
    made.close()
    unconfined = confining(tmp_path, "suggest")
    assert unconfined.now() is None
    unconfined.obey(RuleSet(Rules(), str(tmp_path), DISK), "full-auto")
    assert unconfined.sealed is False, "what ran before had no walls"


def test_what_is_left_open_is_as_the_settings_say_and_what_is_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    def use(asked: str, setting: bool | None) -> str:
        return settled(Confinement(use=asked), Settings(sandbox=SandboxSettings(use=setting))).use  # type: ignore[arg-type]

    assert [use("auto", True), use("auto", False), use("possible", True), use("auto", None)] == [
        "on",
        "off",
        "on",
        "auto",
    ]
    assert [use("on", False), use("off", True)] == ["on", "off"]
    monkeypatch.setenv("HOME", "/home/ann")
    monkeypatch.setenv("ITS_SOCKET", "/run/its.socket")
    box = SandboxSettings(
        read=("~/.ssh",), sockets=("$ITS_SOCKET", "~/s", "near", "$NONE"), memory="4G", processes=9, disk="off"
    )
    settings = Settings(sandbox=box, network="a.example")
    made = settled(Confinement(readable=("/r",), sockets=("/s",)), settings)
    assert made.readable == ("/r", "/home/ann/.ssh") and made.sockets == ("/s", "/run/its.socket", "/home/ann/s")
    assert made.limits == ResourceLimits(memory=4 << 30, processes=9, disk=0)
    assert (made.network, made.hosts) == ("off", ("a.example",))
    own = ResourceLimits(memory=1)
    kept = settled(Confinement(limits=own, network="on"), settings)
    assert (kept.limits, kept.network, kept.hosts) == (own, "on", ())
    assert settled(Confinement(), Settings()).network == "auto"


def test_no_program_of_ours_is_taken_from_where_its_programs_write(tmp_path: Path) -> None:
    for name in ("work", "more", "granted", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("")
        (tmp_path / name / "tool").chmod(0o755)
    asked = Confinement(write=(str(tmp_path / "granted"),))
    made = Confining(str(tmp_path / "work"), ("../more", str(tmp_path / "more")), asked, session="s")
    found = [find_outside("tool", path=str(tmp_path / name)) for name in ("work", "more", "granted", "other")]
    assert found == [None, None, None, str(tmp_path / "other" / "tool")]
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

    def test_a_pattern_that_begins_above_the_workspaces_is_looked_for_in_them(tmp_path: Path) -> None:
        for name in ("work", "other"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "x.key").touch()
        made = confining(tmp_path / "work", deny=(f"Read(/{tmp_path}/**/*.key)", "Read(//etc/shado*)"))
        found = made.now()
        assert found is not None and {str(tmp_path / "work" / "x.key"), "/etc/shadow"} <= set(found.hidden)
        assert str(tmp_path / "other" / "x.key") not in found.hidden
        made.close()

    def test_a_program_has_what_was_asked_for_and_what_the_session_adds(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        home, work, more = tmp_path / "home", tmp_path / "work", tmp_path / "more"
        for place in (home, work, more):
            place.mkdir(parents=True)
        (home / ".npmrc").write_text("registry=https://npm.example/\n_auth=x\n")
        monkeypatch.setenv("HOME", str(home))
        asked = Confinement(
            use="on",
            network="auto",
            write=(str(more),),
            read_only=("/ro",),
            hidden=("/hid",),
            readable=(str(home / ".aws"),),
            mounts=(Mount("/a", "/b"),),
        )
        held = {str(work / "theirs"): "by bob", str(work / ".envrc"): "by ann"}
        made = Confining(str(work), ("../work", "../more"), asked, session="s", holding=lambda: held)
        made.obey(RuleSet(Rules(), str(work), DISK), "full-auto")
        found = made.now()
        assert found is not None and made.sealed is True
        assert (found.network, found.write, found.mounts) == ("on", (str(work), str(more)), (Mount("/a", "/b"),))
        assert {"/ro", str(work / ".envrc"), str(work / "theirs")} <= set(found.read_only)
        assert found.held == ((str(work / "theirs"), "by bob"),), (
            "what may not be written anyway is not said to be held"
        )
        assert found.hidden == ("/hid",) and found.readable == (str(home / ".aws"),)
        assert found.temp is not None and found.home is not None
        assert Path(found.home, "home", ".npmrc").read_text() == "registry=https://npm.example/\n"
        again = made.now()
        assert again is not None and (again.temp, again.home) == (found.temp, found.home)
        made.close()
        assert not os.path.exists(found.temp) and not os.path.exists(found.home)
        made.close()

    def test_what_others_obey_is_protected_at_every_depth_the_nearest_first(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for name in ("z/AGENTS.md", "a/b/c/AGENTS.md", "own/AGENTS.md", "node_modules/x/AGENTS.md", "a/.git/HEAD"):
            (tmp_path / name).parent.mkdir(parents=True)
            (tmp_path / name).touch()
        monkeypatch.setattr(module, "MOST_PROTECTED", 1)

        def protected(mode: Mode | None, *write: str) -> set[str]:
            asked = Confinement(use="on", write=tuple(str(tmp_path / one) for one in write))
            made = confining(tmp_path, mode, asked)
            found = made.now()
            made.close()
            assert found is not None
            return {one.removeprefix(f"{tmp_path}/") for one in found.read_only if one.endswith("AGENTS.md")}

        assert protected("full-auto", "own") == set(), "the nearest is granted"
        (tmp_path / "own" / "AGENTS.md").unlink()
        assert protected("full-auto") == {"z/AGENTS.md"} and protected(None) == set()
        monkeypatch.setattr(module, "MOST_PROTECTED", 9)
        assert protected("full-auto") == {"z/AGENTS.md", "a/b/c/AGENTS.md"}
        assert protected("full-auto", "z") == {"a/b/c/AGENTS.md"}

    def test_what_a_command_wrote_that_it_may_not_is_moved_aside_and_named(tmp_path: Path) -> None:
        (tmp_path / "deep").mkdir()
        (tmp_path / "deep" / "CLAUDE.md").touch()
        made = confining(tmp_path, deny=("Write(*.lock)",), allow=("Write(.envrc)",))
        ruled, unruled = made.watching(None)(), made.watching(None, ruled=False)()
        places.count_start([str(tmp_path)])  # as if a program were started
        for name in ("a.lock", ".envrc"):
            (tmp_path / name).touch()
        unruled()
        places.count_start([str(tmp_path)])
        (tmp_path / "deep" / "AGENTS.md").touch()
        with pytest.raises(Denied) as caught:
            unruled()
        assert caught.value.details == {"files": [str(tmp_path / "deep" / "AGENTS.md")]}
        with pytest.raises(Denied) as caught:
            ruled()
        [line] = caught.value.message.splitlines()[1:]
        path, aside = line.strip().removesuffix(")").split(" (now ")
        assert path == str(tmp_path / "a.lock") and "/removed/s/a.lock" in aside and os.path.exists(aside)
        assert caught.value.hint == "a person can move them back, or allow them with a rule"
        assert (tmp_path / ".envrc").exists() and (tmp_path / "deep" / "CLAUDE.md").exists()
        ruled()
        later = made.watching(None)()
        (tmp_path / "b.lock").touch()
        made.obey(RuleSet(Rules(), str(tmp_path), DISK), "suggest")
        later()
        assert (tmp_path / "b.lock").exists(), "nothing is moved where programs are not confined"
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

    async def test_a_repository_that_a_command_made_is_moved_aside_but_for_one_that_a_rule_allows(
        tmp_path: Path,
    ) -> None:
        made, said = confining(repository(tmp_path), allow=("Write(kept/.git/**)",)), list[str]()
        await made.ready(said.append)
        walls = made.now()
        assert walls is not None and walls.temp is not None
        [mount] = [one for one in walls.mounts if one.target == str(tmp_path / ".git")]
        assert "/git/s-1/" in mount.source and str(tmp_path / ".git") not in walls.read_only
        await sh(walls, "git init -q made; git init -q kept", tmp_path)
        await made.finish(said.append)
        assert (tmp_path / "kept" / ".git").exists() and not (tmp_path / "made" / ".git").exists()
        [told] = said
        assert told.startswith(f"the agent made {tmp_path}/made/.git; your own programs would act on what it says")
        assert told.endswith(f"allow it with the rule Write({tmp_path}/made/.git/**)") and "/removed/s/.git." in told
        assert os.path.exists(walls.temp)
        made.close()
        later = made.now()
        assert later is not None and later.temp is not None
        await made.finish(said.append)
        assert not os.path.exists(later.temp), "what was closed meanwhile is closed after the turn again"

    def test_what_commands_can_reach_is_as_asked_for_else_little_where_nobody_looks(tmp_path: Path) -> None:
        def limited(mode: Mode | None, **asked: object) -> tuple[bool, bool]:
            made = confining(tmp_path, mode, Confinement(**asked))  # type: ignore[arg-type]
            return made.is_limited, made.asks

        assert limited("full-auto") == (True, True) and limited("suggest") == (False, False)
        assert limited("suggest", use="on") == (False, False) and limited(None, use="on") == (True, False)
        assert limited("full-auto", use="off") == (False, False)
        assert limited("full-auto", network="on") == (False, False)
        assert limited("full-auto", network="off") == (True, False)
        assert limited(None, network="off", hosts=("a.b",)) == (True, True)
        assert limited("full-auto", network="on", hosts=("a.b",)) == (False, False)

    async def test_an_address_that_commands_cannot_reach_is_not_fetched(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        made = confining(tmp_path, asked=Confinement(network="off", hosts=("a.example:80",)))
        made.granted |= {"d.example", "c.example"}
        assert made.hosts == ("a.example:80", "c.example", "d.example")
        assert made.unreachable("http://a.example/x") == made.unreachable("https://d.example/") == ""
        said = made.unreachable("https://a.example/")
        assert said.startswith("a.example may not be reached: only a.example:80, c.example, d.example can be reached.")
        assert made.unreachable("http://[::1/") == ""
        await made.look_up()
        assert made._registries is None, "no group is in the list"
        made._registries = FoundHosts(("r.example",), "")
        assert made.unreachable("http://r.example/") == "" and made.unreachable("http://e.example/").endswith("thing")
        made._registries = FoundHosts((), "npm says none")
        assert made.unreachable("http://r.example/").endswith("everything. npm says none")
        assert confining(tmp_path, "suggest").unreachable("http://a.example/") == ""
        unwalled = Confinement(use="off", network="off")
        assert confining(tmp_path, asked=unwalled).unreachable("http://a.example/") == ""
        monkeypatch.setenv("PATH", "/nowhere")
        proxy._asked.cache_clear()
        asked = Confinement(network="off", hosts=("a.example", "npm"))
        made = confining(tmp_path, asked=asked)
        await made.look_up()
        assert ". npm is in the list, but npm " in made.unreachable("http://b.example/")
        unlimited = confining(tmp_path, asked=Confinement(network="on", hosts=("npm",)))
        await unlimited.look_up()
        assert unlimited._registries is None
        proxy._asked.cache_clear()


def test_watching_asks_the_other_watcher_too(tmp_path: Path) -> None:
    told: list[str] = []

    def other() -> object:
        told.append("before")
        return lambda: told.append("after")

    confining(tmp_path, "suggest").watching(other)()()  # type: ignore[arg-type]
    assert told == ["before", "after"]


UNKEPT = """
import sys
from treadle.sandboxed.confining import Confining
from treadle.io.paths import DISK
from treadle.policy.rules import RuleSet
from treadle.session import Confinement, Rules

for mode in ("suggest", "full-auto"):
    made = Confining(sys.argv[1], (), Confinement(), session="s")
    made.obey(RuleSet(Rules(), sys.argv[1], DISK), mode)
    for _ in range(2):
        events = []
        walls = made.announced(events.append)
        print(*[f"{event.code}: {event.message}" for event in events], walls is not None)
    made.close()
"""


@pytest.mark.parametrize(
    ("before", "told"),
    [
        (
            refusing(LANDLOCK_CREATE_RULESET),
            "sandbox: commands run without a sandbox: bubblewrap: there is no program bwrap; ",
        ),
        ("", "sandbox: the sandbox (landlock) cannot hide files that rules deny to read, "),
    ],
    ids=["with nothing", "with Landlock only"],
)
def test_what_a_machine_cannot_keep_is_told_once(tmp_path: Path, before: str, told: str) -> None:
    if landlock.problem() is not None:
        told = "sandbox: commands run without a sandbox: bubblewrap: there is no program bwrap; "
    walls = str("(landlock)" in told)
    argv = [sys.executable, "-c", before + UNKEPT, str(tmp_path)]
    env = {"PATH": "/nowhere", "PYTHONPATH": SOURCES, "HOME": str(tmp_path), "TREADLE_HOME": str(tmp_path / "state")}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    first, second, third, fourth = done.stdout.splitlines()
    assert (first, second, fourth) == ("False", "False", walls) and third.startswith(told) and third.endswith(walls)
