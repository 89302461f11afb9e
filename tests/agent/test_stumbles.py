"""A model that stumbles: it is told what is wrong, and a run ends in an answer if the model listens."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.agent.opened import of, turn
from tests.scripts import calls, says
from treadle.agents import find_agent
from treadle.events import TurnEnded, Warned
from treadle.session import SessionSpec

ANSWER = "the answer"
TOLD = "^Note: "


def sh(command: str, **more: object) -> str:
    return calls("bash", {"command": command, **more})


def always(*steps: str) -> str:
    """These calls, one after the other, for ever."""
    return "".join(steps) * 30


def look(number: int) -> str:
    """One of many calls that are the same each time, without a process."""
    return calls("read_file", {"file_path": "a.txt", "limit": number + 1})


def varied(name: str, make: Callable[[int], dict[str, object] | str]) -> str:
    return "".join(calls(name, make(number)) for number in range(60))


REPEATS = {
    "the same command": always(sh("ls")),
    "the same read": always(calls("read_file", {"file_path": "a.txt"})),
    "the same search": always(calls("grep", {"pattern": "alpha"})),
    "the same list": always(calls("glob", {"pattern": "*.txt"})),
    "the same failing edit": always(calls("edit_file", {"file_path": "a.txt", "old_string": "x", "new_string": "y"})),
    "the same file written": always(calls("write_file", {"file_path": "b.txt", "content": "b"})),
    "a tool that does not exist": always(calls("nope", {"a": 1})),
    "two commands in turn": always(sh("ls"), sh("pwd")),
    "three calls in turn": always(*map(look, range(3))),
    "four calls in turn": always(*map(look, range(4))),
    "six calls in turn": always(*map(look, range(6))),
    "the same five in any order": look(0) + "".join(look(number * number % 5) for number in range(60)),
    "edits that fail, each a little different": varied(
        "edit_file", lambda n: {"file_path": "a.txt", "old_string": f"no {n} such", "new_string": str(n)}
    ),
    "reads of files that are not there": varied("read_file", lambda n: {"file_path": f"missing{n}.txt"}),
    "commands that fail alike": varied("bash", lambda n: {"command": f"exit 3 # {n}"}),
    "calls without what is needed": varied("read_file", lambda n: {"limit": n + 1}),
    "calls that are no JSON": varied("bash", lambda n: f"{{ls {n}"),
    "a tool that does not exist, called otherwise": varied("nope", lambda n: {"n": n}),
    "one command, always another result": always(sh("date +%N")),
}


def cut(name: str, arguments: str, *before: tuple[str, dict[str, object]]) -> str:
    first = "".join(f"[[reply.call]]\nname = '{name}'\narguments = {_inline(args)}\n" for name, args in before)
    return f"[[reply]]\nfinish = 'length'\n{first}[[reply.call]]\nname = '{name}'\narguments = '{arguments}'\n"


def _inline(args: dict[str, object]) -> str:
    return "{ " + ", ".join(f"{name} = '{value}'" for name, value in args.items()) + " }"


SEEN = "output limit cut this call off"
OTHERS = {
    "a file cut off": (cut("write_file", '{"file_path":"b.txt","content":"one'), SEEN),
    "a command cut off": (cut("bash", '{"command":"rm -rf a.tx'), SEEN),
    "an edit cut off": (cut("edit_file", '{"file_path":"a.txt","old_string":"alpha","new_st'), SEEN),
    "a call cut off at its name": (cut("bash", ""), SEEN),
    "the second of two cut off": (cut("bash", '{"comm', ("read_file", {"file_path": "a.txt"})), SEEN),
    "an answer cut off": ("[[reply]]\ntext = 'the '\nfinish = 'length'\n[[reply]]\ntext = 'answer'\n", "never"),
    "a whole call at the limit": (cut("bash", '{"command":"cat a.txt"}'), "alpha"),
    "nothing said, once": ("[[reply]]\n", "."),
    "no output": (sh("true"), "exit code 0|no output"),
    "binary output": (sh("printf '\\377\\376\\000x'"), "x"),
    "huge output": (sh("yes alpha | head -c 3000000"), "alpha"),
    "a long line": (sh("head -c 400000 /dev/zero | tr '\\0' a"), "aaaa"),
    "a command that does not exist": (sh("frobnicate"), "not found"),
    "a command that hangs": (sh("sleep 300", timeout=1), "1 s|timed out|too long"),
    "a command that is killed": (sh("kill -9 $$"), "exit|signal|killed"),
    "a directory that is not there": (sh("cd nowhere && ls"), "nowhere"),
    "a directory read as a file": (calls("read_file", {"file_path": "."}), "directory"),
    "a file written over a directory": (calls("write_file", {"file_path": ".", "content": "x"}), "director"),
    "an edit of what is there twice": (
        calls("edit_file", {"file_path": "twice.txt", "old_string": "b", "new_string": "c"}),
        "2|twice|times",
    ),
    "a reply that breaks off": ("[[reply]]\ntext = 'the '\nfault = 'cut'\n" + says(ANSWER), "never"),
    "a service that fails once": ("[[reply]]\nerror = { status = 500 }\n", "."),
    "a service that is busy twice": ("[[reply]]\nerror = { status = 429, retry_after = 0 }\ntimes = 2\n", "."),
}
ROWS = {name: (script, TOLD) for name, script in REPEATS.items()} | OTHERS


async def ended(tmp_path: Path, script: str, **extra: object) -> tuple[TurnEnded, list[str]]:
    """How the run ended, and what the model was told of repeating itself."""
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("alpha\n")
    (work / "twice.txt").write_text("b\nb\n")
    (tmp_path / "script.toml").write_text(script)
    spec = SessionSpec(cwd=str(work), model=f"scripted:{tmp_path / 'script.toml'}", mode="yolo", extra=extra)
    session = await find_agent().open(spec)
    events = await turn(session)
    await session.close()
    assert (work / "a.txt").read_text() == "alpha\n"
    last = events[-1]
    assert isinstance(last, TurnEnded)
    return last, [event.message for event in of(events, Warned) if event.code == "repeats"]


@pytest.mark.parametrize("name", ROWS)
async def test_a_run_whose_model_listens_ends_in_an_answer(name: str, tmp_path: Path) -> None:
    script, seen = ROWS[name]
    end, _ = await ended(tmp_path, says(ANSWER, when=seen) + script)
    assert (end.outcome, end.text) == ("completed", ANSWER), end.error


@pytest.mark.parametrize("name", REPEATS)
async def test_a_model_that_does_not_listen_is_told_twice_before_its_turn_ends(name: str, tmp_path: Path) -> None:
    end, told = await ended(tmp_path, REPEATS[name] * 3)
    assert end.outcome == "limited" and end.error is not None and end.error.code == "loop_detected"
    assert len(told) >= 2 and "more the turn is ended" in told[-1]


async def test_a_worker_stops_at_the_threshold_of_its_protocol_and_is_told_before(tmp_path: Path) -> None:
    end, told = await ended(tmp_path, REPEATS["the same command"], strict_repeats=True)
    assert end.error is not None and end.error.details == {"loop_count": 3, "loop_threshold": 3, "cycle": 1}
    assert len(told) == 1 and "came 2 times in a row" in told[0]
