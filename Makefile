# Everything a clone needs, it installs itself: `make demo` and `make test` need Python 3.11+ and make, nothing else.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Tests start dozens of processes; where bytecode may not be kept, each would compile the package anew.
CACHED := PYTHONDONTWRITEBYTECODE=

.PHONY: help install demo quick test test-slow docs coverage browser check bench bench-compare format clean

help:  ## what there is to make
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 20

install: $(STAMP)  ## a virtual environment in .venv with everything in it

$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pixpnet needs Python 3.11 or newer; this is $$($(PYTHON) --version). Try: make PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	@touch $(STAMP)

demo: $(STAMP)  ## the main job, start to end, on this machine
	$(BIN)/pixpnet demo --out demo

check: $(STAMP)  ## format, lint, types and the import contract, without the tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# What breaks most often, and says so fastest: rules between rooms, settings and files, parts, and one short training of
# each member of the family with everything that is done with a run.
QUICK := tests/test_rooms.py tests/test_settings.py tests/test_config.py tests/test_records.py tests/test_package.py \
  tests/parts tests/members/test_contract.py tests/members/test_presets.py tests/training/test_schedule.py tests/model/test_network.py tests/model/test_file.py \
  tests/explanation/test_record.py src/pixpnet/parts src/pixpnet/members src/pixpnet/family.py src/pixpnet/config.py \
  src/pixpnet/commands/train_options.py

quick: $(STAMP)  ## a short loop while you work: format, lint, and tests that catch most mistakes, in about a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(CACHED) OMP_NUM_THREADS=1 HYPOTHESIS_PROFILE=few $(BIN)/python -m pytest -n 2 --dist worksteal -k 'not stage2 and not interrupted and not two_processes' $(QUICK)

test: check  ## everything that must hold before a change lands
	$(CACHED) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal

docs: $(STAMP)  ## the documentation site, into site/, which opens from disk
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

coverage: $(STAMP)  ## which lines of the package the tests run: a report, not a target
	$(CACHED) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term:skip-covered --cov-report=html:coverage

browser:  ## Chromium for the tests of pages, where there is none and this machine lets us install it
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get -qq update >/dev/null && \
	    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends chromium >/dev/null 2>&1; } || \
	  echo "no Chromium here, and it cannot be installed (that needs root and Debian's apt-get): tests of pages skip"

test-slow: $(STAMP)  ## what takes minutes: the probe on timm's families, and on every pixel of Inception
	$(CACHED) OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m slow -n 2 --dist worksteal

BENCHMARKS := fields birds training members mapping explaining predicting serving relevance ordering misalignment loading

# Exit code 1 is a missed limit, after which the others are measured all the same; 2 of loading: its pictures are not here.
bench: $(STAMP)  ## speed, as ratios measured side by side in one run; JSON=FILE keeps them
	@missed=; for name in $(BENCHMARKS); do \
	  echo "$$name"; \
	  options=; test $$name = misalignment && options="--images 10"; \
	  $(BIN)/python benchmarks/$$name.py $$options $(if $(JSON),--json $(JSON)); code=$$?; \
	  case $$code-$$name in 0-*|2-loading) ;; 1-*) missed="$$missed $$name" ;; *) exit $$code ;; esac; \
	done; test -z "$$missed" || { echo "limits missed:$$missed"; exit 1; }

bench-compare: $(STAMP)  ## which figures got slower by more than their noise: OLD=a.json NEW=b.json
	@test -n "$(OLD)" -a -n "$(NEW)" || { echo "make bench-compare OLD=a.json NEW=b.json: both files, from make bench JSON=FILE"; exit 2; }
	$(BIN)/python benchmarks/compare.py $(OLD) $(NEW)

format: $(STAMP)  ## put the code in its standard form
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove the virtual environment and what the demo made
	rm -rf $(VENV) demo
