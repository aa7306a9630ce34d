# Start with `make demo` and `make test`. Everything is installed into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
EXAMPLES ?= 5000

.DEFAULT_GOAL := help
.PHONY: help setup setup-locked lock dist demo test test-slow test-faults test-fuzz test-load test-processes test-dist lint fix docs notebooks docs-site screenshots clean

help:  ## list these commands
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(READY)  ## create .venv, install crvnn with its development tools, compile the kernels

$(READY): pyproject.toml constraints.txt
	@echo "Setting up .venv (the first time takes a minute or two and needs a network) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "crvnn needs Python 3.11 or later; try 'make PYTHON=python3.11 $(MAKECMDGOALS)'" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@$(BIN)/crvnn doctor --build || echo "(Kernels are optional: everything works without them.)"
	@touch $@
	@echo "Ready. Next: source .venv/bin/activate, then crvnn --help"

setup-locked:  ## the same with the exact files of requirements.lock (Linux, x86-64, CPython 3.11)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/crvnn doctor --build || echo "(Kernels are optional: everything works without them.)"
	@touch $(READY)

lock: $(READY)  ## write requirements.lock and the list of licences from what is installed in .venv
	@$(BIN)/python docs/make_dependencies.py

dist: $(READY)  ## build wheel and sdist into dist/, reproducibly
	@$(BIN)/python -m hatchling build -d dist

demo: $(READY)  ## let a small model find its trees in a minute or two, and print predictions
	@$(BIN)/crvnn demo

test: $(READY)  ## run the tests (a few minutes); browser tests need Chromium
	@$(BIN)/python -m pytest -n auto --dist worksteal -m "not slow"

test-slow: $(READY)  ## run the tests that take minutes each
	@$(BIN)/python -m pytest -m slow

test-load: $(READY)  ## send ten heavy requests, small and malformed ones to the explorer, and print figures
	@$(BIN)/python -m pytest -m slow -s tests/explorer/test_load.py

test-dist: $(READY)  ## build wheel and sdist twice, compare, and use the wheel where there is no source tree
	@$(BIN)/python -m pytest -m slow tests/test_packaging.py

test-processes: $(READY)  ## train in 1, 2 and 3 processes, kill and stop some, resume, and print figures
	@$(BIN)/python -m pytest -m slow -s tests/training/test_many_processes.py

test-faults: $(READY)  ## kill 50 times, fill disks, damage files, break plug-ins
	@$(BIN)/python -m pytest tests/faults

test-fuzz: $(READY)  ## feed 100,000 hostile specs, rows, files, arguments and requests
	@CRVNN_FUZZ_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n auto --dist worksteal -m fuzz tests/fuzz

lint: $(READY)  ## check formatting, style and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

fix: $(READY)  ## format the code, and fix what ruff can fix
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

screenshots: $(READY)  ## regenerate docs/images/*.png (needs Chromium)
	@$(BIN)/python docs/make_screenshots.py

docs: $(READY)  ## regenerate docs/reference/, docs/results/tables.md and docs/images/recursion.svg
	@$(BIN)/python docs/make_picture.py
	@$(BIN)/python docs/make_reference.py
	@$(BIN)/python docs/make_results.py

docs-site: .venv/.docs  ## build the documentation as a site, into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html: open it in any browser; it needs no network and no server."

.venv/.docs: $(READY)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

notebooks: $(READY)  ## run docs/notebooks/ and store what they show
	@$(BIN)/python docs/make_notebooks.py

clean:  ## remove .venv and caches
	rm -rf .venv site .pytest_cache .mypy_cache .ruff_cache .hypothesis
