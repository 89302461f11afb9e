"""The fleet's commands in this process: as typed, without the half second that it takes to start Python."""

import json
from typing import Any

from click.testing import CliRunner

from treadle.cli.fleet import fleet as group
from treadle.errors import TreadleError


def fleet(*arguments: str, code: int = 0, stdin: str = "") -> str:
    """What `treadle fleet ...` prints; on stderr too where it fails."""
    done = CliRunner().invoke(group, arguments, input=stdin)
    failed = done.exception
    if failed is not None and not isinstance(failed, SystemExit | TreadleError):
        raise failed
    said = f"treadle: {failed}" if isinstance(failed, TreadleError) else ""
    assert done.exit_code == code, (arguments, done.output, said)
    return done.stdout if code == 0 else done.output + said


def as_json(*arguments: str, **more: Any) -> Any:
    return json.loads(fleet(*arguments, "--json", **more))
