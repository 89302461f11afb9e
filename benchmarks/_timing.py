"""Times whole commands in turn, so that a noisy machine disturbs all of them alike."""

import statistics
import subprocess
import time


def interleaved(commands: dict[str, list[str]], rounds: int) -> dict[str, float]:
    """The median wall time of each command in milliseconds, over rounds in which each ran once."""
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
            taken[name].append((time.perf_counter() - started) * 1000)
    return {name: statistics.median(times) for name, times in taken.items()}


def show(medians: dict[str, float], against: str, goal: dict[str, float] | None = None) -> None:
    for name, median in medians.items():
        ratio = median / medians[against]
        wanted = f"   (goal: at most {goal[name]}x)" if goal and name in goal else ""
        print(f"{name:32} {median:8.1f} ms   {ratio:5.2f}x {against}{wanted}")
