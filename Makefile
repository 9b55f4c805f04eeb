PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PLUGINS := $(wildcard plugins/*/*)
PROJECTS := core/pyproject.toml $(PLUGINS:%=%/pyproject.toml)
QUESTION ?= What is the capital of France, and what is it known for?

.PHONY: demo test test-all check bench clean

demo: $(VENV)/demo.stamp ## answer a question with a real model
	$(BIN)/modelhost run "$$($(BIN)/python scripts/fetch_checkpoint.py smollm2)" "$(QUESTION)" </dev/null

test: $(VENV)/dev.stamp ## the tests, without the long ones
	$(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/dev.stamp ## all tests
	$(BIN)/python -m pytest

check: $(VENV)/dev.stamp ## lint, types, and that what is declared, documented and tested is the same
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python registry_check.py

bench: $(VENV)/dev.stamp ## tokens per second of the installed backends
	$(BIN)/python benchmarks/backends.py

clean: ## remove the virtual environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache

$(VENV)/venv.stamp:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24" "hatchling>=1.27" editables
	touch $@

$(VENV)/demo.stamp: $(VENV)/venv.stamp core/pyproject.toml plugins/models/llama/pyproject.toml plugins/backends/cpu/pyproject.toml
	$(BIN)/python -m pip install --quiet --no-build-isolation -e core -e plugins/models/llama -e plugins/backends/cpu
	touch $@

$(VENV)/dev.stamp: $(VENV)/venv.stamp requirements-dev.txt $(PROJECTS)
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-build-isolation -e core $(PLUGINS:%=-e %)
	touch $@ $(VENV)/demo.stamp
