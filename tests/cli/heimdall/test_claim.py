"""heimdall-claim, as a program reads it; tests/coordination/test_claims.py has what it does."""

import json

from tests.coordination.conftest import Run


def test_a_check_and_the_guards_come_as_json_too(heimdall: Run) -> None:
    assert json.loads(heimdall("claim", "check", "a", "--json").stdout) == {"clear": True, "overlaps": []}
    status = {"pre-commit": "absent", "pre-push": "absent"}
    assert json.loads(heimdall("claim", "guard", "status", "--json").stdout) == status
