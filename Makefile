# One command for each habit. Every target makes its own .venv first; the only needs are make, bash and Python 3.11+.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Whoever has set it meant other programs: each of the many processes that tests start would compile all of lithify.
export PYTHONDONTWRITEBYTECODE :=

BIN := .venv/bin
# Tests that start Spark share one worker, and so one session (tests/conftest.py).
# Their order is that of tests/conftest.py: the longest first.
# One worker more than processors: some tests wait for processes that they have started.
WORKERS := $(shell n=$$(getconf _NPROCESSORS_ONLN); echo $$((n < 8 ? n + 1 : 8)))
PYTEST := $(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder
# What make soak drives: the dashboard in a browser, the alert rules in a Prometheus, bucket policies on an S3 server.
DEBIAN := chromium prometheus radosgw ceph-mon ceph-osd ceph-common
LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links

.venv/.installed: requirements.lock pyproject.toml tools/set-up
	@tools/set-up requirements.lock
	@touch $@

.venv/.installed-benchmark: .venv/.installed requirements-benchmark.lock
	@tools/set-up requirements-benchmark.lock
	@touch $@

# Spark's classes, checked once for all JVMs that tests start; without them tests only take longer.
.venv/.archived: .venv/.installed tests/jvm_archive.py
	@$(BIN)/python -m tests.jvm_archive >.venv/archived.log 2>&1 || echo "No archive of Spark's classes: see .venv/archived.log" >&2
	@touch $@

.PHONY: help demo test check listed sim mutate mutants lint format bench soak lock clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: .venv/.installed ## changes in, compaction on Spark, before and after: end to end on this machine
	@$(BIN)/lithify demo $(ARGS)

test: .venv/.archived ## every test but those of make soak (ARGS='tests/test_house.py' for some)
	@$(PYTEST) -m 'not soak' $(ARGS)

check: .venv/.installed ## the everyday part of the tests, in under two minutes
	@$(PYTEST) -m 'not soak and not slow' $(ARGS)

listed: .venv/.installed ## what users do, in partitions whose runs are all in run lists
	@$(PYTEST) -p tests.all_listed -m 'not soak and not slow' tests/e2e tests/log tests/service tests/admin $(ARGS)

sim: .venv/.installed ## simulated histories of everything at once (SEEDS=20000, SEED=17 or CASE=file tells one)
	@$(BIN)/python -m tests.sim --seeds $(or $(SEEDS),20000) $(if $(SEED),--seed $(SEED)) $(if $(CASE),--case $(CASE)) $(ARGS)
	@$(if $(SEED)$(CASE),,$(BIN)/python -m tests.sim.clients --seeds $(or $(CLIENT_SEEDS),300))

mutate: .venv/.installed ## seeds that catch each sabotage of the product (SEEDS=2000)
	@$(BIN)/python -m tests.sim.mutations search --seeds $(or $(SEEDS),2000) $(ARGS)

mutants: .venv/.installed ## one-line faults over the protocol's files: who notices them (ARGS='--share 0.1'); hours
	@$(BIN)/python -m tools.mutants $(ARGS)

# Many of these tests wait, for a lease or for a cluster: three at a time, even on two cores.
soak: .venv/.archived ## storms, clusters, a browser, every recorded sabotage: long
	@tools/debian $(DEBIAN)
	@$(PYTEST) -n 3 -m soak --timeout 2400 $(ARGS)

lint: .venv/.installed ## ruff, formatting, strict types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyright

format: .venv/.installed ## put the formatting right
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

bench: .venv/.installed-benchmark ## the benchmarks, with their rivals installed
	@$(BIN)/python -m benchmarks $(ARGS)

lock: .venv/.installed ## resolve pyproject.toml anew into the lock files (ARGS=--upgrade to take newer releases)
	@$(LOCK) $(ARGS) pyproject.toml --extra testing --extra java --extra http --extra otel --extra connect --group dev -o requirements.lock
	@$(LOCK) $(ARGS) --group pyproject.toml:benchmark -c requirements.lock -o requirements-benchmark.lock

clean: ## remove what was built and cached; .venv stays
	@rm -rf build dist .java .pytest_cache .ruff_cache .hypothesis spark-warehouse metastore_db derby.log
	@find . -path ./.venv -prune -o -name __pycache__ -type d -exec rm -rf {} +
