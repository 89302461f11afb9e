"""Which files the words of a command name, and what git is told to run."""

import pytest

from treadle.policy.programs import git_options, git_runs, mentioned, written


@pytest.mark.parametrize(
    ("words", "files"),
    [
        ("secrets/key", {"secrets/key"}),
        ("-n --all", {""}),
        ("-osecrets/key", {"secrets/key"}),
        ("--file=secrets/key", {"secrets/key"}),
        ("if=secrets/key", {"if=secrets/key", "secrets/key"}),
        ("-F f=@secrets/key", {"", "f=@secrets/key", "secrets/key"}),
        ("HEAD:secrets/key", {"HEAD:secrets/key", "secrets/key"}),
        ("$PWD/key ${PWD}/key ~+/key", {"./key"}),
    ],
)
def test_every_file_that_a_word_could_name_is_found(words: str, files: set[str]) -> None:
    assert set(mentioned(words.split())) == files


@pytest.mark.parametrize(
    ("command", "files"),
    [
        ("cat .env", set()),
        ("/bin/cp a .env", {"a", ".env"}),
        ("curl -o .env url", {".env"}),
        ("wget --output-document=.env url", {".env"}),
        ("git restore .env", {"restore", ".env"}),
        ("git log .env", set()),
        ("find . -name .env", set()),
        ("find . -fprint .env", {".env"}),
    ],
)
def test_what_a_command_could_write_is_found(command: str, files: set[str]) -> None:
    assert set(written(command.split())) == files


def test_find_writes_what_it_deletes() -> None:
    assert ".env" in written("find . -name .env -delete".split())


def test_the_command_of_git_is_found_behind_its_options() -> None:
    words = "git -C dir -c core.Pager=x --git-dir=y --work-tree z -P --no-pager push -f".split()
    assert git_options(words) == ([("core.pager", "x")], words.index("push"))
    assert git_options(["git"]) == ([], 1) and git_options(["git", "-c"]) == ([], 3)


@pytest.mark.parametrize(
    "key", ["core.pager", "core.sshcommand", "core.fsmonitor", "diff.x.textconv", "filter.x.clean", "credential.helper"]
)
def test_settings_that_git_runs_are_known(key: str) -> None:
    assert git_runs(key, "evil") and not git_runs(key, "cat")


def test_other_settings_of_git_are_only_settings() -> None:
    assert not any(git_runs(key, "evil") for key in ("user.name", "core.bare", "color.ui", "push.default"))
