"""Rules judged by effect: a path rule is kept by the kernel, whatever the command looks like."""

import hashlib
import shlex
from pathlib import Path

import pytest

from tests.io.sandbox.rooms import repository, sh
from tests.safety import corpora
from treadle.io.paths import DISK
from treadle.io.sandbox import methods
from treadle.policy.rules import Profile, RuleSet
from treadle.sandboxed.confining import Confining
from treadle.session import Access, Confinement, Rules

CANARY = "canary-8c1f6e02"
kernel_keeps_paths = methods.available().method == "bubblewrap"


def confined(workspace: Path, **rules: tuple[str, ...]) -> tuple[Confining, Confinement]:
    made = Confining(str(workspace), (), Confinement(use="on", network="off"), session="s")
    made.obey(RuleSet(Rules(**rules), str(workspace), DISK), "full-auto")
    found = made.now()
    assert found is not None
    return made, found


def batch(tried: list[str], after: str = "") -> str:
    """All attempts in one shell, each in a process of its own, with a line before it that says which."""
    lines = []
    for number, one in enumerate(tried):
        script = f"timeout 10 bash -c {shlex.quote(one)} < /dev/null 2>&1 | head -c 2000"
        lines.append(f"echo; echo '#{number}'; ({script}); {after}")
    return "\n".join(lines)


if kernel_keeps_paths:

    @pytest.mark.slow
    async def test_a_file_that_may_not_be_read_is_not_shown(tmp_path: Path) -> None:
        repository(tmp_path)
        (tmp_path / "secrets").mkdir()
        (tmp_path / "inner").mkdir()
        (tmp_path / "secrets" / "key").write_text(CANARY + "\n")
        (tmp_path / "link").symlink_to("secrets")
        tried = corpora.attempts("reads", corpora.PATHS, "more-reads")
        assert len(tried) >= 232
        made, walls = confined(tmp_path, deny=("Read(secrets/**)",))
        done = await sh(walls, batch(tried), tmp_path)
        shown = [said for said in done.text.split("\n#") if CANARY in said]
        assert shown == [] and f"#{len(tried) - 1}" in done.text
        assert (tmp_path / "secrets" / "key").read_text() == CANARY + "\n"
        made.close()

    @pytest.mark.slow
    async def test_a_file_that_may_not_be_written_stays_as_it_is(tmp_path: Path) -> None:
        kept = tmp_path / "prot.lock"
        kept.write_text("as it was\n")
        (tmp_path / "dir").mkdir()
        before = kept.stat()
        tried = corpora.attempts("writes", corpora.WRITTEN)
        assert len(tried) >= 157
        made, walls = confined(tmp_path, deny=("Write(prot*.lock)",))
        look = "echo x > other; sha256sum prot.lock"
        done = await sh(walls, batch(tried, look), tmp_path)
        digest = hashlib.sha256(b"as it was\n").hexdigest()
        assert [said for said in done.text.split("\n#")[1:] if digest not in said] == []
        assert kept.read_text() == "as it was\n"
        after = kept.stat()
        assert (after.st_mode, after.st_mtime_ns, after.st_ino) == (before.st_mode, before.st_mtime_ns, before.st_ino)
        made.close()


def removals() -> tuple[list[str], list[str]]:
    bare = corpora.commands("removals")
    seen = [around.format(one) for around in corpora.AROUND for one in bare]
    seen += [around.format(shlex.quote(one)) for around in corpora.QUOTED_AROUND for one in bare]
    return seen, corpora.commands("more-removals")


def test_a_denied_command_is_seen_wherever_the_docs_say_so() -> None:
    guard = Profile("/w", Rules(deny=("Bash(rm *)",)), "full-auto", disk=DISK)
    seen, _ = removals()
    let = [one for one in seen if guard(Access(tool="bash", kind="execute", command=one)).verdict == "allow"]
    assert let == [] and len(seen) >= 310


UNSEEN = ['cp "$(which rm)" zap && ./zap f', """python3 -c 'import os; os.system("r" + "m f")'"""]
PAGE = Path(__file__).parents[2] / "docs" / "explanation" / "safety.md"


def test_of_all_ways_to_call_a_denied_program_those_that_pass_are_these() -> None:
    guard = Profile("/w", Rules(deny=("Bash(rm *)",)), "full-auto", disk=DISK)
    tried = corpora.calls_of_rm()
    let = [one for one in tried if guard(Access(tool="bash", kind="execute", command=one)).verdict == "allow"]
    assert let == UNSEEN and len(set(tried)) == len(tried)
    assert f"Of {len(tried)} ways to call `rm`" in PAGE.read_text() and f", {len(let)} pass" in PAGE.read_text()


async def test_of_all_ways_to_remove_a_file_few_pass_a_rule_about_the_command(tmp_path: Path) -> None:
    guard = Profile(str(tmp_path), Rules(deny=("Bash(rm *)",)), "full-auto", disk=DISK)
    seen, other = removals()
    tried = [*seen, *other]
    assert len(tried) >= 334
    let = [one for one in tried if guard(Access(tool="bash", kind="execute", command=one)).verdict == "allow"]
    lines = []
    for number, one in enumerate(let):
        script = f"timeout 10 bash -c {shlex.quote(one)} < /dev/null > /dev/null 2>&1"
        lines.append(f"mkdir d{number}; cd d{number}; touch f; ({script}); [ -e f ] || echo gone {number}; cd ..")
    done = await sh(None, "\n".join(lines), tmp_path)
    assert done.text.count("gone") <= 13, done.text


@pytest.mark.parametrize("rules", [{}, {"deny": ("Bash(rm *)", "Read(secrets/**)", "Write(prot*.lock)")}])
def test_everyday_commands_are_neither_refused_nor_asked_about(rules: dict[str, tuple[str, ...]]) -> None:
    guard = Profile("/w", Rules(**rules), "full-auto", add_dirs=["/tmp"], disk=DISK)
    commands = corpora.everyday()
    assert len(commands) == 300
    decided = [(guard(Access(tool="bash", kind="execute", command=one)), one) for one in commands]
    assert [(decision.reason, one) for decision, one in decided if decision.verdict != "allow"] == []


def test_every_attempt_gets_a_verdict(tmp_path: Path) -> None:
    """Also where a path leads through a link that may not be read, as /proc/1/cwd."""
    rules = Rules(deny=("Read(secrets/**)", "Write(prot*.lock)"))
    guard = Profile(str(tmp_path), rules, "full-auto", disk=DISK)
    tried = corpora.attempts("reads", corpora.PATHS, "more-reads")
    tried += corpora.attempts("writes", corpora.WRITTEN)
    given = {guard(Access(tool="bash", kind="execute", command=one)).verdict for one in tried}
    assert given <= {"allow", "ask", "deny"} and "deny" in given
