"""Before a gigabyte is fetched: what the local model needs of the system."""

from pathlib import Path

import pytest

from treadle.cli.choosing import fetch
from treadle.errors import ConfigError


async def test_a_library_that_the_system_lacks_is_named_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(fetch, "OPENMP", "libnot-there.so.9")
    monkeypatch.setenv("PATH", str(tmp_path))  # no apt-get
    with pytest.raises(ConfigError, match=r"needs libnot-there\.so\.9") as raised:
        await fetch.fetch_local()
    assert raised.value.hint is not None and "apt install libgomp1" in raised.value.hint
