# make run: see what this is about, in about a minute. make test: everything that must hold.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
OUT ?= reproduction
# One more than there are cores: tests of other processes mostly wait.
WORKERS ?= $(shell $(PYTHON) -c 'import os; print(1 + os.cpu_count())')

.PHONY: run test docs reproduce bench race mpi stream federated scaling dist clean

# A stamp per set of extras: nothing is installed again until pyproject.toml changes.
$(VENV)/run.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report]'
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report,mpi,torch,jax,test]'
	touch $@

# Flower holds typer and rich back. So it has an environment of its own, which takes all else from the one beside it, and
# everything but its own tests runs with what users get who do not need it.
$(VENV)-flower/flower.stamp: $(VENV)/test.stamp
	$(PYTHON) -m venv $(VENV)-flower
	$(VENV)-flower/bin/python tests/share_packages.py $(VENV)
	$(VENV)-flower/bin/python -m pip install --quiet --editable '.[flower,ray]'
	touch $@

$(VENV)/dist.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet build twine
	touch $@

$(VENV)/docs.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report,tables,pandas,mpi,torch,jax,docs]'
	touch $@

# What needs no data set: table 1 and figures 1, 2, 6, 7, with short horizons.
run: $(VENV)/run.stamp
	$(BIN)/errorfeedback reproduce --quick --out $(OUT) table-1 figure-1 figure-2 figure-6 figure-7

# Everything at the authors' horizons; ERRORFEEDBACK_DATA names the folder with the data sets.
reproduce: $(VENV)/run.stamp
	$(BIN)/errorfeedback reproduce --out $(OUT)

test: $(VENV)/test.stamp $(VENV)-flower/flower.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 ERRORFEEDBACK_FLOWER=$(VENV)-flower/bin/python $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

# The site, in docs/_build/html: pages from the code, and tutorials that run. A warning is an error.
# `make docs SPHINX='-D plot_gallery=0'` leaves the tutorials' programs alone.
docs: $(VENV)/docs.stamp
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m sphinx -b html -j auto -W --keep-going -n $(SPHINX) docs docs/_build/html

# What a round costs against the alternatives, as ratios within one run; and how it grows.
bench: $(VENV)/test.stamp
	$(BIN)/python benchmarks/speed.py

# Total bytes and time on a link until a model is good, against the best peers; README's figure.
race: $(VENV)/test.stamp
	OPENBLAS_NUM_THREADS=1 $(BIN)/python benchmarks/race.py --out benchmarks/race.json --figure docs/race.png

# What a round costs over MPI, and what that means for many nodes.
mpi: $(VENV)/test.stamp
	$(BIN)/python benchmarks/mpi.py

# What a round costs over the stream, over Flower's messages and in Ray's actors.
federated: $(VENV)-flower/flower.stamp
	$(VENV)-flower/bin/python benchmarks/federated.py --messages --ray

# What a round costs over TLS to nodes on this machine, with and without a journal, beside Local and MPI.
stream: $(VENV)/test.stamp
	$(BIN)/python benchmarks/stream.py

scaling: $(VENV)/test.stamp
	$(BIN)/python benchmarks/scaling.py

# A wheel and an sdist, checked, installed into empty environments and used as README says.
dist: $(VENV)/dist.stamp
	rm -rf build/dist && mkdir -p build/dist
	$(BIN)/python tests/package_builds.py --out dist --work build/dist

clean:
	rm -rf $(VENV) $(VENV)-flower $(OUT) docs/_build docs/generated docs/tutorials
