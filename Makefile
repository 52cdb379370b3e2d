# Two commands do everything on a bare machine: `make quickstart` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# nothing is compiled at the installation, so every process would compile all that it imports: 9 seconds each
unexport PYTHONDONTWRITEBYTECODE

.PHONY: install quickstart test slow check docs format clean

install: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	@# what is never imported need not be compiled: that would double the time. torch comes first and by its exact version: asked for by range, the newest build with gigabytes of CUDA would come
	$(BIN)/python -m pip install --quiet --no-compile "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)

quickstart: $(STAMP)
	$(BIN)/isotrope quickstart

test: $(STAMP) check
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest --numprocesses 2 --dist worksteal

slow: $(STAMP)
	OMP_WAIT_POLICY=PASSIVE $(BIN)/python -m pytest -m slow

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/typos

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) site .pytest_cache .mypy_cache .ruff_cache
