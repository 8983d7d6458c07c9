# Needs make, Python 3.11, 3.12 or 3.13 with its venv module, and a package index that pip can reach.
#   make quickstart   set up, then search on the built-in data (ARGS="--trials 4" adds arguments)
#   make test         set up with the test tools, then lint, types and the quick tests
#   make test-all     the same with all tests
#   make setup        set up only
#   make docs         set up with mkdocs, then build the documentation into site/
#   make evidence     set up, then train what the study of docs/results.md lacks (hours; ARGS=--page: write the page alone)
#   make bench        set up with the peers, then measure us against them; writes the table of docs/dev/performance.md
VENV := .venv
BIN := $(VENV)/bin
SUPPORTED := import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	if $$p -c '$(SUPPORTED)' 2>/dev/null; then echo $$p; break; fi; done)
# Python compiles what is imported, when it first is: pip would take a minute more to compile all that is installed.
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check --no-compile -c constraints.txt -e
REQUIREMENTS := pyproject.toml constraints.txt
ARGS ?=

.PHONY: setup quickstart test test-all quick-tests all-tests evidence bench docs lint format clean
.DELETE_ON_ERROR:

setup: $(VENV)/.setup

quickstart: setup
	$(BIN)/tune-cl run quickstart $(ARGS)

# Rankers in test size gain nothing from threads; two test processes do, in the order of tests/conftest.py.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# Types take one process minutes: the tests run beside it.
test: $(VENV)/.setup-test
	$(MAKE) --no-print-directory --jobs=2 lint quick-tests

test-all: $(VENV)/.setup-test
	$(MAKE) --no-print-directory --jobs=2 lint all-tests

# Without Ray, servers and, but for a handful, processes.
quick-tests: $(VENV)/.setup-test
	$(PYTEST) -m "not slow" $(ARGS)

all-tests: $(VENV)/.setup-test
	$(PYTEST) $(ARGS)

bench: $(VENV)/.setup-bench
	$(BIN)/python benchmarks/all.py $(or $(DATA),../shared/data) $(ARGS)

evidence: $(VENV)/.setup-test
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.evidence --data $(or $(DATA),../shared/data) $(ARGS)

# Warnings are errors (strict: true in mkdocs.yml), a broken link among them.
docs: $(VENV)/.setup-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build $(ARGS)

lint: $(VENV)/.setup-test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright

format: $(VENV)/.setup-test
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis

# The stamps are written last, so a set-up that was cut short is taken up again.
$(VENV)/.setup: $(REQUIREMENTS) | $(BIN)/python
	$(INSTALL) .
	@touch $@

$(VENV)/.setup-test: $(REQUIREMENTS) | $(BIN)/python
	$(INSTALL) '.[test]'
	@touch $(VENV)/.setup $@

$(VENV)/.setup-docs: $(REQUIREMENTS) | $(BIN)/python
	$(INSTALL) '.[docs]'
	@touch $@

$(VENV)/.setup-bench: $(REQUIREMENTS) | $(BIN)/python
	$(INSTALL) '.[bench]'
	@touch $@

# ensurepip is looked for because Debian splits it off: `venv` alone would leave an environment without pip.
$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
	  echo "error: PYTHON: no Python 3.11, 3.12 or 3.13 here (python3 is $$(python3 --version 2>&1 | head -n 1)); \
	install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@if ! "$(PYTHON)" -c '$(SUPPORTED)' 2>/dev/null; then \
	  echo "error: PYTHON: $(PYTHON) is $$("$(PYTHON)" --version 2>&1 | head -n 1); Python 3.11, 3.12 or 3.13 is needed" >&2; exit 1; fi
	@if ! "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null; then \
	  echo "error: PYTHON: $(PYTHON) lacks the venv module; \
	install it (Debian, Ubuntu: apt install python3-venv)" >&2; exit 1; fi
	"$(PYTHON)" -m venv --clear $(VENV)
