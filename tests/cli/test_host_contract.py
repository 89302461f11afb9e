"""Files of the contract: checked with what is wrong in them, and their schemas printed or written."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from treadle.cli.host import host
from treadle.testing.conversations.sidecar import SAMPLE_RECEIPT
from treadle.wire.sidecar import receipts
from treadle.wire.sidecar.connection import TYPES


def ran(*arguments: str) -> Result:
    return CliRunner().invoke(host, arguments)


def test_a_schema_is_printed_or_all_of_them_are_written(tmp_path: Path) -> None:
    printed = ran("schema", "receipt").output
    assert json.loads(printed)["title"] == "abp/v0.1 receipt"
    assert ran("schema", "--write", str(tmp_path / "new" / "schemas")).exit_code == 0
    written = {path.name: path.read_text() for path in (tmp_path / "new" / "schemas").iterdir()}
    assert (tmp_path / "new" / "schemas" / "receipt.schema.json").stat().st_mode & 0o777 == 0o644
    assert ran("schema", "--write", str(tmp_path / "new" / "schemas")).exit_code == 0, "once more"
    assert ran("schema", "--write", __file__).exit_code == 2 and ran("schema", "nothing").exit_code == 2
    assert written.keys() == {f"{name}.schema.json" for name in TYPES} and written["receipt.schema.json"] == printed


def test_which_schema_must_be_given() -> None:
    for arguments in (("schema",), ("schema", "receipt", "--write", "x")):
        done = ran(*arguments)
        assert done.exit_code == 2 and "give NAME to print one, or --write DIRECTORY for all" in done.output


def test_a_file_is_valid_or_each_problem_is_named(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    good.write_bytes(receipts.encode(receipts.normal(SAMPLE_RECEIPT)))
    bad.write_bytes(good.read_bytes().replace(b'"run_id"', b'"run"'))
    fine, wrong = ran("validate", str(good)), ran("validate", str(bad), "--json")
    assert (fine.exit_code, fine.output) == (0, f"{good}: receipt, valid\n")
    problems = json.loads(wrong.output)["problems"]
    assert wrong.exit_code == 1 and problems
    text = ran("validate", str(bad))
    assert text.exit_code == 1 and text.output.splitlines()[1:] == [f"  {problem}" for problem in problems]
    assert text.output.startswith(f"{bad}: receipt, not valid\n")
    assert json.loads(ran("validate", str(good), "--json").output)["valid"] is True
    for missing in (tmp_path / "gone.json", tmp_path):
        assert ran("validate", str(missing)).exit_code == 2
