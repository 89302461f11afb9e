from click.testing import CliRunner

from treadle.cli.root import treadle


def test_help_shows_how_to_try_it_by_hand() -> None:
    shown = " ".join(CliRunner().invoke(treadle, ["worker", "--help"]).output.split())
    for word in ('{"type":"init"', "treadle worker", "--agent", "HEDDLE_BASE_URL", "treadle docs worker-protocol"):
        assert word in shown
