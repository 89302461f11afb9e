"""The paths of a checkout that decide what the person's next git command does."""

import os
import subprocess
from pathlib import Path

import pytest

from treadle.errors import WorkspaceError
from treadle.workspace.gate import TreeGate, obeyed, settings_files
from treadle.workspace.user_repository import UserRepository


@pytest.fixture
def top(tmp_path: Path) -> Path:
    place = tmp_path / "checkout"
    place.mkdir()
    git(place, "init", "-q")
    return place


def git(top: Path, *words: str) -> None:
    subprocess.run(["git", *words], cwd=top, check=True, capture_output=True)


def reasons(top: Path, *paths: str) -> list[bool]:
    user = UserRepository.at(str(top))
    assert user is not None
    reason = obeyed(user)
    return [bool(reason(path)) for path in paths]


def test_nothing_is_obeyed_but_git_itself_where_nothing_is_configured(top: Path) -> None:
    paths = ("a", "hooks/post-checkout", ".githooks/x", ".git/config", "sub/.git/hooks/x", ".GIT/x", "git")
    assert reasons(top, *paths) == [False, False, False, True, True, True, False]


def test_the_configured_directory_of_hooks_and_what_leads_to_it(top: Path) -> None:
    git(top, "config", "core.hooksPath", "tools/hooks")
    paths = ("tools/hooks/post-checkout", "tools/hooks/a/b", "tools/hooks", "tools", "Tools/Hooks/x")
    assert reasons(top, *paths) == [True] * 5
    assert reasons(top, "tools/other", "tools/hooks2", "hooks") == [False] * 3


def test_every_link_on_the_way_to_the_hooks_counts(top: Path) -> None:
    os.symlink("one", top / ".githooks")
    os.symlink("two", top / "one")
    (top / "two").mkdir()
    git(top, "config", "core.hooksPath", ".githooks")
    assert reasons(top, ".githooks", "one", "two/pre-commit", "three/x") == [True, True, True, False]


def test_a_checkout_that_is_its_own_directory_of_hooks(top: Path) -> None:
    git(top, "config", "core.hooksPath", str(top))
    assert reasons(top, "post-checkout") == [True]


def test_hooks_elsewhere_do_not_matter_here(top: Path, tmp_path: Path) -> None:
    git(top, "config", "core.hooksPath", str(tmp_path / "elsewhere"))
    assert reasons(top, "elsewhere/x", "a") == [False, False]


def test_included_files_even_those_that_are_not_there_yet(top: Path) -> None:
    (top / "more.cfg").write_text("[include]\n\tpath = deep/most.cfg\n")
    git(top, "config", "include.path", "../more.cfg")
    git(top, "config", "includeIf.onbranch:never.path", "../other.cfg")
    assert reasons(top, "more.cfg", "deep/most.cfg", "other.cfg", "a.cfg") == [True, True, True, False]


def test_programs_of_the_checkout_that_the_configuration_names(top: Path) -> None:
    git(top, "config", "filter.x.clean", "sh ./tools/clean.sh %f")
    git(top, "config", "alias.up", "!tools/up 'a b'")
    git(top, "config", "core.fsmonitor", ".git/watch")
    git(top, "config", "user.name", "some/one")
    assert reasons(top, "tools/clean.sh", "tools/up", "some/one", "tools/x") == [True, True, False, False]


def test_a_configuration_that_cannot_be_read_is_an_error_and_not_an_answer(top: Path) -> None:
    user = UserRepository.at(str(top))
    (top / ".git" / "config").write_text("[broken\n")
    assert user is not None
    with pytest.raises(WorkspaceError):
        obeyed(user)


def hook(top: Path, place: str, text: str) -> None:
    (top / place).parent.mkdir(parents=True, exist_ok=True)
    (top / place).write_text(text)


def test_the_scripts_above_the_hooks_of_husky(top: Path) -> None:
    git(top, "config", "core.hooksPath", ".husky/_")
    hook(top, ".husky/_/pre-commit", '#!/usr/bin/env sh\n. "$(dirname "$0")/h"')
    assert reasons(top, ".husky/pre-commit", ".husky/common.sh", ".husky/_/h", "package.json") == [True] * 3 + [False]


@pytest.mark.parametrize(
    ("text", "file"),
    [
        ("exec pre-commit hook-impl --hook-type=pre-commit", ".pre-commit-config.yaml"),
        ("ARGS=(hook-impl --config=ci/hooks.yaml --hook-type=pre-commit)", "ci/hooks.yaml"),
        ('call_lefthook run "pre-commit" "$@"; lefthook', "lefthook.yml"),
        ("require 'overcommit'", ".overcommit.yml"),
    ],
)
def test_what_a_manager_of_hooks_reads_if_its_hook_is_installed(top: Path, text: str, file: str) -> None:
    hook(top, ".git/hooks/pre-push.sample", text)
    assert reasons(top, file) == [False]
    hook(top, ".git/hooks/pre-push", f"#!/bin/sh\n{text}\n")
    assert reasons(top, file, "other.yaml") == [True, False]
    user = UserRepository.at(str(top))
    assert user is not None and str(top / file) in settings_files(user)


def test_paths_of_a_directory_count_from_there_and_without_a_repository_none_does(top: Path, tmp_path: Path) -> None:
    git(top, "config", "core.hooksPath", "sub/hooks")
    (top / "sub").mkdir()
    below, whole = TreeGate.around(str(top / "sub")), TreeGate.around(str(top))
    assert below.why("hooks/x") and not below.why("sub/hooks/x") and whole.why("sub/hooks/x")
    assert not TreeGate.around(str(tmp_path)).why("checkout/hooks/x")


def test_files_of_settings_are_those_that_are_read_and_links_to_them(top: Path, tmp_path: Path) -> None:
    (tmp_path / "real.cfg").write_text("[user]\n\tname = x\n")
    (top / "link.cfg").symlink_to(tmp_path / "real.cfg")
    git(top, "config", "include.path", "../link.cfg")
    git(top, "config", "core.hooksPath", "hooks")
    git(top, "config", "filter.x.clean", "tools/clean")
    hook(top, "hooks/pre-commit", "exec lefthook run; pre-commit --config ci/h.yaml")
    (top / "hooks" / "folder").mkdir()
    user = UserRepository.at(str(top))
    assert user is not None
    found = settings_files(user)
    wanted = [
        top / ".git/config",
        top / "link.cfg",
        tmp_path / "real.cfg",
        top / ".lefthook-local.yaml",
        top / "ci/h.yaml",
    ]
    assert {str(path) for path in wanted} <= {*found} and len(found) == len({*found})
    assert not {str(top / name) for name in ("hooks", "hooks/pre-commit", "tools/clean")} & {*found}
