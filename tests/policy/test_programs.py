"""Which files the words of a command name, and what git is told to run."""

import pytest

from treadle.policy.programs import (
    QUIET,
    git_looks_with,
    git_options,
    git_runs,
    is_fed,
    may_run,
    mentioned,
    names_a_program,
    written,
)


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


@pytest.mark.parametrize(
    ("command", "texts"),
    [
        ("echo rm", []),
        ("/bin/echo rm", []),
        ("npx rm -rf", ["rm -rf"]),
        ("A=1 rm", []),
        ("cp /usr/bin/rm x", ["/usr/bin/rm"]),
        ("cp usr/bin/rm x", []),
        ("grep /usr/bin/rm x", []),
        ("tar --to-command=rm x", ["rm"]),
        ("tar --to-command rm x", ["rm"]),
        ("tar -I rm x", ["rm"]),
        ("tar -Irm x", ["rm"]),
        ("tar --to-commander rm x", []),
        ("tar -x rm", []),
        ("tar -I", [""]),
        ("sort --filter=rm", []),
        ("less +!rm x", ["!rm"]),
        ("rsync -e rm a b", ["rm"]),
    ],
)
def test_the_words_that_a_command_may_run_are_found(command: str, texts: list[str]) -> None:
    assert list(may_run(command.split())) == texts


@pytest.mark.parametrize(
    ("command", "document", "fed"),
    [
        ("bash", False, True),
        ("/bin/bash -x", False, True),
        ("bash file", False, False),
        ("bash file", True, True),
        ("sqlite3 :memory:", False, True),
        ("cat", True, False),
        ("awk {print}", True, False),
        ("awk {system(x)}", False, True),
        ("gawk x|y", False, True),
        ("make", False, False),
        ("make -f-", False, True),
        ("make", True, True),
        ("jshell", False, True),
    ],
)
def test_what_runs_its_input_is_known(command: str, document: bool, fed: bool) -> None:
    assert is_fed(command.split(), document=document) is fed


def test_variables_that_name_programs_are_known() -> None:
    names = ("EDITOR", "GIT_PAGER", "GIT_X", "PS4", "MY_CMD", "LESSOPEN", "BROWSER")
    assert all(map(names_a_program, names)) and not any(map(names_a_program, ("HOME", "EDITORS", "XPS4", "CMD")))


def test_what_git_runs_even_when_it_only_looks_is_known() -> None:
    keys = ("diff.external", "diff.x.textconv", "core.FSMonitor", "filter.x.clean")
    assert all(git_looks_with(key, "evil") for key in keys)
    assert not any(git_looks_with(key, value) for key in keys for value in ("", "true", "0", "git-lfs clean", "cat"))
    assert not git_looks_with("core.editor", "evil") and "tar" in QUIET
