"""What a kit found, for people and for programs: lines, JSON, JUnit, a table of several programs."""

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from typing import Any

from treadle.conform.kit import Kit, Ruling


def counts(rulings: Sequence[Ruling]) -> tuple[int, int, int]:
    """How many clauses were kept, broken and not tried."""
    found = [ruling.outcome for ruling in rulings]
    return found.count("kept"), found.count("broken"), found.count("untried")


def summary(kit: Kit, rulings: Sequence[Ruling]) -> str:
    passed, broken, untried = counts(rulings)
    left = f", {untried} not tried" if untried else ""
    return f"{kit.protocol}: {passed} of {passed + broken} clauses kept{left}"


def as_data(kit: Kit, name: str, rulings: Sequence[Ruling]) -> dict[str, Any]:
    passed, broken, untried = counts(rulings)
    return {
        "protocol": kit.protocol,
        "specification": kit.specification,
        "candidate": name,
        "kept": passed,
        "broken": broken,
        "untried": untried,
        "clauses": rulings,
    }


def junit(kit: Kit, name: str, rulings: Sequence[Ruling]) -> bytes:
    _, broken, untried = counts(rulings)
    about = {"tests": len(rulings), "failures": broken, "skipped": untried}
    suite = ET.Element(
        "testsuite", {"name": f"{kit.protocol}: {name}"} | {key: str(value) for key, value in about.items()}
    )
    for ruling in rulings:
        case = ET.SubElement(
            suite,
            "testcase",
            classname=f"{kit.protocol}.{ruling.section}",
            name=ruling.sentence,
            time=str(ruling.seconds),
        )
        if ruling.outcome == "broken":
            ET.SubElement(case, "failure", message=_plain(ruling.seen))
        elif ruling.outcome == "untried":
            ET.SubElement(case, "skipped", message=_plain(ruling.seen))
    text: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return text


def table(kit: Kit, found: dict[str, Sequence[Ruling]]) -> str:
    """Several programs side by side, in Markdown."""
    marks = {"kept": "yes", "broken": "**no**", "untried": "-"}
    names = list(found)
    rows = [f"| {kit.protocol} | {' | '.join(names)} |", "|---" * (len(names) + 1) + "|"]
    passed = (counts(found[name]) for name in names)
    rows.append(f"| clauses kept | {' | '.join(f'{some} of {some + broken}' for some, broken, _ in passed)} |")
    for together in zip(*found.values(), strict=True):
        rows.append(f"| {together[0].sentence} | {' | '.join(marks[ruling.outcome] for ruling in together)} |")
    return "\n".join(rows) + "\n"


def _plain(text: str) -> str:
    """Without the control characters that XML has no form for."""
    return "".join(char if char.isprintable() or char in "\n\t" else "\ufffd" for char in text)
