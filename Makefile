# make run: see what this is about, in about a minute. make test: everything that must hold.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
OUT ?= reproduction

.PHONY: run test reproduce bench race mpi stream scaling clean

# A stamp per set of extras: nothing is installed again until pyproject.toml changes.
$(VENV)/run.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report]'
	touch $@

$(VENV)/test.stamp: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --editable '.[report,mpi,torch,jax,test]'
	touch $@

# What needs no data set: table 1 and figures 1, 2, 6, 7, with short horizons.
run: $(VENV)/run.stamp
	$(BIN)/errorfeedback reproduce --quick --out $(OUT) table-1 figure-1 figure-2 figure-6 figure-7

# Everything at the authors' horizons; ERRORFEEDBACK_DATA names the folder with the data sets.
reproduce: $(VENV)/run.stamp
	$(BIN)/errorfeedback reproduce --out $(OUT)

test: $(VENV)/test.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest -n auto

# What a round costs against the alternatives, as ratios within one run; and how it grows.
bench: $(VENV)/test.stamp
	$(BIN)/python benchmarks/speed.py

# Total bytes and time on a link until a model is good, against the best peers; README's figure.
race: $(VENV)/test.stamp
	$(BIN)/python benchmarks/race.py --out benchmarks/race.json --figure docs/race.png

# What a round costs over MPI, and what that means for many nodes.
mpi: $(VENV)/test.stamp
	$(BIN)/python benchmarks/mpi.py

# What a round costs over TLS to nodes on this machine, with and without a journal, beside Local and MPI.
stream: $(VENV)/test.stamp
	$(BIN)/python benchmarks/stream.py

scaling: $(VENV)/test.stamp
	$(BIN)/python benchmarks/scaling.py

clean:
	rm -rf $(VENV) $(OUT)
