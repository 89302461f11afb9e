"""The example of a distribution that adds forges passes its own tests, which run here as a third party's would."""

import os
import subprocess
import sys

import pytest

from tests.distributions import EXAMPLES


@pytest.mark.slow
def test_the_example_with_gitlab_and_forgejo_passes_its_own_tests() -> None:
    path = os.pathsep.join([str(EXAMPLES / "forges" / "src"), str(EXAMPLES.parent)])
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(EXAMPLES / "forges" / "tests")]
    done = subprocess.run(words, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stdout[-4000:]
