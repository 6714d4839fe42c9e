# make demo | test | test-fast | package | lower-bounds | docs | bench | lint | soak | soak-memory | fmt | clean
#
# Each target sets up what it needs in .venv by itself. A fresh machine needs python3 (3.11 or newer), a C++20
# compiler and a package registry. Two stamps record what .venv holds:
#   deps      the pinned packages; again when constraints.txt or pyproject.toml change
#   engine    the compiled module, installed editable; again when csrc/ or CMakeLists.txt change too
#
#   PYTHON     the interpreter .venv is made from               make test PYTHON=python3.12
#   PIP_FLAGS  for pip install                                  make test PIP_FLAGS="--index-url https://..."
#   TESTS      what pytest runs                                 make test TESTS="tests/engine -k walk"
#   DEMO       flags of `gz demo`                               make demo DEMO="--limit 2GB --size 8GB"
#   SCALE      size of the benchmark graph, 1 = 11.1 M nodes    make bench SCALE=1
#   DATA       where benchmark data is kept                     make bench DATA=/mnt/ssd/gz-bench
#   SOAK       how long `make soak` hunts for bugs, in seconds
#   CAPPED     how long `make soak` first trains under a memory limit, in seconds; root     make soak CAPPED=3600

PYTHON ?= python3
PIP_FLAGS ?=
TESTS ?= tests
SCALE ?= 0.1
DATA ?= /tmp/gz-bench
SOAK ?= 600
CAPPED ?= 0
DEMO ?=

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_FLAGS) -c constraints.txt
DEPS := $(VENV)/.stamp-deps
ENGINE := $(VENV)/.stamp-engine
CXX_FILES := $(wildcard csrc/*/*.h csrc/*/*.cpp tests/engine/*.cpp)
# edge_ingest and convert come first: they make the edges and the files that the others take.
BENCHMARKS := open edge_ingest convert gather walk sample temporal pyg_loader dgl_loader
# cmake and ninja, which the sanitizer tests need, may be only in .venv.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" DGLBACKEND=pytorch

.DELETE_ON_ERROR:
.PHONY: demo test test-fast package lower-bounds docs bench lint soak soak-memory fmt clean

demo: $(ENGINE)
	$(RUN) $(BIN)/gz demo $(DEMO)

test: $(ENGINE)
	$(RUN) $(BIN)/pytest $(TESTS)

# One case of every test that is not slow, in less than two minutes: for between two edits.
test-fast: $(ENGINE)
	$(RUN) $(BIN)/pytest -m "not slow" --one-case $(TESTS)

# The site, with the reference from docstrings, into site/; a warning is an error.
docs: $(DEPS)
	$(PIP) mkdocs-material mkdocstrings-python
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet --site-dir site

# The sdist, and wheels built from it, installed into empty environments and tried there.
package: $(DEPS)
	$(PIP) build
	$(BIN)/python tests/package.py

# The oldest versions that pyproject.toml allows, in an empty environment: gigabytes, where torch comes with CUDA. Not a part of CI.
lower-bounds: $(DEPS)
	$(BIN)/python tests/lower_bounds.py --pip-flags="$(PIP_FLAGS)"

bench: $(ENGINE)
	@failed=; for name in $(BENCHMARKS); do \
	  $(RUN) $(BIN)/python benchmarks/$$name.py --scale $(SCALE) --data $(DATA) || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "missed a target or failed:$$failed"; exit 1; }

# The stub that the build generates, put where mypy looks for it: calls of the engine are checked too.
lint: $(ENGINE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(CXX_FILES)
	cp "$$($(BIN)/python -c 'import gz, os; print(os.path.dirname(gz._engine.__file__))')/_engine.pyi" gz/
	$(RUN) $(BIN)/mypy
	$(BIN)/python tests/tree.py

# Every test again and again, each round with another seed, many more generated examples, broken stores and twenty kills of an
# ingest, until the time is up.
soak: $(ENGINE)
	@test $(CAPPED) -eq 0 || $(RUN) GZ_CAPPED=$(CAPPED) $(BIN)/pytest -q -rP -o faulthandler_timeout=0 tests/trust/test_campaigns.py -k limit
	@end=$$(($$(date +%s) + $(SOAK))); round=0; while [ $$(date +%s) -lt $$end ]; do \
	  seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); round=$$((round + 1)); \
	  echo "round $$round: GZ_TEST_SEED=$$seed"; \
	  $(RUN) HYPOTHESIS_PROFILE=soak GZ_TEST_SEED=$$seed $(BIN)/pytest -q --hypothesis-seed=$$seed $(TESTS) || \
	    { echo "to run it again: HYPOTHESIS_PROFILE=soak GZ_TEST_SEED=$$seed make test"; exit 1; }; \
	done

# Every limit, model, loader and number of workers on 11 M nodes: who is killed, bare and with the defaults. Hours; needs root and 7 GB.
soak-memory: $(ENGINE)
	$(RUN) $(BIN)/python benchmarks/memory_caps.py --scale 1 --data $(DATA) --repeat 1
	$(RUN) $(BIN)/python benchmarks/memory_caps.py --scale 1 --data $(DATA) --repeat 1 --caps 4,6 --hidden 64 --grow 1024

fmt: $(DEPS)
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(CXX_FILES)

clean:
	rm -rf build dist gz-demo gz-demo.svg .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)*' -prune -exec rm -rf {} +
	rm -f $(ENGINE)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gz needs Python 3.11 or newer; this is $$($(PYTHON) -V). Name another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch first, so that nothing after it chooses another build. DGL 1.1.3, the last that runs with a current torch, has no
# wheel for Python 3.12 and newer: its tests are skipped there. GraphZero is a peer of the benchmarks, and writes the files that
# gz reads in tests/ingest/layout/test_graphzero_files.py; where it has no wheel, those are skipped. polars (180 MB) makes frames that
# tests/ingest/read/test_frames.py ingests.
$(DEPS): constraints.txt pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV): a few minutes the first time"
	$(PIP) torch
	$(PIP) torch_geometric 'dgl>=1.1.3,<2; python_version < "3.12"' packaging setuptools
	$(PIP) numpy pyarrow scipy pytest pytest-timeout hypothesis xxhash ogb pandas pytorch-lightning ruff mypy clang-format cmake ninja
	$(PIP) --only-binary graphzero graphzero || echo "no wheel of graphzero for this machine"
	$(PIP) --only-binary :all: polars || echo "no wheel of polars for this machine"
	@touch $@

$(ENGINE): $(DEPS) CMakeLists.txt pyproject.toml $(wildcard csrc/*/*)
	$(PIP) --editable '.[pyg,dev]'
	@touch $@
