# Everything a person or CI types. Each target sets up what it needs in .venv.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.ready

.PHONY: demo test check bench soak docs clean setup

setup: $(STAMP)

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once)..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-binary claude-agent-sdk --group dev -e '.[all]'
	@touch $@

demo: setup
	@$(BIN)/treadle demo

check: setup
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy

test: check
	$(BIN)/python -m pytest -n 2 -q

soak: setup
	$(BIN)/python -m pytest -q -p no:cacheprovider --timeout=3600 tests/soak

bench: setup
	$(BIN)/python -m benchmarks

docs: setup
	$(BIN)/python -m pytest -q tests/test_docs.py

clean:
	rm -rf $(VENV) build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
