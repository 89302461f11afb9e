"""The tasks, by size. A set is sizes, names of tasks or `all`, separated by commas."""

from evals.task import SIZES, Task
from evals.tasks.medium import MEDIUM
from evals.tasks.small import SMALL
from evals.tasks.tiny import TINY
from treadle.errors import ConfigError

ALL: tuple[Task, ...] = (*TINY, *SMALL, *MEDIUM)


def select(wanted: str) -> tuple[Task, ...]:
    """The selected tasks, in the order in which they are named."""
    sets = {"all": ALL} | {size: tuple(task for task in ALL if task.size == size) for size in SIZES}
    sets |= {task.name: (task,) for task in ALL}
    names = [name.strip() for name in wanted.split(",") if name.strip()]
    unknown = [name for name in names if name not in sets]
    if unknown or not names:
        raise ConfigError(f"there is no task or set {unknown or wanted}", hint="`python -m evals list` shows them")
    return tuple({task.name: task for name in names for task in sets[name]}.values())
