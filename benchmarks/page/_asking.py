"""Orders whose agent asks before each of its commands."""

import subprocess
from pathlib import Path

from treadle.fleet.orders import new_id
from treadle.wire.fleet.orders import Spec
from treadle.workspace.branch_moves import tip
from treadle.workspace.checkouts import around


def make_repository(place: Path) -> Path:
    place.mkdir()
    (place / "a.txt").write_text("one\n")
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "start"]):
        identity = ["-c", "user.name=b", "-c", "user.email=b@example.invalid"]
        subprocess.run(["git", *identity, *command], cwd=place, check=True, stdout=subprocess.DEVNULL)
    return place


def asking(repository: Path, questions: int) -> Spec:
    """An order whose model runs this many commands, one after the other; each leaves a file."""
    name = new_id()
    replies = "".join(
        f'[[reply]]\ntext = "Next."\n[[reply.call]]\nname = "bash"\n'
        f'arguments = {{ command = "touch {name}-{number}" }}\n'
        for number in range(questions)
    )
    script = repository.parent / f"{name}.toml"
    script.write_text(f'{replies}[[reply]]\ntext = "Done."\ntimes = "always"\n')
    base = tip(around(str(repository)), "HEAD")
    return Spec(
        id=name,
        task="ask",
        agent="native",
        root=str(repository),
        base=base,
        model=f"scripted:{script}",
        mode="auto-edit",
    )
