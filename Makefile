# Every target works in a fresh clone: it needs make and python3 (3.11 or later) with its venv module. Packages are installed into .venv,
# with uv if it is on the PATH, else with pip.
#   make test WORKERS=2            run the tests in two processes instead of one more than there are cores
#   make install PYTHON=python3.13 choose the Python of .venv
# The tools include PyTorch, of which the CPU build is enough. Where the usual index has builds with CUDA (some gigabytes), name PyTorch's index of CPU
# builds too: PIP_EXTRA_INDEX_URL=… make install; with uv UV_INDEX=….
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# One process more than there are cores: many tests wait for services and databases.
WORKERS ?= $(shell python3 -c 'import os; print(os.cpu_count() + 1)')
PIP    := $(if $(shell command -v uv),uv pip install --quiet --python $(BIN)/python,$(BIN)/python -m pip install --quiet --disable-pip-version-check)

# Tests start hundreds of processes. Each would compile discreet anew where the environment forbids to keep bytecode.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help install demo demo-serve test check browser bench docs wheel nightly clean
help:  ## Show this list.
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 14

# `demo` needs the library alone, `demo-serve` the extra `serve`; everything else needs all extras and tools. They are installed
# again when pyproject.toml changes.
$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(PIP) -e .
	@touch $@

$(VENV)/.serve: $(BIN)/python pyproject.toml
	$(PIP) -e '.[serve]'
	@touch $@ $(VENV)/.demo

$(VENV)/.all: $(BIN)/python pyproject.toml
	$(PIP) -e '.[all,dev]'
	@touch $@ $(VENV)/.demo $(VENV)/.serve

install: $(VENV)/.all  ## Install discreet with all extras and the development tools into .venv.

demo: $(VENV)/.demo  ## Run a quote and two private queries on sample data; show answers, intervals and budget.
	$(BIN)/discreet demo
	@echo "Next: make demo-serve starts a service, and asks it from another process as a remote analyst does."

demo-serve: $(VENV)/.serve  ## Start a service on examples/, ask it one query as a remote analyst, show answer and budget, end it.
	$(BIN)/python tools/demo_serve.py

check: install  ## Check lint, format, types and the layers of imports.
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

browser: $(BIN)/python  ## Find the Chromium that tests look at pages with, and fetch axe-core; as root, install Debian's package if there is none.
	@$(BIN)/python tools/find_browser.py --install
	@$(BIN)/python tools/vendor.py --axe

# The marker `nightly` alone decides what runs when, wherever a test stands. The long tests stand in tests/campaigns; make nightly finds them by it.
# With a process on every core, threads of linear algebra would wait for each other.
test nightly: export OPENBLAS_NUM_THREADS := 1

# Bytecode is compiled once, before every process that runs tests would compile it. Checks and tests run side by side, so that no core waits; what
# make check found is printed after the tests.
test: install browser  ## Run make check, and every test except the nightly campaigns.
	@$(BIN)/python -m compileall -q -j 0 src tests/support
	@$(MAKE) --no-print-directory check > $(VENV)/.check.log 2>&1 & checked=$$!; \
	$(BIN)/pytest -n $(WORKERS) --dist worksteal -m 'not nightly'; tested=$$?; \
	wait $$checked; found=$$?; cat $(VENV)/.check.log; test $$tested -eq 0 -a $$found -eq 0

nightly: install  ## Run the nightly campaigns: the tests with the marker `nightly`.
	$(BIN)/pytest -n $(WORKERS) -m nightly

bench: install  ## Measure speed, beside other libraries; write the tables into benchmarks/RESULTS.md.
	$(BIN)/python benchmarks/run.py

docs: install  ## Build the documentation site into site/.
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "The site is built. Open site/index.html."

wheel: install  ## Build the wheel into dist/.
	$(BIN)/python -m hatchling build --target wheel --directory dist

clean:  ## Remove .venv, the caches, the benchmark data, the wheel and the site.
	rm -rf $(VENV) .mypy_cache .ruff_cache .import_linter_cache .hypothesis benchmarks/.peers benchmarks/.data dist site
