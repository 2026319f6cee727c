# Two commands: `make serve` sets up and runs the gateway, `make test` sets up and passes the whole suite.

PYTHON ?= python3
VENV := .venv
ifeq ($(OS),Windows_NT)
BIN := $(VENV)/Scripts
else
BIN := $(VENV)/bin
endif

# the suite starts some two hundred processes: none of them should compile everything anew
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help serve test check demo bench chaos lock conformance hosts clients searxng clean

help: ## List the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /  make \1\t/'

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=…" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/runtime: requirements.lock pyproject.toml | $(VENV)/made
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/testing: requirements-test.lock $(VENV)/runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-test.lock
	@touch $@

serve: $(VENV)/runtime ## Set up and run the gateway on http://127.0.0.1:8787/mcp
	$(BIN)/websearch-gateway serve

demo: $(VENV)/testing ## See the failover happen, without keys and without internet
	$(BIN)/python -m tests.demo

test: check ## Set up and pass the whole suite
	$(BIN)/python -m pytest -n auto --dist worksteal

check: $(VENV)/testing ## Lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/testing ## Measure, as ratios to a bare SDK server in the same run
	$(BIN)/python -m benchmarks.over_http

chaos: $(VENV)/testing ## Kill it under load, and put a crowd before a hanging vendor (minutes; some trials measure time)
	$(BIN)/python -m tests.chaos

conformance: $(VENV)/testing ## Run the protocol's conformance suites (needs npm)
	$(BIN)/python -m tests.hosts.conformance

hosts: $(VENV)/testing ## Try other SDKs' clients, unmodified (needs npm)
	$(BIN)/python -m tests.hosts.run

clients: $(VENV)/testing ## Try the vendors' own clients on our recordings
	$(BIN)/python -m tests.hosts.clients

searxng: $(VENV)/testing ## Try a real SearXNG (SEARXNG_PYTHON: a Python in which it is installed)
	$(BIN)/python -m tests.hosts.searxng $(SEARXNG_PYTHON)

lock: $(VENV)/made ## Write the lock files anew
	$(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --no-annotate pyproject.toml --extra redis --group build -o requirements.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --no-annotate pyproject.toml --extra redis --group build --group test -o requirements-test.lock
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	  --no-header --no-annotate tests/hosts/clients.in -o tests/hosts/clients.lock

clean: ## Remove everything that was made here
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .test-hosts
