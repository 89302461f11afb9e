"""The names of the files that a person means when they begin to write one."""

from itertools import islice

from treadle.io.walking import Walk
from treadle.workspace.user_repository import UserRepository

FILES = 20_000
SHOWN = 50


def listed(cwd: str) -> list[str]:
    """The files of a directory except those that git ignores; outside of a repository, all but hidden ones.

    We read them ourselves: git would obey what an agent may have put there.
    """
    shown = (name for name, _ in Walk(cwd))
    if UserRepository.around(cwd) is None:
        shown = (name for name in shown if not f"/{name}".count("/."))
    return [*islice(shown, FILES)]


def matching(files: list[str], begun: str) -> list[str]:
    """Those that have this in them: first those that begin with it, the shortest first."""
    wanted = begun.lower()
    hits = [path for path in files if wanted in path.lower()]
    hits.sort(key=lambda path: (not path.lower().startswith(wanted), len(path), path))
    return hits[:SHOWN]
