# Everything runs inside .venv. What has changed is installed or built again, and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BUILT := $(VENV)/.built
DEV := $(VENV)/.ready-dev
CORE := $(wildcard core/*)
# Bytecode is written when a module is first imported, of which most of what is installed never is.
INSTALL := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --prefer-binary --no-compile --quiet
EDITABLE := $(INSTALL) --no-build-isolation --editable
export PIP_DISABLE_PIP_VERSION_CHECK := 1
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test identity sanitize lint docs bench setup wheels release clean

setup: $(DEV) $(BUILT)

$(READY): pyproject.toml tools/build_backend.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "linmed needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@echo "making $(VENV) ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing what builds linmed into $(VENV) ..."
	@$(BIN)/python tools/build_backend.py > $(VENV)/build-tools.txt
	@grep -q ziglang $(VENV)/build-tools.txt && echo "there is no C++ compiler here: zig's is taken, from PyPI" || true
	@$(INSTALL) -r $(VENV)/build-tools.txt
	@echo "building the core (about a minute) and installing linmed with what it needs into $(VENV) ..."
	@$(EDITABLE) '.[paper]'
	@touch $(READY) $(BUILT)

# The core, when its source has changed: only the files that did are compiled.
$(BUILT): $(READY) $(CORE)
	@echo "building what changed in the core ..."
	@$(EDITABLE) . --no-deps
	@touch $(BUILT)

$(DEV): $(READY)
	@echo "installing the tools for tests into $(VENV) ..."
	@$(EDITABLE) '.[dev]'
	@touch $(DEV) $(BUILT)

demo: $(READY) $(BUILT)
	@echo "running the paper's experiments at a small scale ..."
	@$(BIN)/linmed reproduce --scale quick --out out/demo

test: $(DEV) $(BUILT)
	@$(BIN)/python -m pytest

# The core once more, with other settings; its modules are in the directory that the settings name.
AGAIN := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip wheel . --quiet --no-deps --no-build-isolation --wheel-dir build/again

# What is promised to the last bit, as other processors compute it: the core for older processors and by zig's compiler
# (clang), OpenBLAS with the instructions of two older processors. Of the shapes of arms two are enough: `make test` has all
# of them. Only the files that have such tests are collected.
EXACT = $(shell grep -rl 'mark\.identity' tests --include='*.py')
SOME := -k "not test_shapes or few or BLAS"
identity: $(DEV) $(BUILT)
	@echo "building the core for older processors, and by zig's compiler ..."
	@$(INSTALL) ziglang
	@$(AGAIN) -C build-dir=build/levels/own -C cmake.define.LINMED_LEVELS="2;3"
	@CXX=zig $(AGAIN) -C build-dir=build/levels/zig -C cmake.define.LINMED_LEVELS="2;3;4"
	@LINMED_CORES=build/levels $(BIN)/python -m pytest -q tests/core/test_same_bits.py
	@for core in Haswell Nehalem; do \
	  echo "identity tests, OPENBLAS_CORETYPE=$$core"; \
	  OPENBLAS_CORETYPE=$$core $(BIN)/python -m pytest -q -m identity $(SOME) $(EXACT) || exit 1; \
	done

# The core's own tests, with a build that stops at undefined behaviour and at memory that is not its own. The interpreter was
# built without: the sanitizer must be there before it starts, and C++ for exceptions. Python leaves much to the end of the
# process, hence no search for leaks; NumPy's small arrays are watched with malloc.
sanitize: $(DEV) $(BUILT)
	@$(AGAIN) -C build-dir=build/sanitize -C cmake.define.LINMED_SANITIZE="address,undefined"
	@LINMED_CORE=$$(echo build/sanitize/_core*.so) PYTHONMALLOC=malloc \
	  LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libstdc++.so)" \
	  ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1 \
	  $(BIN)/python -m pytest -q -p no:xdist -o addopts= --capture=sys $(or $(ARGS),tests/core tests/reference)

lint: $(DEV)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tests/typing/outside.py pyright

# The manual, in out/site: open its index.html. (The variable silences an advertisement of the theme.)
docs: $(DEV) $(BUILT)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	@echo "the manual is in out/site: open out/site/index.html"

bench: $(READY) $(BUILT)
	@$(BIN)/python benchmarks/bench.py $(ARGS)

# What is uploaded, in dist/: wheels for Linux, macOS and Windows, by zig's compiler, and for a release the source archive too.
wheels release: $(DEV)
	@$(INSTALL) ziglang twine check-wheel-contents auditwheel abi3audit
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python tools/release.py $(or $(ARGS),$(if $(filter wheels,$@),all))

clean:
	@rm -rf $(VENV) out build dist
	@rm -f src/linmed/_core*.so src/linmed/_level*.so
