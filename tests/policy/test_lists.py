"""A work order's seven lists, judged."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from treadle.errors import ConfigError
from treadle.io.paths import DISK
from treadle.policy import shell
from treadle.policy.lists import ListPolicy, Lists, _plainly_writes_nothing
from treadle.policy.rules import written
from treadle.session import Access


def policy(tmp_path: Path, **lists: list[str]) -> ListPolicy:
    return ListPolicy(Lists(**lists), str(tmp_path), DISK)  # type: ignore[arg-type]


def read(path: str) -> Access:
    return Access(tool="read_file", kind="read", paths=(path,))


def write(path: str) -> Access:
    return Access(tool="write_file", kind="write", paths=(path,))


def run(command: str) -> Access:
    return Access(tool="bash", kind="execute", command=command)


def fetch(url: str) -> Access:
    return Access(tool="web_fetch", kind="network", url=url)


@pytest.mark.parametrize("path", ["../work-more/a", "../work.txt"])
def test_a_neighbour_whose_name_begins_like_the_workspace_is_outside_of_it(tmp_path: Path, path: str) -> None:
    judge = policy(tmp_path / "work")
    for access in (write(path), write(str(tmp_path / "work" / path)), run(f"touch {path}"), run(f"echo > {path}")):
        assert judge(access).verdict == "deny" and "outside the workspace" in (judge(access).reason or "")
    confined = Access(tool="bash", kind="execute", command=f"echo > {path}", confined=True)
    assert judge(confined).verdict == "allow"  # the kernel decides what it can write
    assert policy(tmp_path / "work", deny_write=[path])(confined).verdict == "deny"


@pytest.mark.parametrize(
    ("lists", "access", "verdict"),
    [
        ({"disallowed_tools": ["Bash"]}, run("ls"), "deny"),
        ({"disallowed_tools": ["KillBash"]}, run("ls"), "allow"),
        ({"disallowed_tools": ["mcp__*__*"]}, Access(tool="mcp__github__push", kind="other"), "deny"),
        ({"disallowed_tools": ["Read-File"]}, read("a"), "deny"),
        ({"disallowed_tools": ["read*"]}, read("a"), "deny"),
        ({"allowed_tools": ["read"]}, read("a"), "allow"),
        ({"allowed_tools": ["read"]}, run("ls"), "deny"),
        ({"allowed_tools": ["*"], "disallowed_tools": ["bash"]}, run("ls"), "deny"),
        ({"require_approval_for": ["Write"]}, write("a"), "ask"),
        ({"require_approval_for": ["Write"], "disallowed_tools": ["write"]}, write("a"), "deny"),
        ({"deny_read": ["**/.env"]}, read("deep/.env"), "deny"),
        ({"deny_read": [".env"]}, read("deep/.env"), "deny"),
        ({"deny_read": ["secrets/**"]}, read("secrets/a"), "deny"),
        ({"deny_read": ["secrets/**"]}, read("public/a"), "allow"),
        ({"deny_read": [".env"]}, run("cat .env"), "deny"),
        ({"deny_read": [".env"]}, write(".env"), "allow"),
        ({"deny_write": ["**/.git/**"]}, write(".git/config"), "deny"),
        ({"deny_write": ["a.txt"]}, run("echo x > a.txt"), "deny"),
        ({"deny_write": ["a.txt"]}, read("a.txt"), "allow"),
        ({"deny_network": ["*.evil.com"]}, fetch("https://a.evil.com/x"), "deny"),
        ({"deny_network": ["*.evil.com"]}, run("curl https://a.evil.com/x"), "deny"),
        ({"allow_network": ["example.com"]}, fetch("https://example.com"), "allow"),
        ({"allow_network": ["example.com"]}, fetch("https://example.org"), "deny"),
        ({"allow_network": ["*"], "deny_network": ["b.com"]}, fetch("https://b.com"), "deny"),
        ({}, write("/etc/passwd"), "deny"),
        ({}, write("../up"), "deny"),
        ({}, run("echo x > /etc/motd"), "deny"),
        ({}, run("make 2> /dev/null"), "allow"),
        ({}, run("echo x > ~/motd"), "deny"),
        ({}, run("cp a /etc/b"), "deny"),
        ({"deny_read": ["x"]}, read("a\0b"), "allow"),
        ({"deny_write": ["x"]}, run("cat a\0b > c\0d"), "allow"),
        ({}, run("cp /etc/b a"), "allow"),
        ({}, run("mv /etc/b a"), "deny"),
        ({}, run("cd .. && touch x"), "deny"),
        ({}, run("dd if=/dev/zero of=../x"), "deny"),
        ({}, run("chmod +x a && sed -i s/x/y/ a && sed s/x/y/ /etc/hosts"), "allow"),
        ({}, run("sed -i s/x/y/ /etc/hosts"), "deny"),
        ({"deny_network": ["*.evil.com"]}, run("curl -s a.evil.com/x"), "deny"),
        ({"deny_network": ["*.evil.com"]}, run("git clone me@a.evil.com:x/y"), "deny"),
        ({"deny_network": ["*.evil.com"]}, run("ls a.evil.com && curl b.com"), "allow"),
        ({"allow_network": ["example.com"]}, run("wget -O page.html example.com/page.html"), "allow"),
        ({"allow_network": ["example.com"]}, run("wget -O page.html example.org"), "deny"),
        ({"allow_network": ["example.com"]}, run("rsync -a a.d/ b.d/ && git add a.txt"), "allow"),
    ],
)
def test_each_list_says_what_it_should(
    tmp_path: Path, lists: dict[str, list[str]], access: Access, verdict: str
) -> None:
    decision = policy(tmp_path, **lists)(access)
    assert decision.verdict == verdict
    assert decision.reason or verdict == "allow"


def test_a_link_out_of_the_workspace_does_not_help(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "way").symlink_to("/etc")
    assert policy(tmp_path / "in")(write("way/passwd")).verdict == "deny"


def test_what_is_no_pattern_or_name_is_refused_at_once(tmp_path: Path) -> None:
    for lists in ({"deny_read": [""]}, {"disallowed_tools": ["Bash(rm *)"]}, {"allowed_tools": ["(", ""]}):
        with pytest.raises(ConfigError):
            policy(tmp_path, **lists)


names = st.sampled_from(["read", "write", "bash", "edit", "*", "re*", "read_file", "x"])
accesses = st.sampled_from([read("a/.env"), write("b"), run("ls"), fetch("https://a.com")])


@given(st.lists(names, max_size=3), st.lists(names, max_size=3), accesses)
def test_what_is_disallowed_stays_so_whatever_is_allowed(allowed: list[str], denied: list[str], access: Access) -> None:
    alone = ListPolicy(Lists(disallowed_tools=denied), "/work", DISK)(access)
    both = ListPolicy(Lists(disallowed_tools=denied, allowed_tools=allowed), "/work", DISK)(access)
    assert alone.verdict == "allow" or both.verdict == "deny"


PATTERNS = [".env", ".git", "**/.git/**", "secrets/**", "src/*.py", "*", "/code/top", "{a,b}/x", "~/x", "[ab]c"]
PATHS = [".env", "a/.env", ".git/hooks/x", "in/.git/config", "secrets", "secrets/a/b", "src/a.py", "src/a/b.py", "top"]


@given(st.lists(st.sampled_from(PATTERNS), max_size=3), st.sampled_from([*PATHS, "a/x", "ac", "..x", "a b", "x\ud800"]))
def test_denied_writes_says_what_denies_change_says(denied: list[str], path: str) -> None:
    judge = ListPolicy(Lists(deny_write=denied), "/work", DISK)
    assert judge.denied_writes()(path) == (judge.denies_change(path) is not None)


COMMANDS = "ls cp /bin/cp mv git tee a /etc/x ../y x=1 env sudo touch -rf install".split()


@given(st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=5).map(" ".join))
def test_a_command_that_need_not_be_parsed_really_writes_nothing(command: str) -> None:
    if _plainly_writes_nothing(command):
        assert written(shell.read(command)) == []


def test_what_happened_must_have_been_possible_for_an_allowed_tool(tmp_path: Path) -> None:
    made = write(f"{tmp_path}/a")
    assert policy(tmp_path, allowed_tools=["Read"]).happened(made) is not None
    for name in ("Write", "Bash", "mcp__*", "no_such_tool"):
        assert policy(tmp_path, allowed_tools=[name]).happened(made) is None, name
    assert policy(tmp_path).happened(made) is None


def test_what_happened_is_denied_by_name_by_path_and_by_host(tmp_path: Path) -> None:
    found = policy(tmp_path, disallowed_tools=["Write*"]).happened(write(f"{tmp_path}/a"))
    assert found is not None and found.reason == "the tool write_file is disallowed"
    assert policy(tmp_path, deny_write=["a"]).happened(write(f"{tmp_path}/a")) is not None
    assert policy(tmp_path, deny_network=["evil.org"]).happened(fetch("https://evil.org/x")) is not None
    assert policy(tmp_path, deny_network=["evil.org"]).happened(fetch("http://[::1")) is None


def test_what_requires_approval_may_only_have_happened_when_it_was_asked_for(tmp_path: Path) -> None:
    judged = policy(tmp_path, require_approval_for=["Write"])
    found = judged.happened(write(f"{tmp_path}/a"))
    assert found is not None and "no one was asked" in found.reason
    assert judged.happened(write(f"{tmp_path}/a"), asked=True) is None


def test_its_rules_about_paths_are_given_to_a_sandbox(tmp_path: Path) -> None:
    found = policy(tmp_path, deny_read=["secret"], deny_write=["kept"]).path_rules
    assert f"{tmp_path}/secret" in found.hidden_patterns() and f"{tmp_path}/kept" in found.protected_patterns()
