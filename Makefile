# make run | demo | test | test-all | lint | check | docs | bench | screenshots | pictures | release | audit | fmt | clean
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Runs on Debian's PyTorch in a test; with its dependencies it would bring PyPI's, which is gigabytes.
LIGHTNING := lightning-fabric==2.0.9.post0 pytorch-lightning==2.0.9.post0 lightning-utilities==0.10.1 torchmetrics==1.2.1 \
	fsspec packaging typing-extensions tqdm PyYAML
SOURCES := core tui nodeagent tests docs
# Four processes on two CPUs, because many tests wait for processes most of the time. The tests of a module stay together and share
# what is slow to start.
TESTS := -n 4 --dist loadscope --no-loadscope-reorder

# Else every command that a test starts would compile all of us anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run demo test test-system test-all check lint docs bench screenshots pictures release audit fmt clean tools

run: $(VENV)/.run
	$(BIN)/warpdeck

demo: $(VENV)/.run
	$(BIN)/warpdeck demo

# The tests that run on any Linux with Python 3.11, without root and without system packages.
test: $(VENV)/.dev
	$(BIN)/python -m pytest $(TESTS) --part=local

# The other tests: on Debian, as root. They install the packages that they need.
test-system: tools $(VENV)/.dev
	$(BIN)/python -m pytest $(TESTS) --part=system

test-all: lint test test-system

check: $(VENV)/.dev
	$(BIN)/ruff format --check $(SOURCES)
	$(MAKE) --no-print-directory lint test

lint: $(VENV)/.dev
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(MAKE) --no-print-directory docs GENERATE=--check

# Writes docs/reference from the code and builds the site in build/docs. With GENERATE=--check it fails where the committed pages
# are out of date.
docs: $(VENV)/.dev
	$(BIN)/python -m docs.generate $(GENERATE)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# PEERS=1 measures beside HyperQueue (from PyPI) and Slurm (Debian's packages in a scratch folder). Then how long jobs wait
# under the default policy beside plain EASY: on the workload logs in the folder LOGS, else on made workloads.
bench: $(VENV)/.dev $(if $(PEERS),$(VENV)/.peers)
	WARPDECK_BENCH_PEERS=$(PEERS) $(BIN)/python -m tests.bench
	$(BIN)/python -m tests.bench.quality $(LOGS)

screenshots: $(VENV)/.dev
	$(BIN)/python -m tests.support.screenshots tui/screenshots

# All screens in RGB, 256 and 16 colors, dark and light, in three sizes, with a page that shows them. BEFORE=FOLDER shows earlier
# pictures beside them.
pictures: $(VENV)/.dev
	$(BIN)/python -m tests.tui.gallery build/pictures $(if $(BEFORE),--before $(BEFORE))

fmt: $(VENV)/.dev
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix $(SOURCES)

# The wheel, which has the same bytes wherever and whenever this commit is built, a list of what it installs (a software bill of
# materials in the CycloneDX format, and a file of requirements), and their checksums.
release: $(VENV)/.dev
	rm -rf build/release && mkdir -p build/release
	SOURCE_DATE_EPOCH=$$(git log -1 --format=%ct) $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir build/release .
	$(PYTHON) -m venv build/release/installed
	build/release/installed/bin/pip install --quiet build/release/warpdeck-*.whl
	build/release/installed/bin/pip freeze --exclude warpdeck > build/release/requirements.txt
	$(BIN)/cyclonedx-py environment --output-reproducible --pyproject pyproject.toml --output-file build/release/sbom.cdx.json \
		build/release/installed/bin/python
	rm -r build/release/installed
	cd build/release && sha256sum * > SHA256SUMS

# Looks up the known vulnerabilities of the packages of a release. It needs the internet.
audit: release
	$(BIN)/pip-audit --strict --progress-spinner off --disable-pip --no-deps --requirement build/release/requirements.txt

tools:
	sh tests/setup.sh

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.run: pyproject.toml $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

$(VENV)/.dev: pyproject.toml Makefile $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps --upgrade --target $(VENV)/frameworks $(LIGHTNING)
	touch $@ $(VENV)/.run

$(VENV)/.peers: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet hyperqueue
	touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
