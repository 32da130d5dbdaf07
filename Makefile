# Each target sets up what it needs in .venv; a second run finds it there. "make" alone lists the targets.
#
# PYTHON     interpreter that .venv is made with, 3.11 or later
# WORKERS    processes that run the tests
# ARGS       further arguments for pytest: make test ARGS="-k resume"
# GPU_PYTHON interpreter whose framework sees the GPU (.venv may hold a CPU build)
# TENSORFLOW package of TensorFlow that the tests run with: the build for CPUs is half the size
#
# requirements/constraints.txt pins what the tests ran with, PyTorch first of all: an unpinned torch takes
# whatever is newest. Where the pins do not exist (a very new Python), use CONSTRAINTS=other-file.txt.

PYTHON ?= python3
GPU_PYTHON ?= python3
WORKERS ?= 2
ARGS ?=
TENSORFLOW ?= tensorflow-cpu
CONSTRAINTS ?= requirements/constraints.txt

BIN := .venv/bin
INSTALL := -m pip --disable-pip-version-check install -qq --no-compile --constraint $(CONSTRAINTS)
FAST := not slow and not gpu
PYTEST := $(BIN)/python -m pytest -n $(WORKERS)
DEV := jax sklearn logging export cli remote search dev
# the range of requirements/tensorflow.txt, for the package that is tested
TENSORFLOW_FOR_TESTS := "$(shell sed -n 's/^tensorflow>/$(TENSORFLOW)>/p' requirements/tensorflow.txt)"
ONLY_none :=
ONLY_torch := -r requirements/torch.txt
ONLY_tensorflow := $(TENSORFLOW_FOR_TESTS)
ONLY_jax := -r requirements/jax.txt
ONLY_sklearn := -r requirements/sklearn.txt
BACKENDS := toy torch torchscript tensorflow jax sklearn
NOTEBOOKS := $(wildcard notebooks/*.ipynb)
BENCHMARKS := $(filter-out %_gpu.py,$(wildcard benchmarks/[!_]*.py))
GPU_BENCHMARKS := $(wildcard benchmarks/[!_]*_gpu.py)

# Workers share the cores, so each computes with one thread: faster, and the same bits on every machine.
test test-changed chaos spec parity test-all test-backends test-rooms test-notebooks notebooks test-only-%: export OMP_NUM_THREADS := 1
# JAX takes longer to make programs fast than tests to run them; make full compiles as users do.
test test-changed: export XLA_FLAGS := --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true
# No target needs a screen.
export MPLBACKEND := Agg
# Tests and benchmarks start hundreds of interpreters: each would compile all of delira again.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: help demo test test-changed chaos spec parity docs lint format stubs full test-all test-backends test-rooms test-notebooks notebooks bench test-gpu bench-gpu clean distclean

help:
	@echo "make demo       cross-validate a network on the digits that scikit-learn brings"
	@echo "make test       the tests, without the slow ones"
	@echo "make test-changed  the tests that belong to the files changed since main: a few seconds each"
	@echo "make chaos      trainings killed at every call and at random times, all of them: part of make full"
	@echo "make spec       the specification on every backend; writes docs/specification.md"
	@echo "make parity     the same training in every backend; writes docs/parity.md"
	@echo "make docs       the site, in docs/_build/html; a warning is an error, and nothing is fetched"
	@echo "make lint       ruff, ruff format and mypy"
	@echo "make format     let ruff rewrite what it can"
	@echo "make stubs      what editors see of names that are resolved on first use, made from where they are stated"
	@echo "make full       all tests, the notebooks, and the tests again with one framework alone, and with none"
	@echo "make test-only-none    the tests with no framework; test-only-torch, -tensorflow, -jax, -sklearn with that one alone"
	@echo "make test-notebooks    the notebooks, from top to bottom; make notebooks also writes what they show"
	@echo "make bench      the benchmarks"
	@echo "make test-gpu   the tests that need a GPU        (GPU_PYTHON=python3)"
	@echo "make bench-gpu  the benchmarks that need a GPU   (GPU_PYTHON=python3)"
	@echo "make clean      remove what was built; make distclean removes .venv too"

demo: .venv/.stamp-torch
	@$(BIN)/python examples/digits_kfold.py

lint: .venv/.stamp-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: .venv/.stamp-dev
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

stubs: .venv/.stamp-dev
	@$(BIN)/python tests/stubs.py

test: .venv/.stamp-dev
	@$(call all_tests,-m "$(FAST)" --sample $(ARGS))

# BASE: branch or commit that is compared with
BASE ?= main
test-changed: .venv/.stamp-dev
	@set -ef; tests=$$($(BIN)/python tests/belonging.py --since $(BASE)); \
		if [ -n "$$tests" ]; then $(BIN)/python -m pytest -m "$(FAST)" --sample $$tests $(ARGS); fi

chaos: .venv/.stamp-dev
	@$(PYTEST) -m "not gpu" tests/chaos $(ARGS)

# One after the other: the machine is not shared out. With Sphinx there, a slow test builds the site and looks at it.
full: .venv/.stamp-docs
	@$(MAKE) --no-print-directory test-all
	@$(MAKE) --no-print-directory test-backends
	@$(MAKE) --no-print-directory test-notebooks
	@$(MAKE) --no-print-directory test-only-none
	@$(MAKE) --no-print-directory test-only-torch
	@$(MAKE) --no-print-directory test-only-tensorflow
	@$(MAKE) --no-print-directory test-only-jax
	@$(MAKE) --no-print-directory test-only-sklearn

# The slow tests build the source distribution and the wheel, and check what is in them; they are those of
# "make chaos", too. With other libraries' transforms and datasets there, the tests that use them run, too, and
# those that begin servers of others.
test-all: .venv/.stamp-peers .venv/.stamp-servers
	@$(call all_tests,-m "not gpu" $(ARGS))

# What "make test" runs for two backends and the specification for the others, for these too. A backend without a writer of its
# own needs no chaos of its own: TorchScript has one.
test-backends: .venv/.stamp-dev
	@$(PYTEST) -m "$(FAST)" --sample --backends torchscript,tensorflow,jax -k "torchscript or tensorflow or jax" \
		tests/training tests/experiments tests/runs tests/io tests/test_bad_input.py $(ARGS)
	@$(PYTEST) -m "$(FAST)" --sample --backends torchscript -k torchscript tests/chaos $(ARGS)

#: as it was called
test-rooms: test-backends

test-notebooks: .venv/.stamp-dev
ifeq ($(NOTEBOOKS),)
	@echo "no notebooks in notebooks/"
else
	@$(BIN)/python -m pytest --nbmake --nbmake-timeout=600 --timeout=900 --durations=0 --durations-min=1 $(NOTEBOOKS)
endif

# What they show now, written into them; "git diff notebooks" says what has changed. With Agg they would show no figures.
notebooks: export MPLBACKEND := module://matplotlib_inline.backend_inline
notebooks: .venv/.stamp-dev
	@$(BIN)/python tests/run_notebooks.py $(NOTEBOOKS)

# delira as a user gets it who has one framework, or none: the wheel with its own requirements, in a fresh environment.
# "pytest", not "python -m pytest", which would find the checkout before the installed wheel. All tests are collected there;
# those that break files and processes are not run again.
NOT_AGAIN := $(foreach part,chaos fuzz honesty migration parity,--deselect tests/$(part))
test-only-%:
	@$(call require_python)
	@rm -rf build .venv-$*
	@$(PYTHON) -m venv .venv-$*
	@.venv-$*/bin/python $(INSTALL) . pytest pytest-timeout pytest-xdist hypothesis $(ONLY_$*)
	@rm -rf build
	@.venv-$*/bin/pytest -n $(WORKERS) -m "$(FAST)" --sample $(NOT_AGAIN) $(ARGS)

spec: .venv/.stamp-dev
	@PYTHONPATH=tests $(BIN)/python -m delira.testing.spec $(BACKENDS:%=spec_backends.%) --output docs/specification.md

parity: .venv/.stamp-dev
	@PYTHONPATH=tests $(BIN)/python -m parity.compare --write docs/parity.md

docs: .venv/.stamp-docs
	@$(BIN)/python -m sphinx -q -W --keep-going -d docs/_build/doctrees docs docs/_build/html
	@echo "docs/_build/html/index.html"

# torchbearer's wheel also holds a package "tests": it stays out of the environment, as do peers that nothing else needs
bench: .venv/.stamp-dev
	@test -d .venv/peers || $(BIN)/python $(INSTALL) --no-deps --target .venv/peers skorch==1.4.0 lightning==2.6.6 pytorch-lightning==2.6.6
	@test -d .venv/torchbearer || $(BIN)/python $(INSTALL) --no-deps --target .venv/torchbearer torchbearer==0.5.5
	@set -e; for file in $(BENCHMARKS); do echo "== $$file"; $(BIN)/python $$file; done

test-gpu:
	@PYTHONPATH=. $(GPU_PYTHON) -m pytest -m gpu $(ARGS)

bench-gpu:
	@set -e; for file in $(GPU_BENCHMARKS); do echo "== $$file"; PYTHONPATH=. $(GPU_PYTHON) $$file; done

clean:
	rm -rf build dist *.egg-info .venv-* .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage htmlcov docs/_build docs/api docs/project docs/tutorials
	find . -name __pycache__ -not -path "./.venv/*" -prune -exec rm -rf {} +

distclean: clean
	rm -rf .venv

# All tests, or those that the arguments name. A process that has imported all frameworks takes ten times as long to fork:
# the tests that fork hundreds of processes are run before the others. 5 means that there was no test.
define all_tests
$(if $(filter tests/%,$(1)),$(PYTEST) $(1), \
$(PYTEST) --forks only $(1); forks=$$?; \
$(PYTEST) --forks no $(1); rest=$$?; \
if [ $$forks -ne 0 ] && [ $$forks -ne 5 ]; then echo "tests that fork failed, see above" >&2; exit $$forks; fi; \
if [ $$rest -eq 5 ]; then exit $$forks; fi; \
exit $$rest)
endef

define require_python
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	echo "delira needs Python 3.11 or later, and '$(PYTHON)' is not one." \
	     "Name another: make PYTHON=/path/to/python3.11" >&2; exit 1; }
endef

.venv/bin/python:
	@$(call require_python)
	@echo "setting up .venv"
	@$(PYTHON) -m venv .venv

# The order of the stamps: base and PyTorch with delira itself (what the demo needs), then the rest.
.venv/.stamp-torch: requirements/base.txt requirements/torch.txt $(CONSTRAINTS) setup.py | .venv/bin/python
	@echo "installing base and torch requirements"
	@$(BIN)/python $(INSTALL) -r requirements/base.txt -r requirements/torch.txt "setuptools>=77"
	@$(BIN)/python $(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

.venv/.stamp-dev: .venv/.stamp-torch $(DEV:%=requirements/%.txt) requirements/tensorflow.txt
	@echo "installing the other frameworks, logging, export, cli and dev requirements"
	@$(BIN)/python $(INSTALL) $(DEV:%=-r requirements/%.txt) $(TENSORFLOW_FOR_TESTS)
	@touch $@

.venv/.stamp-docs: .venv/.stamp-dev requirements/docs.txt
	@echo "installing what builds the site"
	@$(BIN)/python $(INSTALL) -r requirements/docs.txt
	@touch $@

.venv/.stamp-peers: .venv/.stamp-dev requirements/peers.txt requirements/trackers.txt requirements/ray.txt requirements/slurm.txt requirements/trixi.txt requirements/visdom.txt
	@echo "installing the libraries that are tested side by side"
	@$(BIN)/python $(INSTALL) -r requirements/peers.txt -r requirements/trackers.txt -r requirements/ray.txt -r requirements/slurm.txt
	@$(call install_visdom) || echo "visdom cannot be built here, so its tests and those of trixi are skipped; see requirements/visdom.txt"
	@$(call install_trixi) || echo "trixi cannot be installed here, so its tests are skipped; see requirements/trixi.txt"
	@touch $@

# Servers that tests begin, in an environment of their own: requirements/servers.txt.
.venv/.stamp-servers: requirements/servers.txt $(CONSTRAINTS) | .venv/bin/python
	@echo "installing the servers that tests begin"
	@$(BIN)/python -m venv .venv/servers
	@grep -v "^pyarrow==" $(CONSTRAINTS) > .venv/servers/constraints.txt
	@.venv/servers/bin/python $(subst $(CONSTRAINTS),.venv/servers/constraints.txt,$(INSTALL)) -r requirements/servers.txt
	@touch $@

# visdom is built with an older setuptools, which .venv itself does not get: requirements/visdom.txt.
define install_visdom
$(BIN)/python -m pip --disable-pip-version-check install -qq --upgrade --target .venv/build-of-visdom "setuptools<81" && \
	PYTHONPATH="$(CURDIR)/.venv/build-of-visdom" $(BIN)/python $(INSTALL) --no-build-isolation -r requirements/visdom.txt
endef

# trixi's own pins cannot be installed: requirements/trixi.txt.
define install_trixi
$(BIN)/python $(INSTALL) -r requirements/trixi.txt && $(BIN)/python $(INSTALL) --no-deps trixi==0.1.2.2
endef
