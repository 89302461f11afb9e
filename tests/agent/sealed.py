"""Agents in a checkout that is sealed."""

from pathlib import Path

from tests.agent.checkouts import git


def log(top: Path, name: str = "HEAD") -> str:
    return git(top, "log", "--format=%s", name)
