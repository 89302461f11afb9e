"""The repository, its tasks, and what the scripted model does about each.

A task is a prompt with its id in brackets. The model answers it with one shell command, which edits, commits and prints
the id, and then with "Done". An edit looks at what is there, as a model does: given a conflict or a newer base it still
ends in the right file.
"""

import json
import re
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.drivers.scenarios import Tools

from treadle.agent.providers.script import (
    CallLine,
    Cue,
    ErrorLine,
    Fault,
    Player,
    Script,
    ScriptedReply,
    UsageLine,
)
from treadle.testing.server import ModelServer

Kind = Literal["free", "one line", "red together", "lie", "asks", "impossible", "flaky"]
USED = UsageLine(input=1000, output=100)
THINKS = 2.0
"""Seconds before each reply, so that the agents are at work when a fault comes."""
CHECK = "python3 -m unittest -q"
FILES = {
    "shop/__init__.py": "",
    "shop/registry.py": 'FEATURES = ["cart"]\n',
    "shop/prices.py": "def price(item):\n    return len(item) * 10\n",
    "shop/total.py": (
        "from shop.prices import price\n\n\ndef total(items):\n    return sum(price(item) for item in items)\n"
    ),
    "tests/__init__.py": "",
    "tests/test_shop.py": (
        "import unittest\n\nfrom shop.registry import FEATURES\nfrom shop.total import total\n\n\n"
        "class Shop(unittest.TestCase):\n"
        "    def test_features(self):\n        self.assertEqual(len(FEATURES), len(set(FEATURES)))\n\n"
        '    def test_total(self):\n        self.assertEqual(total(["a", "bb"]), 30)\n'
    ),
    ".gitignore": "__pycache__/\n",
    "README.md": "# A shop\n",
}


@dataclass(frozen=True)
class Task:
    id: str
    kind: Kind
    asked: str
    edit: str
    """A Python program, run at the top of the repository."""
    proof: str
    """A Python program that fails unless the work is on the branch."""

    @property
    def prompt(self) -> str:
        return f"[{self.id}] {self.asked} Commit your work."

    @property
    def can_be_done(self) -> bool:
        return self.kind not in ("lie", "asks", "impossible")

    @property
    def command(self) -> str:
        if self.kind == "lie":
            return f"echo '{self.id} edited'"
        return (
            f"python3 - <<'EOF'\n{self.edit}\nEOF\n"
            f"git add -A; git commit -qm '{self.id}: {self.asked[:40]}'; echo '{self.id} edited'"
        )


def _test(name: str, body: str) -> str:
    text = f"import unittest\n\n\nclass T(unittest.TestCase):\n    def test_{name}(self):\n{body}"
    return f'from pathlib import Path\nPath("tests/test_{name}.py").write_text({text!r})\n'


def _free(number: int) -> Task:
    name = f"free{number}"
    body = f"        from shop.{name} import {name}\n\n        self.assertEqual({name}(2), {number * 2})\n"
    code = f"def {name}(n):\n    return n * {number}\n"
    edit = _test(name, body) + f'Path("shop/{name}.py").write_text({code!r})'
    proof = f"from shop.{name} import {name}; assert {name}(3) == {number * 3}"
    return Task(f"F{number:02}", "free", f"Add shop/{name}.py with {name}(n), which is n times {number}.", edit, proof)


def _one_line(number: int) -> Task:
    feature = f"feature{number}"
    edit = f"""\
import re
from pathlib import Path
path = Path("shop/registry.py")
found = dict.fromkeys(re.findall(r'"(\\w+)"', path.read_text()))
found["{feature}"] = None
path.write_text("FEATURES = [" + ", ".join(f'"{{name}}"' for name in found) + "]\\n")"""
    proof = f'from shop.registry import FEATURES; assert FEATURES.count("{feature}") == 1'
    return Task(f"L{number:02}", "one line", f"Add {feature!r} to FEATURES in shop/registry.py.", edit, proof)


CURRENCY = """\
import re
from pathlib import Path
Path("shop/prices.py").write_text("def price(item, currency):\\n    return (len(item) * 10, currency)\\n")
for path in Path("shop").glob("*.py"):
    if path.name != "prices.py":
        text = re.sub(r"price\\((\\w+)\\)(?!\\[)", r'price(\\1, "EUR")[0]', path.read_text())
        path.write_text(text)"""
DISCOUNT = """\
from pathlib import Path
call = 'price(item, "EUR")[0]' if "currency" in Path("shop/prices.py").read_text() else "price(item)"
Path("shop/discount.py").write_text(
    f"from shop.prices import price\\n\\n\\ndef discount(item):\\n    return {call} // 2\\n")
"""
PAIR = (
    Task(
        "P01",
        "red together",
        "price(item, currency) returns the price and its currency; adapt all callers.",
        CURRENCY,
        'from shop.prices import price; assert price("a", "EUR") == (10, "EUR")',
    ),
    Task(
        "P02",
        "red together",
        "Add discount(item) in shop/discount.py: half of its price, with a test.",
        DISCOUNT
        + _test(
            "discount", '        from shop.discount import discount\n\n        self.assertEqual(discount("ab"), 10)\n'
        ),
        'from shop.discount import discount; assert discount("ab") == 10',
    ),
)
LIE = Task("X01", "lie", "Add shop/audit.py with audit().", "", "import shop.audit")
ASKS = Task("Q01", "asks", "Add shop/tax.py with tax(price).", "", "import shop.tax")
"""The agent ends its turn with a question; a person is asleep, so that no work of it is right."""
IMPOSSIBLE = Task(
    "I01",
    "impossible",
    "Add shop/oracle.py with answer(), which knows tomorrow's prices, and its test.",
    'from pathlib import Path\nPath("shop/oracle.py").write_text("def answer():\\n    return None\\n")\n'
    + _test("oracle", "        from shop.oracle import answer\n\n        self.assertEqual(answer(), 42)\n"),
    "from shop.oracle import answer; assert answer() == 42",
)
FLAKY = Task(
    "Y01",
    "flaky",
    "Add shop/clock.py with now(), and its test.",
    'from pathlib import Path\nPath("shop/clock.py").write_text("def now():\\n    return 1\\n")\n'
    + _test("clock", "        import os\n\n        self.assertTrue(os.urandom(1)[0] > 50)\n"),
    "from shop.clock import now; assert now() == 1",
)
SHORT = (*PAIR, _one_line(1), _one_line(2), _free(1), LIE)
WHOLE = (*(_free(n) for n in range(1, 10)), *(_one_line(n) for n in range(1, 6)), *PAIR, LIE, ASKS, IMPOSSIBLE, FLAKY)


class Model(ModelServer):
    """The same answers whoever asks: to a task its command, to the result of that "Done", to anything else "Done".

    What a conversation is about is the first task that it names: later messages may speak of others.
    """

    def __init__(self, tasks: tuple[Task, ...], faults: Iterable[Fault | ErrorLine | None], tools: Tools) -> None:
        super().__init__(Script(reply=(ScriptedReply(text="Done."),)), faults=faults)
        self.tasks, self.tools = {task.id: task for task in tasks}, tools
        self.player = _TaskPlayer(self)

    @property
    def tokens(self) -> int:
        """What was sent, at four characters a token: the same estimate for everyone."""
        return sum(len(json.dumps(request.body)) for request in self.asked) // 4


class _TaskPlayer(Player):
    def __init__(self, model: Model) -> None:
        super().__init__(model.player.script)
        self.model = model

    def next(self, asked: Cue) -> ScriptedReply:
        body = self.model.requests[-1].body
        named = re.search(r"\[([A-Z]\d\d)\]", json.dumps([body.get("messages"), body.get("input")]))
        task = self.model.tasks.get(named[1]) if named else None
        if task is None or not body.get("tools"):
            return ScriptedReply(text="Done.", usage=USED)
        if task.kind == "asks":
            return ScriptedReply(text="Which rate of tax: the full or the reduced one?", usage=USED, delay=THINKS)
        if f"{task.id} edited" in asked.last:
            return ScriptedReply(text=f"{task.id}: done, all tests pass.", usage=USED, delay=THINKS)
        name, arguments = self.model.tools.shell(task.command)
        return ScriptedReply(call=(CallLine(name=name, arguments=arguments),), usage=USED, delay=THINKS)

    peek = next


def git(root: Path, *words: str, check: bool = True) -> str:
    who = ("-c", "user.name=A person", "-c", "user.email=person@example.org", "-c", "core.hooksPath=/dev/null")
    done = subprocess.run(["git", "-C", str(root), *who, *words], capture_output=True, text=True, check=check)
    return done.stdout.strip()


def make_repository(root: Path) -> str:
    """Returns the first commit."""
    for name, text in FILES.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "A person")
    git(root, "config", "user.email", "person@example.org")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "A shop")
    return git(root, "rev-parse", "HEAD")
