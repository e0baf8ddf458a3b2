# make demo: diagnose an example log. make test: prove the project. Each sets up what it needs first.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := pyproject.toml hatch_build.py $(wildcard src/slurmdoctor/search/native/*)
RUNS := $(VENV)/.runs
STAMP := $(VENV)/.installed
MUTATES := $(VENV)/.mutates
RELEASES := $(VENV)/.releases
TRAINS := $(VENV)/.trains
# before there is a virtual environment of the wrong Python
NEWER := import sys; sys.version_info < (3, 10) and sys.exit("slurmdoctor needs Python 3.10 or newer, and $(PYTHON) is %d.%d: make $(MAKECMDGOALS) PYTHON=python3.12, or see docs/install.md" % sys.version_info[:2])
INSTALL = $(PYTHON) -c '$(NEWER)' && $(PYTHON) -m venv $(VENV) && $(BIN)/python -m pip install --quiet --disable-pip-version-check --editable
PYTEST := $(BIN)/python -m pytest -n auto --dist loadfile

.PHONY: demo lint test test-slow test-all bless fuzz fuzz-native mutate train release-check zipapp docs bench bench-start clean

$(RUNS): $(SOURCES)
	@echo "setting up $(VENV), once: slurmdoctor, and its search compiled"
	@$(INSTALL) .
	@touch $@

$(STAMP): $(SOURCES)
	@echo "setting up $(VENV), once: slurmdoctor, its search compiled, and what the tests need (a minute)"
	@$(INSTALL) '.[dev]'
	@touch $@ $(RUNS)

$(MUTATES): $(STAMP)
	@echo "adding mutmut to $(VENV), once"
	@$(INSTALL) '.[dev,mutate]'
	@touch $@

$(TRAINS): $(STAMP)
	@echo "adding what trains the classifier to $(VENV), once"
	@$(INSTALL) '.[dev,train]'
	@touch $@

$(RELEASES): $(STAMP)
	@echo "adding what inspects wheels to $(VENV), once"
	@$(INSTALL) '.[dev,release]'
	@touch $@

demo: $(RUNS) ## diagnose a real eight-rank log in which the loudest error is not the root
	@$(BIN)/slurmdoctor diagnose tests/fixtures/demo-cascade

lint: $(STAMP) ## ruff, mypy --strict
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

test: lint ## lint, and all tests but those that are slow by nature
	$(PYTEST) -m "not slow"

test-slow: $(STAMP) ## the tests that are slow by nature
	$(PYTEST) -m slow

test-all: test test-slow

bless: $(STAMP) ## write the golden verdicts and reports anew; read `git diff` before you commit them
	$(BIN)/python -m pytest --snapshot-update -m "not slow" $$(grep -lE "golden_verdicts|SnapshotAssertion" tests/test_*.py)

fuzz: $(STAMP) ## whole diagnoses of damaged logs, and lint of damaged scripts: LOGS=10000 SCRIPTS=1000 SEED=1
	$(BIN)/python tests/fuzz.py --logs $(or $(LOGS),10000) --seed $(or $(SEED),1)
	$(BIN)/python tests/fuzz.py --scripts $(or $(SCRIPTS),1000) --seed $(or $(SEED),1)

fuzz-native: $(STAMP) ## the C under ASan and UBSan beside its Python twin, and its warnings: INPUTS=1000 (of each property) SEED=1
	$(BIN)/python tests/fuzz_native.py --inputs $(or $(INPUTS),1000) --seed $(or $(SEED),1)

mutate: $(MUTATES) ## how many mutants of inference the tests notice: SAMPLE=300 (0: all) SEED=1; docs/mutation.md
	$(BIN)/python tests/mutate.py

train: $(TRAINS) ## the classifier's weights, from the rules' examples, the fixtures and corpus/lines.bin: two minutes
	$(BIN)/python -m corpus.train --folds 3

release-check: $(RELEASES) ## build the source distribution and the wheels into dist/, and prove them: docs/release.md
	$(BIN)/python packaging/check.py

zipapp: $(RELEASES) ## dist/slurmdoctor.pyz: slurmdoctor and all that it needs in one file, for this Python
	@mkdir -p dist
	@$(BIN)/shiv --quiet --reproducible --compressed --preamble packaging/zipapp.py --console-script slurmdoctor --output-file dist/slurmdoctor.pyz \
	  --python "/usr/bin/env $$($(BIN)/python -c 'import sys; print("python%d.%d" % sys.version_info[:2])')" .
	@echo "dist/slurmdoctor.pyz is written, for machines with $$(head -n1 dist/slurmdoctor.pyz | grep -ao 'python[0-9.]*')"

docs: $(STAMP) ## the man page and the README's picture, from --help and a real run
	$(BIN)/python -m website.manual > docs/man/.slurmdoctor.1 && mv docs/man/.slurmdoctor.1 docs/man/slurmdoctor.1
	$(BIN)/python -m website.picture tests/fixtures/demo-cascade docs/demo.svg

bench: $(STAMP) ## speed beside grep, and start-up, into docs/performance.md: ten minutes with SIZE=1GB RUNS=3, REAL=FOLDER of real logs
	$(BIN)/python -m benchmarks.run

bench-start: $(STAMP) ## the CPU time of a start beside bare imports, medians of 21 alternating runs: a minute
	ONLY=start $(BIN)/python -m benchmarks.run

SITES := $(VENV)/.sites
.PHONY: site site-texts

$(SITES): $(STAMP)
	@echo "adding mkdocs to $(VENV), once"
	@$(INSTALL) '.[dev,site]'
	@touch $@

docs: site-texts

site-texts: $(STAMP) ## the output that pages show, from the program
	$(BIN)/python -m website.outputs

site: $(SITES) ## the docs site in build/site, without a network: open build/site/index.html
	$(BIN)/python -m website
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --config-file build/mkdocs.yml

clean:
	rm -rf $(VENV) .bench build dist mutants
