# Everything runs inside .venv, which is made on first use and again whenever pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
PLAIN := $(VENV)/kernels-for-any-processor
# Bytecode is written when a module is first imported, of which most of what is installed never is.
INSTALL := $(BIN)/python -m pip install --prefer-binary --no-compile
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test identity lint docs bench setup clean

setup: $(DEV)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "linmed needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "making $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing linmed and what it needs, about 200 MB, into $(VENV) ..."
	@$(INSTALL) --editable .
	@touch $(READY)

$(DEV): $(READY)
	@echo "installing the tools for tests into $(VENV) ..."
	@$(INSTALL) --quiet --editable '.[dev]'
	@touch $(DEV)

demo: $(READY)
	@echo "running the paper's experiments at a small scale; what they need is compiled first, once ..."
	@$(BIN)/linmed reproduce --scale quick --out out/demo

test: $(DEV)
	@$(BIN)/linmed warm-up
	@$(BIN)/python -m pytest

# What is promised to the last bit, as other processors would compute it: OpenBLAS with the instructions of
# two older ones, numba with none but those that all have (its kernels are kept apart). Of the shapes of arms
# two are enough: `make test` has all of them.
SOME := -k "not test_shapes or few or BLAS"
# Only the files that have such tests are collected.
EXACT = $(shell grep -rl 'mark\.identity' tests --include='*.py')
identity: $(DEV)
	@for core in Haswell Nehalem; do \
	  echo "identity tests, OPENBLAS_CORETYPE=$$core"; \
	  OPENBLAS_CORETYPE=$$core $(BIN)/python -m pytest -q -m identity $(SOME) $(EXACT) || exit 1; \
	done
	@echo "identity tests, NUMBA_CPU_NAME=generic"
	@NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(CURDIR)/$(PLAIN) $(BIN)/python -m pytest -q -m identity $(SOME) $(EXACT)

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tests/typing/outside.py pyright

# The manual, in out/site: open its index.html. (The variable silences an advertisement of the theme.)
docs: $(DEV)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "the manual is in out/site: open out/site/index.html"

bench: $(READY)
	@$(BIN)/linmed bench $(ARGS)

clean:
	@rm -rf $(VENV) out
