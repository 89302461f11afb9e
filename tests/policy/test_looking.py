"""What may run without a question because it only looks, or only moves files about in the workspace."""

from pathlib import Path

import pytest

from treadle.io.machine import DISK
from treadle.policy.profile import Profile
from treadle.session import Access, Mode, Rules


@pytest.fixture
def work(tmp_path: Path) -> Path:
    place = tmp_path / "work"
    (place / ".git" / "hooks").mkdir(parents=True)
    (place / "a.txt").write_text("x")
    (place / "link").symlink_to("/etc/passwd")
    return place


def verdict(work: Path, command: str, mode: Mode = "suggest", rules: Rules | None = None) -> str:
    guard = Profile(str(work), rules or Rules(), mode, disk=DISK, looks_freely=True)
    return guard(Access(tool="bash", kind="execute", command=command)).verdict


@pytest.mark.parametrize(
    "command",
    [
        "ls",
        "ls -la",
        "pwd",
        "cat a.txt | head",
        "grep -r x . | head -3",
        "find . -name '*.txt'",
        "wc -l a.txt",
        "uniq -c a.txt",
        "egrep x a.txt",
        "fgrep -n x a.txt",
        "date +%s",
        "sort -u a.txt",
        "echo hi",
    ],
)
def test_what_only_reads_in_the_workspace_runs_without_a_question(work: Path, command: str) -> None:
    assert verdict(work, command) == "allow"


@pytest.mark.parametrize(
    "command",
    [
        *("cat /etc/passwd", "cat ~/x", "grep x ../y", "find / -name x", "cat < /etc/passwd", "cd /etc && cat passwd"),
        *("ls -R", "ls -aL", "ls --recursive", "ls --dereference", "egrep -R x .", "fgrep -f/etc/x y", "date --file=x"),
        *("cat link", "cat *", "grep -R x .", "rg -L x", "grep -f/etc/shadow x", "wc --files0-from=list"),
        *(
            "echo hi > x",
            "find . -delete",
            "find . -exec rm {} +",
            "sort -o x a.txt",
            "uniq a.txt b.txt",
            "date -s now",
        ),
        *("echo $(rm x)", "cat $FILE", "FOO=1 ls", "./ls", "ls; rm x", "xargs cat", "env cat a.txt", "git status"),
        *("mkdir made", "touch made", "rm a.txt", "python3 -c 1", "curl http://x"),
        *("echo \u202edaer\u202c", "echo \x1b[2J", "echo a\u200bb", "cat a.txt \r", "echo \x9b1m", "echo a\u00a0b"),
    ],
)
def test_everything_else_is_asked_about(work: Path, command: str) -> None:
    assert verdict(work, command) == "ask"


def test_a_file_that_a_rule_hides_is_not_read_around(work: Path) -> None:
    hiding = Rules(deny=("Read(.env)",))
    assert verdict(work, "cat .env", rules=hiding) == "deny"
    assert verdict(work, "grep -r x .", rules=hiding) == "ask"
    assert verdict(work, "cat a.txt", rules=hiding) == "allow"


def test_a_rule_goes_before_it(work: Path) -> None:
    assert verdict(work, "ls", rules=Rules(deny=("Bash(ls:*)",))) == "deny"
    assert verdict(work, "ls", rules=Rules(ask=("Bash(ls:*)",))) == "ask"


@pytest.mark.parametrize("command", ["mkdir -p made", "touch made", "mv a.txt b", "cp a.txt b", "ls && mkdir x"])
def test_where_edits_are_allowed_files_of_the_workspace_may_be_made_and_moved(work: Path, command: str) -> None:
    assert verdict(work, command, "auto-edit") == "allow"


@pytest.mark.parametrize(
    "command",
    ["cp /etc/passwd x", "mv a.txt /tmp/x", "mkdir ../x", "touch .git/hooks/pre-commit", "rm a.txt", "cp a.txt $HOME"],
)
def test_but_not_outside_of_it_and_not_what_other_programs_obey(work: Path, command: str) -> None:
    assert verdict(work, command, "auto-edit") == "ask"


def test_where_every_command_is_to_be_asked_about_looking_is_too(tmp_path: Path) -> None:
    guard = Profile(str(tmp_path), Rules(), "suggest", disk=DISK)
    decision = guard(Access(tool="bash", kind="execute", command="echo ran"))
    assert decision.verdict == "ask"
