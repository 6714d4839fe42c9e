# make demo | test | bench | lint | soak | fmt | clean
#
# Each target sets up what it needs in .venv by itself. A fresh machine needs python3 (3.11 or newer), a C++20
# compiler and a package registry. Three stamps record what .venv holds:
#   deps      the pinned packages; again when constraints.txt or pyproject.toml change
#   engine    the compiled module, installed editable; again when csrc/ or CMakeLists.txt change too
#   graphzero the peer that only the benchmarks need
#
#   PYTHON     the interpreter .venv is made from               make test PYTHON=python3.12
#   PIP_FLAGS  for pip install                                  make test PIP_FLAGS="--index-url https://..."
#   TESTS      what pytest runs                                 make test TESTS="tests/engine -k walk"
#   SCALE      size of the benchmark graph, 1 = 11.1 M nodes    make bench SCALE=1
#   DATA       where benchmark data is kept                     make bench DATA=/mnt/ssd/gz-bench
#   SOAK       how long `make soak` hunts for bugs, in seconds

PYTHON ?= python3
PIP_FLAGS ?=
TESTS ?= tests
SCALE ?= 0.1
DATA ?= /tmp/gz-bench
SOAK ?= 600

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet $(PIP_FLAGS) -c constraints.txt
DEPS := $(VENV)/.stamp-deps
ENGINE := $(VENV)/.stamp-engine
GRAPHZERO := $(VENV)/.stamp-graphzero
BENCHMARKS := open gather walk sample convert edge_ingest pyg_loader dgl_loader
# cmake and ninja, which the sanitizer tests need, may be only in .venv. `pytest`, not `python -m pytest`: that one puts the
# source folder gz/, which has no compiled module, before the installed package.
RUN := PATH="$(CURDIR)/$(BIN):$$PATH" DGLBACKEND=pytorch

.DELETE_ON_ERROR:
.PHONY: demo test bench lint soak fmt clean

demo: $(ENGINE)
	$(RUN) $(BIN)/python examples/demo.py

test: $(ENGINE)
	$(RUN) $(BIN)/pytest $(TESTS)

bench: $(ENGINE) $(GRAPHZERO)
	@failed=; for name in $(BENCHMARKS); do \
	  $(RUN) $(BIN)/python benchmarks/$$name.py --scale $(SCALE) --data $(DATA) || failed="$$failed $$name"; \
	done; test -z "$$failed" || { echo "missed a target or failed:$$failed"; exit 1; }

lint: $(ENGINE)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/clang-format --dry-run -Werror $(wildcard csrc/*.h csrc/*.cpp tests/engine/*.cpp)
	$(RUN) $(BIN)/mypy

# Every test again and again, each round with another seed, many more generated examples and twenty kills of an ingest, until the
# time is up.
soak: $(ENGINE)
	@end=$$(($$(date +%s) + $(SOAK))); round=0; while [ $$(date +%s) -lt $$end ]; do \
	  seed=$$(od -An -N4 -tu4 /dev/urandom | tr -d ' '); round=$$((round + 1)); \
	  echo "round $$round: GZ_TEST_SEED=$$seed"; \
	  $(RUN) HYPOTHESIS_PROFILE=soak GZ_TEST_SEED=$$seed $(BIN)/pytest -q --hypothesis-seed=$$seed $(TESTS) || \
	    { echo "to run it again: HYPOTHESIS_PROFILE=soak GZ_TEST_SEED=$$seed make test"; exit 1; }; \
	done

fmt: $(DEPS)
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(wildcard csrc/*.h csrc/*.cpp tests/engine/*.cpp)

clean:
	rm -rf build dist demo-store .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './$(VENV)*' -prune -exec rm -rf {} +
	rm -f $(ENGINE)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "gz needs Python 3.11 or newer; this is $$($(PYTHON) -V). Name another: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)

# torch first, so that nothing after it chooses another build. DGL 1.1.3, the last that runs with a current torch, has no
# wheel for Python 3.12 and newer: its tests are skipped there.
$(DEPS): constraints.txt pyproject.toml | $(BIN)/python
	@echo "setting up $(VENV): a few minutes the first time"
	$(PIP) torch
	$(PIP) torch_geometric 'dgl>=1.1.3,<2; python_version < "3.12"' packaging setuptools
	$(PIP) numpy pyarrow scipy pytest hypothesis xxhash ogb pandas ruff mypy clang-format cmake ninja
	@touch $@

$(ENGINE): $(DEPS) CMakeLists.txt pyproject.toml $(wildcard csrc/*)
	$(PIP) --editable '.[pyg,dev]'
	@touch $@

$(GRAPHZERO): constraints.txt | $(DEPS)
	$(PIP) graphzero
	@touch $@
