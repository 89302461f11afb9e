"""`--json`: one form for all commands."""

import click
from click.testing import CliRunner

from treadle.cli.as_json import json_option, show_json


@click.command()
@json_option
def tell(as_json: bool) -> None:
    show_json({"asked": as_json, "names": ["é", "b"]})


def test_what_is_shown_is_indented_json_with_letters_as_they_are() -> None:
    assert (
        CliRunner().invoke(tell, ["--json"]).output == '{\n  "asked": true,\n  "names": [\n    "é",\n    "b"\n  ]\n}\n'
    )
