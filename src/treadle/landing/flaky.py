"""Which tests a check's output says have failed, so that flaky ones can be counted by name. Pure."""

import re

MOST = 20
_FAILED = (
    re.compile(r"^FAILED (\S+::\S+)", re.M),  # pytest
    re.compile(r"^(?:FAIL|ERROR): (\S+ \([\w.]+\))", re.M),  # unittest
    re.compile(r"^\s*--- FAIL: (\S+)", re.M),  # go
    re.compile(r"^test (\S+) \.\.\. FAILED$", re.M),  # cargo
    re.compile(r"^\s*(?:✕|✗|×) (.+?)(?: \(\d+ ?m?s\))?$", re.M),  # jest, mocha, vitest
    re.compile(r"^not ok \d+ -? ?(.+)$", re.M),  # TAP
)


def failed_tests(output: str) -> tuple[str, ...]:
    """The names of the tests that failed; empty where no known form of output names one."""
    found = dict.fromkeys(match for pattern in _FAILED for match in pattern.findall(output))
    return tuple(found)[:MOST]
