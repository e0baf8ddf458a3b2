# make demo: diagnose an example log. make test: prove the project. Both set everything up first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
GOLDENS := tests/test_goldens.py tests/test_report_goldens.py

.PHONY: demo test bless docs bench clean

$(STAMP): pyproject.toml hatch_build.py $(wildcard src/slurmdoctor/search/native/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: $(STAMP) ## diagnose a real eight-rank log in which the loudest error is not the root
	@$(BIN)/slurmdoctor diagnose tests/fixtures/demo-cascade

test: $(STAMP) ## ruff, mypy --strict, pytest
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest

bless: $(STAMP) ## write the golden verdicts and reports anew; read `git diff` before you commit them
	$(BIN)/python -m pytest --snapshot-update $(GOLDENS)

docs: $(STAMP) ## docs/causes.md and the README's picture, from the rules and a real run
	$(BIN)/python -m slurmdoctor.knowledge.workshop.docs > docs/.causes.md && mv docs/.causes.md docs/causes.md
	$(BIN)/python -m slurmdoctor.cli.picture tests/fixtures/demo-cascade docs/demo.svg

bench: $(STAMP) ## speed beside grep, and start-up: minutes at 100 MB; SIZE=1GB RUNS=3 for docs/performance.md
	$(BIN)/python -m benchmarks.run

clean:
	rm -rf $(VENV) .bench build dist
