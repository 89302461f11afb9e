"""How objects reach a person's repository: as a pack, of which git hashes and checks every object and every link.

`git bundle unbundle` and `git fetch` do not check, so nothing of ours uses them for what an agent has made.
"""

from collections.abc import Sequence

from treadle.errors import WorkspaceError
from treadle.io import scratch
from treadle.workspace.store import LONG, Store, bundle_parts
from treadle.workspace.user_repository import UserRepository


def lacks(user: UserRepository, ids: Sequence[str]) -> list[str]:
    """Those of the objects that a person's repository does not have.

    It is not asked itself: in a partial clone git would fetch them, from where and by what the settings say.
    """
    if not ids:
        return []
    with scratch.directory("objects") as place:
        wide = len(ids[0]) == 64
        store = Store.make(place, lenders=user.object_places(), algorithm="sha256" if wide else "sha1")
        asked = "".join(f"{one}\n" for one in ids).encode()
        answers = store.git("cat-file", "--batch-check=%(objectname)", stdin=asked, lent=True).stdout
    missing = {line.split()[0] for line in answers.decode().splitlines() if line.endswith(" missing")}
    return [one for one in ids if one in missing]


def receive(user: UserRepository, pack: bytes, wanted: Sequence[str]) -> None:
    """Put the objects of a pack into the repository. Raises WorkspaceError if one is malformed, is not what its name
    says or names one that is nowhere, and if any of those `wanted` is not there afterwards."""
    user.run("index-pack", "--stdin", "--fix-thin", "--strict", stdin=pack, timeout=LONG)
    asked = "".join(f"{one}\n" for one in wanted).encode()
    if user.run("cat-file", "--batch-check=%(objectname)", stdin=asked).stdout != asked:
        raise WorkspaceError(f"not all of {len(wanted)} objects arrived, such as {wanted[0]}")


def receive_bundle(user: UserRepository, bundle: bytes, wanted: Sequence[str]) -> None:
    receive(user, bundle_parts(bundle)[1], wanted)


def give(store: Store, user: UserRepository, commit: str, *, without: str) -> None:
    """Give a repository that has the commit `without` the objects of a commit in our store."""
    asked = f"{commit}\n^{without}\n".encode()
    words = ["pack-objects", "--stdout", "--revs", "--thin", "--delta-base-offset", "-q"]
    receive(user, store.git(*words, lent=True, stdin=asked, timeout=LONG).stdout, [commit])
