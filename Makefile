# Two commands are the whole set-up: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
NPM := $(shell command -v npm 2> /dev/null)
# Machines with few cores: one thread for BLAS, two for our kernels, unless the caller says otherwise.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo check test test-all lint page modules kernels system dist bench docs clean

help:
	@echo "make demo   install the core and walk the whole way on simulated reviews (under two minutes)"
	@echo "make check  lint, types and the fast tests (under two minutes once installed)"
	@echo "make test   install what the tests need, build the page, run lint, types and tests (seven minutes on two cores)"
	@echo "make test-all  also tests of encoders, Ray, S3, PostgreSQL and other long ones (half an hour)"
	@echo "make page   build the web page into the package (needs Node)"
	@echo "make dist   build the wheel and the sdist, both with the page, and serve the wheel from a clean environment"
	@echo "make docs   build the documentation into site/, without network"
	@echo "make bench  run all benchmarks and rewrite their tables (an hour; DATA=\"triplets.parquet reviews.jsonl.gz\" for yours)"
	@echo "make clean  remove what the other commands made"

demo: $(VENV)/.demo
	$(BIN)/whyrank demo -o demo

# Many tests wait for processes: one more than cores.
PYTEST = $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder
SYSTEM = chromium

check: $(VENV)/.test
	$(MAKE) -j 2 lint kernels
	$(BIN)/python -m pytest -n 2 --dist loadfile -m fast

# What waits for the network or for one core is done side by side.
test:
	$(MAKE) -j 3 $(VENV)/.test system $(if $(NPM),modules)
	$(MAKE) -j 3 lint kernels $(if $(NPM),page)
	$(PYTEST) -m "not slow"

test-all:
	$(MAKE) -j 3 $(VENV)/.all system $(if $(NPM),modules) SYSTEM="chromium postgresql"
	$(MAKE) -j 3 lint kernels $(if $(NPM),page)
	WHYRANK_TESTS=all $(PYTEST)

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The page's types come from the service's own OpenAPI document.
page: $(VENV)/.serve modules
	$(BIN)/python scripts/openapi web/openapi.json
	cd web && npm run types && npm run check && npm run build

modules: web/node_modules/.package-lock.json

web/node_modules/.package-lock.json: web/package-lock.json
	cd web && npm ci --no-audit --no-fund
	@touch $@

# Compiled once, and not by every process that tests start.
kernels: $(VENV)/.test
	$(BIN)/whyrank doctor --compile > /dev/null

system:
	scripts/system-packages $(SYSTEM)

dist: page $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m hatchling build
	scripts/try-wheel dist/*.whl

docs: $(VENV)/.all
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.all
	$(BIN)/python benchmarks/run_all.py $(DATA)

clean:
	rm -rf $(VENV) .compatibility dist site demo web/node_modules web/openapi.json web/src/lib/openapi.d.ts src/whyrank/service/page .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -type d -exec rm -rf {} +

$(BIN)/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'whyrank needs Python 3.11 or newer; set PYTHON=')"
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet -e '.[mine]'
	@touch $@

$(VENV)/.serve: $(BIN)/python pyproject.toml
	$(BIN)/pip install --quiet -e '.[mine,serve]'
	@touch $@ $(VENV)/.demo

# Compiled on all cores afterwards, where pip takes one.
$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e '.[dev]'
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|templates)/' $(VENV)/lib || true
	@touch $@ $(VENV)/.demo $(VENV)/.serve

# torch first and pinned: a range may bring gigabytes of GPU libraries.
$(VENV)/.all: $(VENV)/.test
	$(BIN)/pip install --quiet --no-compile -c constraints.txt torch
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e '.[all]'
	$(BIN)/python -m compileall -qq -j 0 -x '/(tests?|transformers/models|rllib|sympy)/' $(VENV)/lib || true
	@touch $@
