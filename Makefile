# The one task runner: people and .ci/run call the same recipes. `make help` lists them.
VENV ?= .venv
PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_ENV := build/bench-env
BENCH_STAMP := $(BENCH_ENV)/.installed
FAST := $(wildcard tests/unit tests/property tests/schemas tests/golden tests/field)
OTHER_PYTHONS ?= 3.12 3.13
DEMO ?=
SEEDS ?= 10
SEED ?=
BREAK ?=
LANES ?= 2
PYTEST ?=
LOCK := $(BIN)/uv pip compile -q --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-annotate --no-header --no-emit-package gpumeter
.DEFAULT_GOAL := help
.PHONY: help venv lock lint format docs test test-slow test-fast test-pythons test-all demo chaos chaos-breaks bench bench-quick bench-latency bench-takeover bench-collector clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 18

venv: $(STAMP) ## .venv with everything, by hash

$(STAMP): requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --require-hashes -r requirements/dev.txt
	$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	touch $@

lock: $(STAMP) ## requirements/*.txt anew from pyproject.toml
	$(LOCK) --extra dev pyproject.toml -o requirements/dev.txt
	$(LOCK) --extra collector pyproject.toml -c requirements/dev.txt -o requirements/collector.txt
	$(LOCK) --extra bench pyproject.toml -o requirements/bench.txt

lint: $(STAMP) ## style, types, import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --cache-dir build/import-linter

format: $(STAMP) ## let ruff mend what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(STAMP) ## the pages that are made from the code
	$(BIN)/python -m infra.docs.metrics
	$(BIN)/python -m tests.field.listing

test: lint ## lint and all tests but the slow ones, on two cores (5 to 8 minutes)
	$(BIN)/python -m pytest -n 2 --dist loadfile -m "not slow" $(PYTEST)

test-slow: $(STAMP) ## the tests that wait: kills, outages, take-overs (5 to 7 minutes)
	$(BIN)/python -m pytest -n 2 --dist load -m slow $(PYTEST)

test-fast: $(STAMP) ## the tests without sockets: unit, property, schemas, golden
	$(BIN)/python -m pytest -n 2 $(FAST) $(PYTEST)

test-pythons: ## the fast tests on the other supported Pythons, each in its own environment under build/
	@for version in $(OTHER_PYTHONS); do infra/ci/with-python $$version $(MAKE) --no-print-directory test-fast || exit 1; done

test-all: test test-slow test-pythons demo chaos bench-quick ## all that CI does

demo: $(STAMP) ## the whole meter on a simulated cluster; DEMO="--hours 2" for options
	$(BIN)/gpumeter demo $(DEMO)

chaos: $(STAMP) ## kills, cuts and pauses on real Kafka, checked against the oracle; SEEDS=100, SEED=7, BREAK=name, LANES=1
	$(BIN)/python -m tests.chaos.run --seeds $(SEEDS) --lanes $(LANES) $(if $(SEED),--seed $(SEED)) $(if $(BREAK),--break $(BREAK))

chaos-breaks: $(STAMP) ## every line of tests/chaos/breaks.py broken once; the harness must catch each
	$(BIN)/python -m tests.chaos.run --breaks --lanes $(LANES)

bench: $(STAMP) $(BENCH_STAMP) ## the meter and its peers over a fleet's log on real Kafka (up to 45 minutes)
	$(BIN)/python -m infra.bench.run --peer-python $(BENCH_ENV)/bin/python

bench-quick: $(STAMP) $(BENCH_STAMP) ## the same programs over small fleets (4 minutes)
	$(BIN)/python -m infra.bench.run --quick --peer-python $(BENCH_ENV)/bin/python

bench-latency: $(STAMP) ## from the record that closes a window to its row in the ledger, 1,000 nodes in real time
	$(BIN)/python -m infra.bench.latency

bench-takeover: $(STAMP) ## a worker's warm-up, restart and take-over, with the part of each step (7 minutes)
	$(BIN)/python -m infra.bench.takeover

$(BENCH_STAMP): requirements/bench.txt
	test -x $(BENCH_ENV)/bin/python || $(PYTHON) -m venv $(BENCH_ENV)
	$(BENCH_ENV)/bin/python -m pip install -q --require-hashes -r requirements/bench.txt
	touch $@

bench-collector: $(STAMP) ## memory and CPU of the node agent
	$(BIN)/python -m infra.bench.collector

clean: ## what was built, the environment apart
	rm -rf build .mypy_cache .ruff_cache .pytest_cache .hypothesis
