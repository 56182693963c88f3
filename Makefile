# Everything runs from a fresh clone with python3, its venv module and make; uv is used where it is found.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
WORKERS ?= auto
PIP    := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

.PHONY: help install demo test check bench docs nightly clean
help:  ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(PIP) -e .
	@touch $@

$(VENV)/.all: $(BIN)/python pyproject.toml
	$(PIP) -e '.[all,dev]'
	@touch $@ $(VENV)/.demo

install: $(VENV)/.all  ## all extras and tools into .venv

demo: $(VENV)/.demo  ## private answers from sample data, with error bars and the price
	$(BIN)/discreet demo

check: install  ## lint, types, layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: check  ## everything: lint, types, layers, unit, laws, docs examples, end to end
	$(BIN)/pytest -n $(WORKERS) -m 'not nightly'

nightly: install  ## the slow campaigns
	$(BIN)/pytest -n $(WORKERS) -m nightly

bench: install  ## comparison tables into benchmarks/RESULTS.md
	$(BIN)/python benchmarks/run.py

docs: install  ## the site, with the reference, into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:  ## remove what the other targets made
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis benchmarks/.peers benchmarks/.data site
