# A fresh machine needs git, make, bash and Python >= 3.11.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PACKAGES := libs/dw_core libs/dw_runtime services/api_ingress services/matching services/scheduler services/standalone
PROJECTS := $(PACKAGES:%=%/pyproject.toml)
TEST_WORKERS ?= 3
ENGINE_EXAMPLES ?= 2000
PYTEST_ARGS ?=
FROM ?=
DEV_ARGS ?=
BENCH_ARGS ?=

.PHONY: help dev test compose-check upgrade-drill golden test-engine lint format bench bench-large bench-shapes bench-sticky bench-schedules docs references wheels helm lock lock-check clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "Python 3.11 or newer is needed; name one with PYTHON=/path/to/python3."; exit 1; }
	@$(PYTHON) -m venv $(VENV)

# The workspace packages are installed from the checkout after the lock has been installed by hash.
$(VENV)/.test-installed: requirements/test.txt $(PROJECTS) | $(BIN)/python
	@echo "Installing requirements/test.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/test.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation \
		$(PACKAGES:%=--editable %)
	@touch $@

$(VENV)/.lint-installed: requirements/lint.txt $(VENV)/.test-installed
	@echo "Installing requirements/lint.txt"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/lint.txt
	@touch $@

dev: $(VENV)/.test-installed ## Run the server with embedded Postgres and Valkey (DEV_ARGS="--ephemeral --port 9000")
	@exec $(BIN)/dw-server dev $(DEV_ARGS)

$(VENV)/nginx/nginx: | $(BIN)/python
	@sh tests/harness/find-nginx.sh $(VENV)/nginx

test: $(VENV)/.test-installed $(VENV)/nginx/nginx ## Run all tests (PYTEST_ARGS="tests/unit -k lease", TEST_WORKERS=4)
	@$(BIN)/python -m pytest -n $(TEST_WORKERS) $(PYTEST_ARGS)

compose-check: $(VENV)/.test-installed $(VENV)/nginx/nginx ## Run the split Compose topology as plain processes behind nginx
	@$(BIN)/python -m pytest -q tests/deploy/test_gateways.py tests/deploy/test_compose_runs.py

upgrade-drill: $(VENV)/.test-installed ## Upgrade under load from an earlier build to this one (FROM=<git ref>)
	@DW_UPGRADE_FROM=$(FROM) $(BIN)/python -m pytest -q -s tests/roles/upgrade

golden: $(VENV)/.test-installed ## Write the golden histories anew; read the difference before you commit it
	@DW_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/unit/engine/test_golden.py

test-engine: $(VENV)/.test-installed ## Play thousands of random programs against the engine (ENGINE_EXAMPLES=2000)
	@DW_TEST_EXAMPLES=$(ENGINE_EXAMPLES) $(BIN)/python -m pytest -n $(TEST_WORKERS) tests/unit/engine/test_model.py \
		tests/unit/engine/test_replay.py tests/unit/engine/test_cancelled_replay.py

lint: $(VENV)/.lint-installed lock-check ## Check style, types, import rules and the freshness of the locks
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-cache --no-logo

format: $(VENV)/.lint-installed ## Apply the formatter and the safe fixes
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .

bench: $(VENV)/.test-installed ## Measure one no-op workflow with one activity (BENCH_ARGS=...)
	@$(BIN)/python -m benchmarks $(BENCH_ARGS)

bench-sticky: $(VENV)/.test-installed ## Measure what workers read of long histories, with and without their own copy
	@$(BIN)/python -m benchmarks.sticky $(BENCH_ARGS)

bench-large: $(VENV)/.test-installed ## Measure reads of 1,000,000 runs and how fast retention removes them (BENCH_ARGS=...)
	@$(BIN)/python -m benchmarks.large $(BENCH_ARGS)

bench-shapes: $(VENV)/.test-installed ## Measure steps in turn, a fan-out, a signal and timers against the smallest workflow
	@$(BIN)/python -m benchmarks.shapes $(BENCH_ARGS)

bench-schedules: $(VENV)/.test-installed ## Measure 10,000 schedules due in one second beside unrelated starts
	@$(BIN)/python -m benchmarks.schedules $(BENCH_ARGS)

$(VENV)/docs/.installed: requirements/docs.txt | $(BIN)/python
	@$(PYTHON) -m venv $(VENV)/docs
	@$(VENV)/docs/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/docs.txt
	@touch $@

docs: $(VENV)/docs/.installed ## Build the documentation site into build/docs; a broken link is an error
	@$(VENV)/docs/bin/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky docs build/docs
	@echo "build/docs/index.html"

references: $(VENV)/.test-installed ## Write the generated pages of docs/reference anew
	@$(BIN)/python -m tests.references

wheels: $(VENV)/.lint-installed ## Build a wheel of every package into dist/
	@rm -rf dist
	@for package in $(PACKAGES); do \
		$(BIN)/python -m build --quiet --wheel --no-isolation --outdir dist $$package; \
	done
	@ls -1 dist

helm: $(VENV)/.test-installed ## Render the chart with every set of its values into build/helm, and its README anew
	@$(BIN)/python deploy/helm/readme.py
	@$(BIN)/python deploy/helm/render.py

lock: $(VENV)/.lint-installed ## Refresh the locks (LOCK_ARGS=--upgrade takes the newest versions)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python requirements/lock.py write $(LOCK_ARGS)

lock-check: | $(BIN)/python ## Say which locks are stale (needs no network)
	@$(BIN)/python requirements/lock.py check

clean: ## Remove everything that was built, installed or stored in this checkout
	@rm -rf $(VENV) .dw dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	@find . -name __pycache__ -prune -exec rm -rf {} +
