"""Results as JSON that a later run can be compared with."""

from pathlib import Path

import pytest
from evals.results import Attempt, Configuration, Results, load

from treadle.errors import ConfigError


def attempt(task: str, passed: bool, number: int = 1, tokens: int = 100) -> Attempt:
    return Attempt(
        task=task, size="tiny", kind="fix", number=number, passed=passed, input_tokens=tokens, outcome="completed"
    )


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    results = Results.of(Configuration(model="local", small="-caps"), [attempt("a", True)])
    results.save(tmp_path / "deep" / "r.json")
    assert load(tmp_path / "deep" / "r.json") == results
    assert results.configuration.label == "agent=native model=local small=-caps" and results.cores > 0


def test_what_holds_no_results_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(ConfigError, match="cannot read"):
        load(path)
    for content, why in (("{}", "holds no results"), ('{"format": 99}', "format 99")):
        path.write_text(content)
        with pytest.raises(ConfigError, match=why):
            load(path)
