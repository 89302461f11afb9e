"""The limits of `[sandbox]`."""

from pathlib import Path

import pytest

from tests.settings.test_config import user_says
from treadle.confinement import ResourceLimits
from treadle.errors import ConfigError
from treadle.sandboxed.confining import settled
from treadle.session import Confinement
from treadle.settings import config
from treadle.settings.config import size, written_out


def test_a_size_is_a_number_with_a_unit() -> None:
    assert [size(text) for text in ("4GB", "4 GB", "4G", "512MB", "7", "1T")] == [
        *[4 << 30] * 3,
        *(512 << 20, 7, 1 << 40),
    ]
    assert size(None) is None and size("off") == 0 and size("3 K") == 3072


@pytest.mark.parametrize("use", [True, False])
def test_true_and_false_are_short_for_its_use(use: bool) -> None:
    assert written_out({"sandbox": use, "model": "m"}) == {"sandbox": {"use": use}, "model": "m"}
    for table in ({"sandbox": {"use": use, "read": []}}, {"model": "m"}):
        assert written_out(table) is table


def test_the_limits_of_the_settings_hold_unless_others_were_asked_for(tmp_path: Path) -> None:
    user_says('[sandbox]\nmemory = "4GB"\nprocesses = 0\ndisk = "off"')
    settings = config.load(str(tmp_path)).settings
    assert settled(Confinement(), settings).limits == ResourceLimits(memory=4 << 30, processes=0, disk=0)
    mine = ResourceLimits(memory=1)
    assert settled(Confinement(limits=mine), settings).limits == mine


@pytest.mark.parametrize("wrong", ['memory = "much"', 'memory = "4 XB"', "processes = -1", 'disk = "-5GB"'])
def test_what_is_no_size_is_refused(tmp_path: Path, wrong: str) -> None:
    user_says(f"[sandbox]\n{wrong}")
    with pytest.raises(ConfigError, match=wrong.partition(" ")[0]):
        config.load(str(tmp_path))
