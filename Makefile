# Two commands on a fresh machine: `make demo` and `make test`. Needs Python 3.10+ with venv, make, a network.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export CDC_VIEWS_CACHE ?= $(CURDIR)/.cache
# packages are compiled as they are first imported, and kept: most of their modules never are
export PYTHONDONTWRITEBYTECODE :=
STAMP  := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
DOCS_VENV := .venv-docs
DOCS_STAMP := $(DOCS_VENV)/.installed

# not targets called by `$(MAKE)`: a recipe line that has it runs under `make -n`, with all else that stands on it
LINT := $(BIN)/ruff check . && $(BIN)/ruff format --check --quiet . && $(BIN)/mypy --no-error-summary && \
  { $(BIN)/lint-imports --no-cache > .lint-imports.log 2>&1 || { cat .lint-imports.log; false; }; }
BENCH_STATE := $(BIN)/python tests/bench/state.py --engine duckdb && $(BIN)/python tests/bench/state.py --engine spark

.DEFAULT_GOAL := help
.PHONY: help install demo test test-fast test-live test-live-long test-live-bigquery test-long lint bench bench-state bench-producers services services-stop docs reference clean lock

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | awk -F'\t' '{printf "  make %-10s %s\n", $$1, $$2}'

$(STAMP): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "cdc-views needs Python 3.10 or newer; set PYTHON=/path/to/python3" >&2; exit 2; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 has no venv module; on Debian: apt-get install python3-venv" >&2; exit 2; }
	@echo "installing into $(VENV) (a minute or two, once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(BENCH_STAMP): $(STAMP) requirements/bench.txt
	@echo "installing ClickHouse for comparison (once) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/bench.txt
	@touch $@

$(DOCS_STAMP): requirements/docs.txt
	@test -x $(DOCS_VENV)/bin/python || $(PYTHON) -m venv $(DOCS_VENV)
	@echo "installing the site generator into $(DOCS_VENV) (once) ..."
	@$(DOCS_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements/docs.txt
	@touch $@

install: $(STAMP) ## make .venv with cdc-views in it
	@echo "$(BIN)/cdc-views is ready"

demo: $(STAMP) ## real Cassandra events of three replicas -> the table Cassandra answers, on DuckDB and Spark
	@$(BIN)/python tests/demo.py

# what differs from the tests' own defaults, so that all of it ends in 13 minutes on two cores; `make test-long` has the whole.
# Spark's tests end before a JVM's second compiler pays off: without it they take a fifth less CPU
test: export CDC_VIEWS_HISTORIES ?= 100
test: export CDC_VIEWS_SHOWN_BY ?= one
test: $(STAMP) ## everything that runs without a server (what CI runs): Spark's tests, linters and what is fetched beside the others
	@PYTHONPATH=tests $(BIN)/python -m services.fetch & fetch=$$!; \
	  JDK_JAVA_OPTIONS=-XX:TieredStopAtLevel=1 $(BIN)/python -m pytest -q -m "spark and not slow and not live" \
	    $$(grep -rl --include='test_*.py' 'mark\.spark' tests) > .spark.log 2>&1 & spark=$$!; \
	  { $(LINT); } > .lint.log 2>&1 & lint=$$!; \
	  $(BIN)/python -m pytest -q -n 2 --hypothesis-profile=fast -m "not spark and not slow and not live" tests; others=$$?; \
	  wait $$fetch; wait $$lint; lint=$$?; wait $$spark; spark=$$?; \
	  test $$lint -eq 0 || { echo "linters:"; cat .lint.log; }; \
	  echo "tests on Spark:"; cat .spark.log; \
	  test $$lint -eq 0 -a $$spark -eq 0 -a $$others -eq 0

test-fast: $(STAMP) ## without a JVM and without what is heavy, under a minute
	@CDC_VIEWS_HISTORIES=$${CDC_VIEWS_HISTORIES:-20} CDC_VIEWS_SHOWN_BY=$${CDC_VIEWS_SHOWN_BY:-one} \
	  $(BIN)/python -m pytest -q -n 2 --dist loadfile --hypothesis-profile=fast -m "not spark and not slow and not live and not heavy" tests

LIVE := $(BIN)/python -m pytest -q --durations=25 -m "live and not slow and not bigquery_project" tests

# three parts beside each other: much of the time is spent on waiting for servers
test-live: $(STAMP) ## longer tests against real servers
	@CDC_VIEWS_PART=2/3 $(LIVE) > .live2.log 2>&1 & second=$$!; \
	  CDC_VIEWS_PART=3/3 $(LIVE) > .live3.log 2>&1 & third=$$!; \
	  CDC_VIEWS_PART=1/3 $(LIVE); first=$$?; \
	  wait $$second; second=$$?; wait $$third; third=$$?; \
	  cat .live2.log .live3.log; \
	  test $$first -eq 0 -a $$second -eq 0 -a $$third -eq 0

test-live-long: $(STAMP) ## the longest of them, one after the other: hours
	@$(BIN)/python -m pytest -q --durations=25 -m "live and slow and not bigquery_project" tests

test-live-bigquery: $(STAMP) ## the same rows and commands in BigQuery itself: CDC_VIEWS_BIGQUERY_PROJECT and credentials are needed
	@test -n "$$CDC_VIEWS_BIGQUERY_PROJECT" || { echo "set CDC_VIEWS_BIGQUERY_PROJECT to a project that may be billed (CONTRIBUTING.md)" >&2; exit 2; }
	@test -z "$$CI" || { echo "BigQuery is not tested where CI is set" >&2; exit 2; }
	@$(BIN)/python -m pytest -q -n 8 -m bigquery_project tests/bigquery tests/semantics

test-long: $(BENCH_STAMP) ## thousands of random histories, 30 kills, a simulated day; ClickHouse's and GoogleSQL's engines; a Debezium Server
	@CDC_VIEWS_HISTORIES=$${CDC_VIEWS_HISTORIES:-3000} CDC_VIEWS_KILLS=$${CDC_VIEWS_KILLS:-30} $(BIN)/python -m pytest -q -m "not live" tests/properties tests/semantics tests/unit tests/layout
	@$(BIN)/python -m pytest -q -m "slow and not live" tests/golden tests/commands tests/producers tests/bigquery tests/stores tests/ops tests/bench tests/packaging

lint: $(STAMP) ## ruff, mypy --strict, import-linter
	@$(LINT)

bench: $(BENCH_STAMP) ## 6 M raw rows: exact views against a full scan, per engine and strategy; then bench-state
	@$(BIN)/python tests/bench/run.py
	@$(BIN)/python tests/bench/relational.py
	@$(BENCH_STATE)

bench-state: $(BENCH_STAMP) ## what a state costs to keep and to read, on each engine
	@$(BENCH_STATE)

bench-producers: $(BENCH_STAMP) ## events per second and memory of each producer, beside a bare reader
	@for script in tests/bench/produce_*.py; do $(BIN)/python $$script || exit $$?; done

services: $(STAMP) ## real servers on loopback ports to try producers with, until Ctrl-C; SERVICES="postgres kafka": only these
	@PYTHONPATH=tests $(BIN)/python -m services $(SERVICES)

services-stop: ## stop what `make services` started
	@PYTHONPATH=tests $(BIN)/python -m services --stop

docs: $(STAMP) $(DOCS_STAMP) ## run the documents' commands in bash, then build the site into build/site and check its links
	@CDC_VIEWS_DOCS_BY=bash $(BIN)/python -m pytest -q tests/docs
	@rm -rf build/site
	@$(DOCS_VENV)/bin/sphinx-build -q -E -W --keep-going -n -b html -c docs/site -d build/doctrees docs build/site
	@$(BIN)/python docs/site/check_site.py build/site

reference: $(STAMP) ## write docs/reference from the code
	@$(BIN)/python docs/generate

lock: $(STAMP) ## renew requirements/*.txt
	@sh requirements/lock.sh

clean: ## remove what the other targets made
	@rm -rf $(VENV) $(DOCS_VENV) .cache build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
