# Everything a person or CI types. Each target sets up what it needs in .venv.
PYTHON ?= python3
# Parts of the suite that run at a time: more than a machine's two cores, since tests wait for half of their time.
JOBS   ?= 12
VENV   := .venv
comma  := ,
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# With LOCKED=1 exactly the packages whose versions and checksums are in the file; `make lock` renews it.
LOCK   := $(PIP) --require-hashes --no-binary claude-agent-sdk -r .ci/locked.txt && $(PIP) --no-deps --no-build-isolation -e .

.PHONY: dist lock sbom site newcomer eval demo test test-slow check check-page check-clients mutate bench compare-sandboxes soak soak-fleet soak-receipts soak-terminals docs clean setup pictures package test-agents test-compatibility record-agents test-all-pythons

setup: $(VENV)/$(if $(LOCKED),.locked,.ready)

# The program alone: what a person who only looks needs. What it installs may be newer than what is locked.
$(VENV)/.installed: pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) (once)..."
	@rm -f $(VENV)/.locked
	@$(PIP) --upgrade 'pip>=25.1' && $(PIP) -e '.[fleet]'
	@touch $@

# With every optional part and what tests and checks use. The SDK's wheel carries a 350 MB program; its source does not.
$(VENV)/.ready: $(VENV)/.installed
	@echo "setting up the tests (once)..."
	@rm -f $(VENV)/.locked
	@$(PIP) --no-binary claude-agent-sdk --group dev -e '.[all]'
	@touch $@

# All of that at the versions of the lock, which serve the other targets as well.
$(VENV)/.locked: pyproject.toml .ci/locked.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "setting up $(VENV) with what is locked (once)..."
	@$(LOCK)
	@touch $(VENV)/.installed && touch $(VENV)/.ready && touch $@

demo: $(VENV)/$(if $(LOCKED),.locked,.installed)
	@$(BIN)/treadle demo $(if $(ONE),--one) $(if $(MODEL),--model $(MODEL))
	@echo
	@echo "The program is $(abspath $(BIN))/treadle. In a repository of your own, type:"
	@echo "    $(abspath $(BIN))/treadle"

# How good the agent is: make eval MODEL=anthropic:... with a key, or MODEL=ollama:...; SET=tiny|small|medium|all, REPEAT=3,
# AGENT=claude, AGAINST=brief=delta (run two configurations in turn and compare them), OUT=file.json.
eval: setup
	@$(BIN)/python -m evals run --agent $(or $(AGENT),native) $(if $(MODEL),--model $(MODEL)) \
		--tasks $(or $(SET),tiny) --repeat $(or $(REPEAT),1) $(if $(AGAINST),--against $(AGAINST)) $(if $(OUT),--out $(OUT))

# What carrying goals out takes, in five ways: with the scripted model what is sent is measured exactly; MODEL=anthropic:... with a key.
.PHONY: eval-goals
eval-goals: setup
	@$(BIN)/python -m evals goals $(if $(MODEL),--model $(MODEL)) $(if $(GOALS),--goals $(GOALS)) $(if $(WAYS),--ways $(WAYS)) --at-once $(or $(AT_ONCE),1)

# ruff, mypy --strict and the types of the page's scripts.
check: setup
	@$(BIN)/python -m tests.run checks

# The static checks and all tests that are not slow; ROOM=terminal,cli/chat runs the tests of some rooms. With SLOW=1
# the slow ones run beside them, as in the gate: they wait for most of their time.
test: setup
	@$(BIN)/python -m tests.run --jobs $(JOBS) $(ROOM) --tier quick $(if $(SLOW),slow)

# The tests that are marked as slow: kills at every point, browsers, other users, long landings. The gate runs both.
test-slow: setup
	@$(BIN)/python -m tests.run --jobs $(JOBS) $(ROOM) --tier slow

# What takes minutes more, before a release: every row of the long tables, soaks in their short form, the commands of an ordinary
# day with the toolchains that are here (cargo, go, npm).
.PHONY: test-long
test-long: setup
	@$(BIN)/python -m tests.run --jobs $(JOBS) $(ROOM) --tier long

# Orchestrators of coding agents under the same faults, judged by what is there afterwards: a table.
# PEERS="serial treadle" for some, WHOLE=1 for twenty tasks, SEEDS=3. Each run takes minutes.
.PHONY: crash-test
crash-test: setup
	@$(BIN)/python -m benchmarks.crash $(if $(WHOLE),--whole) --seeds $(or $(SEEDS),1) $(PEERS)

# The conformance kit over our own programs and those of others, into the table of docs/reference/conform.md.
# PEERS="treadle gemini" for some; HEDDLE, ABP_HOSTS and SUPERX are paths to what must be built or fetched first.
.PHONY: conform
conform: setup
	@$(BIN)/python -m tests.live.conformance $(PEERS)

# Every field that others' schemas have is judged: CODEX=PROGRAM writes its own, SDK=PYTHON has A2A's, HEDDLE=DIR is its source.
.PHONY: check-schemas
check-schemas: setup
	@CODEX=$(CODEX) SDK=$(SDK) HEDDLE=$(HEDDLE) DRAW=$(or $(DRAW),0) SEED=$(SEED) $(BIN)/python -m tests.schemas

# The real agent programs, fetched once into a cache outside the tree, against the scripted model.
# By agent and by part, the results of which are merged: make test-agents AGENT=codex,kimi PART=contract.
test-agents: setup
	TEST_AGENTS=$(AGENT) $(BIN)/python -m pytest -q -p no:cacheprovider --timeout=600 $(if $(PART),tests/live/test_$(PART).py,tests/live)

# Claude's real SDKs, published scripts and clients of workers against us: how many checks of each list pass. Then the same
# programs on the real Claude Code and on us: same, different or said; the page docs/reference/claude-compared.md is written.
# At last 800 directories of settings, memory, hooks, plugins, commands, skills and agents, in the shapes that people's have.
test-compatibility: setup
	$(BIN)/python -m tests.compatibility -n $(JOBS) --dist loadfile
	$(BIN)/python -m tests.differential.compare
	$(BIN)/python -m tests.differential.people

# The suites of Orboros and heddle on our worker, where cargo is: ORBOROS=DIRECTORY, HEDDLE_SOURCE=DIRECTORY.
.PHONY: test-worker-clients
test-worker-clients: setup
	@$(BIN)/python -m tests.live.worker_clients

# The same tries in our sandbox, Codex's and Claude's; the page docs/explanation/sandboxes-compared.md is written.
compare-sandboxes: setup
	$(BIN)/python -m tests.safety.compared

# Renew the recordings that `make test` uses, and show which events differ from those of the recordings before.
record-agents: setup
	TEST_AGENTS=$(AGENT) RECORD_AGENTS=1 $(BIN)/python -m pytest -q -p no:cacheprovider --timeout=600 tests/live/test_contract.py tests/live/test_subagents.py
	$(BIN)/python -m tests.drivers.changed $(subst $(comma), ,$(AGENT))

# The house in figures: modules, lines, importers, and how many modules a first request takes. JSON=1 for programs.
.PHONY: house
house: setup
	@$(BIN)/python -m tests.house $(if $(JSON),--json)

# Plant faults, one at a time, and see whether a test that reaches them notices: in what differs from main, or
# MODULES=path, ROOMS=wire,policy or all, COUNT=30, SEED=1, EACH=2 (in each module), LIST=1 (those of tests/faults.tsv).
# Which test reaches which line is recorded first, unless it is in REACHED=DIRECTORY already; RESULTS=FILE keeps the outcomes.
REACHED = build/reached
mutate: setup
	$(BIN)/python -m tests.mutate $(MODULES) $(if $(ROOMS),--rooms $(ROOMS)) $(if $(LIST),--list) $(if $(COUNT),--count $(COUNT)) \
		$(if $(EACH),--each $(EACH)) --jobs $(JOBS) $(if $(SEED),--seed $(SEED)) --reached $(REACHED) $(if $(RESULTS),--results $(RESULTS))

# The pictures in the docs, drawn anew from the program as it is now.
pictures: setup
	$(BIN)/python -m tests.pictures
	$(BIN)/python -m pytest -q -p no:cacheprovider tests/serve/web/pictures.py

# The types in the page's scripts. TypeScript is fetched once; without Node, or a way to fetch it, this is left out and says so.
PAGE_TYPES = $(VENV)/page
check-page: setup
	@test -e $(PAGE_TYPES)/.ready || ! command -v npm >/dev/null || { timeout 180 npm install --silent --no-fund --no-audit \
		--fetch-retries=0 --fetch-timeout=20000 --prefix $(PAGE_TYPES) typescript@5.9 >/dev/null 2>&1 && touch $(PAGE_TYPES)/.ready; } || true
	@if test -e $(PAGE_TYPES)/.ready; then node $(PAGE_TYPES)/node_modules/typescript/bin/tsc --noEmit --checkJs --allowJs \
		--strict --target es2022 --module es2022 --moduleResolution bundler --lib es2023,dom,dom.iterable src/treadle/serve/web/*.js \
		&& echo "the page's types are right"; else echo "the page's types are not checked: that needs node, npm and typescript from its registry"; fi

# The types that a public generator makes of the HTTP interface, for clients in TypeScript; that it can, and that they are right.
API_TYPES = $(VENV)/api-types
check-clients: setup
	@test -e $(API_TYPES)/.ready || { npm install --silent --no-fund --no-audit --prefix $(API_TYPES) typescript@5.9 openapi-typescript@7 && touch $(API_TYPES)/.ready; }
	@$(BIN)/python -c 'import json; from treadle.serve.api.openapi import document; print(json.dumps(document()))' >$(API_TYPES)/openapi.json
	@node $(API_TYPES)/node_modules/openapi-typescript/bin/cli.js $(API_TYPES)/openapi.json -o $(API_TYPES)/api.d.ts
	@node $(API_TYPES)/node_modules/typescript/bin/tsc --noEmit --strict $(API_TYPES)/api.d.ts && echo "the generated types are right"

# Wheel and sdist, built, installed in an environment of their own and tried there.
package: setup
	$(BIN)/python -m tests.packaged

# The suite on every Python from 3.11 to 3.14 that is here; TESTS=tests/wire runs a part of it.
test-all-pythons:
	$(PYTHON) tests/all_pythons.py $(TESTS)

# What is published: the wheel, with completion scripts and JSON Schemas, and the sdist.
dist: setup
	@rm -rf dist build/share
	@mkdir -p build/share/bash-completion/completions build/share/zsh/site-functions build/share/fish/vendor_completions.d
	@$(BIN)/treadle completion bash >build/share/bash-completion/completions/treadle
	@$(BIN)/treadle completion zsh >build/share/zsh/site-functions/_treadle
	@$(BIN)/treadle completion fish >build/share/fish/vendor_completions.d/treadle.fish
	@$(BIN)/treadle host schema --write build/share/treadle/abp-v0.1
	@$(BIN)/python -m build --no-isolation --outdir dist .

UV = build/lock-venv/bin/uv
$(UV):
	@$(PYTHON) -m venv build/lock-venv && build/lock-venv/bin/pip install --quiet uv

# The packages that the gate installs, for every Python and system, each with its checksums. UPGRADE=1 takes newer ones.
lock: $(UV)
	@echo 'pip>=25.1' | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra all --group dev \
		--no-emit-package treadle --no-annotate --no-header $(if $(UPGRADE),--upgrade) pyproject.toml - -o .ci/locked.txt

# A bill of materials of the package with all parts, at the versions that are locked, in build/sbom.
sbom: $(UV)
	@mkdir -p build/sbom
	@test -x build/sbom-venv/bin/cyclonedx-py || { $(PYTHON) -m venv build/sbom-venv && build/sbom-venv/bin/pip install --quiet 'cyclonedx-bom>=7,<8'; }
	@$(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes --extra all --no-emit-package treadle --no-annotate --no-header \
		-c .ci/locked.txt pyproject.toml -o build/sbom/packages.txt
	@build/sbom-venv/bin/cyclonedx-py requirements --pyproject pyproject.toml --output-reproducible --output-file build/sbom/treadle.cdx.json \
		build/sbom/packages.txt && echo build/sbom/treadle.cdx.json

# The documentation as a web site, in build/site. Its generator is fetched once into an environment of its own.
site:
	@test -x build/site-venv/bin/mkdocs || { $(PYTHON) -m venv build/site-venv && build/site-venv/bin/pip install --quiet 'mkdocs-material>=9.5,<10'; }
	@build/site-venv/bin/mkdocs build --strict --quiet && echo "build/site/README.html"

# A newcomer on a bare Debian: ROOT=DIRECTORY that debootstrap has made. Says how many commands and seconds it takes.
newcomer: setup
	$(BIN)/python -m tests.newcomer $(ROOT)

# Every attack on receipts, in every mode, confined and not. It takes long.
soak-receipts: setup
	SOAK_RECEIPTS=all $(BIN)/python -m pytest -q -p no:cacheprovider -n $(JOBS) tests/safety/receipts

soak: setup
	$(BIN)/python -m pytest -q -p no:cacheprovider --timeout=3600 tests/soak
	$(BIN)/python -m pytest -q -p no:cacheprovider --timeout=3600 --hypothesis-profile=new -n 2 tests

# Sends at random moments to agents that are stopped for up to ten seconds: 0 approvals, 0 joined prompts, 0 false exit codes. 2,000 with
# scripted screens, and 2,000 answers that race for a dialog: 0 run a command unread; with REAL=1 also 200 sends to the real programs and 40
# answers to each (AGENT=claude,codex for some). MINUTES=3 stops then; the next run goes on.
soak-terminals: setup
	$(if $(MINUTES),SOAK_MINUTES=$(MINUTES)) $(BIN)/python -m pytest -q -s -p no:cacheprovider --timeout=14400 tests/soak/test_terminal_answers.py tests/soak/test_terminal_sends.py
	$(if $(REAL),TEST_AGENTS=$(AGENT) $(if $(MINUTES),SOAK_MINUTES=$(MINUTES)) $(BIN)/python -m pytest -q -rP -n $(or $(JOBS),1) -p no:cacheprovider --timeout=14400 tests/live/test_terminal_answers.py tests/live/test_terminal_sends.py)

# Random faults on a fleet, for an hour or MINUTES=10, then what people see at the end (soak-outcomes); its figures are printed.
soak-fleet: setup
	$(if $(MINUTES),SOAK_SECONDS=$$(( $(MINUTES) * 60 )) SOAK_ORDERS=$$(( $(MINUTES) * 6 ))) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/soak/test_fleet.py tests/soak/test_outcomes.py

# 300 orders, or ORDERS=N, land while the train, nodes, runners and engine are killed and a person pushes; ends within 36 minutes, or MINUTES=N,
# and accounts for every order; prints its figures beside the serial policy and a simulation.
.PHONY: soak-train
soak-train: setup
	$(if $(ORDERS),SOAK_ORDERS=$(ORDERS)) $(if $(MINUTES),SOAK_MINUTES=$(MINUTES)) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/soak/test_train.py

# A night without a person: 60 orders, or ORDERS=N, and 2 goals land while 60 processes, or KILLS=N, are killed, the remote and the model are away 10
# times, the disk is full once (as root) and the machine is restarted with its clock ahead; 50 moments at which what is said is held against what is so. Prints its figures.
.PHONY: soak-night
soak-night: setup
	SOAK_ORDERS=$(or $(ORDERS),60) SOAK_KILLS=$(or $(KILLS),60) SOAK_GOALS=2 SOAK_OUTAGES=$(or $(OUTAGES),10) SOAK_MOMENTS=50 $(BIN)/python -m pytest -q -s -p no:cacheprovider -m slow tests/landing/test_night.py

# What people see at the end, under LOAD=50 busy programs and kills: 200 orders, or ORDERS=N; prints its figures.
.PHONY: soak-outcomes
soak-outcomes: setup
	$(if $(ORDERS),SOAK_ORDERS=$(ORDERS)) $(if $(LOAD),SOAK_LOAD=$(LOAD)) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/soak/test_outcomes.py

# 20 goals, or GOALS=N, of 8 orders at once under kills, with budgets that run out, planners, reviewers and judges that talk nonsense, and people who say no.
.PHONY: soak-goals
soak-goals: setup
	$(if $(GOALS),SOAK_GOALS=$(GOALS)) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/soak/test_goals.py

bench: setup
	$(BIN)/python -m benchmarks

# Write what is made from the code: the golden files, and parts of the docs. Then check the rest of the docs.
docs: setup
	UPDATE_GOLDEN=1 $(BIN)/python -m pytest -q tests/test_golden.py tests/*/test_translations.py
	UPDATE_DOCS=1 $(BIN)/python -m pytest -q tests/test_docs.py tests/wire/common/test_losses.py tests/drivers/test_abilities.py::test_the_table_in_the_docs_is_made_from_the_cards
	$(BIN)/python -m pytest -q tests/test_docs.py

clean:
	rm -rf $(VENV) .venv-3.* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
