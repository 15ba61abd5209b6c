# Everything runs inside .venv, which is made on first use and again whenever pyproject.toml changes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEV := $(VENV)/.ready-dev
FRESH := $(VENV)/.kernels
PLAIN := $(VENV)/kernels-for-any-processor
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test identity lint bench setup clean

setup: $(DEV)

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "linmed needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "installing linmed into $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --editable .
	@touch $(READY)

$(DEV): $(READY)
	@echo "installing the tools for tests into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(DEV)

# numba's cache of a kernel does not notice a change in another file that the kernel calls.
$(FRESH): $(READY) $(wildcard src/linmed/kernels/*.py)
	@rm -rf src/linmed/kernels/__pycache__/*.nb[ci] $(PLAIN)
	@touch $(FRESH)

demo: $(FRESH)
	@$(BIN)/linmed reproduce --scale quick --out out/demo

test: $(DEV) $(FRESH)
	@$(BIN)/python -m pytest

# What is promised to the last bit, as other processors would compute it: OpenBLAS with the instructions of
# two older ones, numba with none but those that all have (its kernels are kept apart).
identity: $(DEV) $(FRESH)
	@for core in Haswell Nehalem; do \
	  echo "identity tests, OPENBLAS_CORETYPE=$$core"; \
	  OPENBLAS_CORETYPE=$$core $(BIN)/python -m pytest -q -m identity || exit 1; \
	done
	@echo "identity tests, NUMBA_CPU_NAME=generic"
	@NUMBA_CPU_NAME=generic NUMBA_CACHE_DIR=$(CURDIR)/$(PLAIN) $(BIN)/python -m pytest -q -m identity

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

bench: $(FRESH)
	@$(BIN)/linmed bench $(ARGS)

clean:
	@rm -rf $(VENV) out
