from click.testing import CliRunner

from treadle.cli.root import treadle


def test_help_shows_how_to_try_it_by_hand() -> None:
    shown = CliRunner().invoke(treadle, ["worker", "--help"]).output
    for word in ('{"type":"init"', "treadle worker", "--agent", "HEDDLE_BASE_URL", "treadle docs worker-protocol"):
        assert word in shown
