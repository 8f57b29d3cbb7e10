# `make` alone lists the targets. Needs Python 3.11 or newer and make; everything else is installed
# into .venv, and again only when pyproject.toml or constraints.txt changes.

VENV := .venv
BIN := $(VENV)/bin
PY := $(BIN)/python
INSTALL := $(PY) -m pip install --quiet --disable-pip-version-check -c constraints.txt
RECIPE := examples/python-world.toml
BENCH := main_job

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list these targets
	@echo "make TARGET, where TARGET is one of"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{ printf "  %-12s %s\n", $$1, $$2 }'
	@echo "start with: make demo"

.PHONY: demo
demo: $(VENV)/.core ## build a corpus from this machine's own Python, and look into it (no PyTorch)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) examples/demo.py $(RECIPE)

.PHONY: demo-train
demo-train: $(VENV)/.train ## the same with PyTorch (a large download), and 30 training steps
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) examples/demo.py $(RECIPE) --train

.PHONY: test
test: $(VENV)/.dev ## the fast tests; installs PyTorch and the development tools
	@$(PY) -m pytest -n 2 --dist loadfile

.PHONY: test-slow
test-slow: $(VENV)/.dev ## the tests marked slow
	@$(PY) -m pytest -n 2 --dist loadfile -m "slow and not gpu and not flink"

.PHONY: lint
lint: $(VENV)/.dev ## style, types, import rules, generated docs, spelling
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@if [ -e scripts/generate_docs.py ]; then echo "$(PY) scripts/generate_docs.py --check"; $(PY) scripts/generate_docs.py --check; fi
	git ls-files -z | xargs -0 $(BIN)/codespell

.PHONY: format
format: $(VENV)/.dev ## mend what the formatter and the linter can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: $(VENV)/.dev ## the main job beside datatrove, into benchmarks/results; BENCH=reader for another
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) benchmarks/$(BENCH).py

.PHONY: flink-test
flink-test: $(VENV)/.dev ## the tests on a real Flink, which they start; needs Java and Maven
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(PY) -m pytest -rs -m flink tests/flink

.PHONY: clean
clean: ## remove .venv, caches and what the demo made
	rm -rf $(VENV) build dist runs/python-world .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .coverage
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf ./*.egg-info

# The first interpreter that is new enough; tried by running it, since a name may lead nowhere.
$(VENV)/.python:
	@for p in $(PYTHON) python3 python3.13 python3.12 python3.11 python3.14; do \
	  if $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$p; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Drystone needs Python 3.11 or newer; found $$(python3 --version 2>/dev/null || echo no python3)." >&2; \
	  echo "Install one, or name it: make $(or $(MAKECMDGOALS),demo) PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi; \
	if ! $$found -c 'import venv, ensurepip' 2>/dev/null; then \
	  echo "$$found has no venv module; on Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; \
	fi; \
	echo "installing into $(VENV) with $$($$found --version)"; \
	rm -rf $(VENV) && $$found -m venv $(VENV) && touch $@

$(VENV)/.core: $(VENV)/.python pyproject.toml constraints.txt
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.train: $(VENV)/.core
	@echo "installing PyTorch; its Linux wheels bring several gigabytes of CUDA libraries"
	@$(INSTALL) -e '.[train]'
	@touch $@

# All at once, so that the versions are resolved once.
$(VENV)/.dev: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing PyTorch, whose Linux wheels bring gigabytes of CUDA libraries, and the tools"
	@$(INSTALL) -e '.[train,dev]'
	@touch $(VENV)/.core $(VENV)/.train $@
