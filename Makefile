# Two commands are the whole set-up: `make demo` and `make test`. Each makes its own virtual environment.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# Machines with few cores: one thread for BLAS, two for our kernels, unless the caller says otherwise.
export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1
export PIP_DISABLE_PIP_VERSION_CHECK = 1

.PHONY: help demo test lint page dist bench docs clean

help:
	@echo "make demo   install the core and walk the whole way on simulated reviews (under two minutes)"
	@echo "make test   install everything and run all checks and tests (under ten minutes)"
	@echo "make page   build the web page into the package (needs Node)"
	@echo "make dist   build the wheel and the sdist, both with the page, and serve the wheel from a clean environment"
	@echo "make docs   build the documentation into site/, without network"
	@echo "make bench  run all benchmarks and rewrite their tables (an hour; DATA=\"triplets.parquet reviews.jsonl.gz\" for yours)"
	@echo "make clean  remove what the other commands made"

demo: $(VENV)/.demo
	$(BIN)/whyrank demo -o demo

test: $(VENV)/.test
	scripts/system-packages
	$(MAKE) lint
	@if command -v npm > /dev/null; then $(MAKE) page; fi
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The page's types come from the service's own OpenAPI document.
page: $(VENV)/.serve
	$(BIN)/python scripts/openapi web/openapi.json
	cd web && npm ci --no-audit --no-fund && npm run types && npm run check && npm run build

dist: page $(VENV)/.test
	rm -rf dist
	$(BIN)/python -m hatchling build
	scripts/try-wheel dist/*.whl

docs: $(VENV)/.test
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: $(VENV)/.test
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

# torch first and pinned: a range may bring gigabytes of GPU libraries. Compiled on all cores afterwards: pip takes one.
$(VENV)/.test: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/pip install --quiet --no-compile -c constraints.txt torch
	$(BIN)/pip install --quiet --no-compile -c constraints.txt -e '.[all]'
	$(BIN)/python -m compileall -qq -j 0 $(VENV)/lib || true  # a few templates are no Python
	@touch $@ $(VENV)/.demo $(VENV)/.serve
