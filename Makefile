# Needs python3 (>= 3.10) and make; everything else goes into .venv, which each target makes itself.

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster check test lint types tests parts
.PHONY: every-test frameworks test-e2e test-mindspore test-faults test-pythons other-environments
.PHONY: what-tests-need what-frameworks-need what-faults-need what-comes-later-needs
.PHONY: house bench compare pictures recordings terminals
.PHONY: wheel portable requirements
.PHONY: environment clean

PYTHON := .venv/bin/python
# Programs in Python whose names do not say so: neither ruff nor mypy finds them.
PROGRAMS := $(shell grep -ls '^\#!.*python' $(filter-out %.py,$(wildcard scripts/*)))
# `make test E2E=no` leaves the end-to-end tests out, and so PyTorch and TensorFlow.
E2E := yes
EVERY_PART := lint types every-test
# Its tests wait more than they compute, and lint and types are done long before them.
SIDE_BY_SIDE := lint types parts
# A real etcd, where several servers of a job meet.
ETCD := etcd-client etcd-server
# promtool and node_exporter, which read our figures.
PROMETHEUS := prometheus prometheus-node-exporter
# What the fault suite runs besides: a wrong clock, a disk that stands still, rotation by others,
# a look at every system call.
PACKAGES := libfaketime bindfs logrotate strace $(ETCD)
# So long, at most, may the environment with MindSpore take to be made; none: as long as it takes.
MINDSPORE_SECONDS :=
# For which the portable directory is made: amd64 or arm64.
MACHINE := $(shell dpkg --print-architecture 2>/dev/null)
# Tests start hundreds of interpreters, and each would compile all modules anew.
unexport PYTHONDONTWRITEBYTECODE
# Tests wait more than they compute.
AT_ONCE := 6
PYTEST := $(PYTHON) -m pytest
IN_PARALLEL := -n $(AT_ONCE) --dist worksteal
# Frameworks compute, and wait for each other: more of them at once only delay one another.
FEW_AT_ONCE := -n 2 --dist worksteal
# Without bad days and frameworks; those that start one where it is installed are marked, too.
BAD_DAYS := --ignore=tests/faults --ignore=tests/e2e
FRAMEWORKS := not e2e and not e2e_mindspore
HERE := $(BAD_DAYS) -m '$(FRAMEWORKS)'
# Without what takes long, too: whole jobs, a real etcd (tests/conftest.py marks these), real waits.
JOBS := --ignore=tests/jobs --ignore=tests/recovery --ignore=tests/peers
PARTS := $(BAD_DAYS) $(JOBS) -m '$(FRAMEWORKS) and not long $(BUT)'

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r target what; do printf '  make %-14s %s\n' "$$target" "$$what"; done

demo: environment ## four ranks train, one is killed twice, the job resumes, cold and warm, and ends: 20 s
	@$(PYTHON) scripts/demo

demo-cluster: environment ## three servers train and agree through etcd, two fail, a spare helps: 30 s
	@scripts/debian-packages etcd-server iproute2
	@$(PYTHON) scripts/demo-cluster

check: environment ## lint, types and the tests that need no whole job, side by side: two minutes
	@$(MAKE) --no-print-directory --keep-going --jobs --output-sync=target \
		BUT='and not thorough' $(SIDE_BY_SIDE)

test: environment ## lint, types and every test; what fails keeps nothing else from being tried
	@failed=; for part in $(EVERY_PART); do \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; \
	done; \
	[ -z "$$failed" ] || { echo "make test: failed, as told above:$$failed" >&2; exit 1; }

lint: environment
	$(PYTHON) -m ruff check . $(PROGRAMS)
	$(PYTHON) -m ruff format --check . $(PROGRAMS)

types: environment
	$(PYTHON) -m mypy
	MYPYPATH=scripts $(PYTHON) -m mypy --scripts-are-modules $(PROGRAMS)

# One run for all: those that wait fill the time of those that compute, which come first
# (tests/conftest.py).
every-test: what-tests-need what-frameworks-need what-faults-need
	$(PYTEST) $(IN_PARALLEL) -m '$(if $(filter no,$(E2E)),$(FRAMEWORKS),not e2e_mindspore)'

tests: what-tests-need
	$(PYTEST) $(IN_PARALLEL) $(HERE)

what-tests-need: environment
	@scripts/debian-packages chromium groff iproute2 openmpi-bin openssh-client openssh-server zsh $(ETCD) $(PROMETHEUS)
	@scripts/unpacked-packages .venvs/shippers rsyslog syslog-ng-core

parts: environment
	$(PYTEST) $(IN_PARALLEL) $(PARTS)

frameworks: what-frameworks-need ## only the end-to-end tests with PyTorch and TensorFlow
	$(if $(filter no,$(E2E)),,$(PYTEST) $(FEW_AT_ONCE) -m e2e)

what-frameworks-need: environment
ifeq ($(E2E),no)
	@echo 'left out (E2E=no): the end-to-end tests with PyTorch and TensorFlow'
else
	@if ! scripts/environment .venv e2e; then \
		echo 'PyTorch could not be installed here (why is above): its end-to-end tests are skipped'; \
	elif ! scripts/environment .venv e2e_frameworks; then \
		echo 'Keras, Lightning, MMEngine, accelerate and transformers could not be installed here (why is above): their end-to-end tests are skipped'; \
	fi
	@scripts/environment .venv e2e_tensorflow || \
		echo 'TensorFlow could not be installed here (why is above): its end-to-end tests are skipped'
	@scripts/debian-packages iproute2 busybox-static debian-archive-keyring $(ETCD)
endif

test-e2e: frameworks test-mindspore ## only the end-to-end tests: PyTorch, TensorFlow and MindSpore

test-mindspore: environment ## only those with msrun and MindSpore, in an environment of 3 GB
	@scripts/test-mindspore $(MINDSPORE_SECONDS)

test-faults: what-faults-need ## only the fault suite: bad days of all kinds
	$(PYTEST) $(IN_PARALLEL) tests/faults

what-faults-need: environment
	@scripts/debian-packages $(PACKAGES)

test-pythons: environment ## the tests with every other Python of this machine
	@scripts/test-pythons

# MindSpore's tests wait, and those of other Pythons compute.
other-environments: environment
	@scripts/side-by-side test-pythons test-mindspore

# What parts to come find done: environments, which wait for the network, and compiled tests, which
# every worker of theirs would compile anew.
what-comes-later-needs: environment
	$(PYTEST) --collect-only -qq >/dev/null
	scripts/test-pythons --prepare

bench: environment ## the figures of the supervisor on this machine
	@$(PYTHON) scripts/bench

compare: environment ## seven cases of owning processes, beside tini, dumb-init, supervisord, honcho
	@$(PYTHON) scripts/compare

pictures: environment ## docs/pictures, from the events in tests/data/timelines
	@for story in tests/data/timelines/*; do \
		name=docs/pictures/$$(basename $$story); \
		$(PYTHON) scripts/timelines $$story >$$name.svg && \
		$(PYTHON) scripts/timelines --language zh $$story >$$name.zh.svg || exit 1; \
	done

terminals: environment ## docs/pictures/terminal-*.svg, from real runs in a real terminal
	@for name in demo status progress failure refusal; do \
		$(PYTHON) scripts/terminals $$name /tmp/training >.terminal.svg && \
			mv .terminal.svg docs/pictures/terminal-$$name.svg || { rm -f .terminal.svg; exit 1; }; \
	done

house: environment ## every file of the package, room by room, with its first sentence; figures
	@$(PYTHON) scripts/house

wheel: environment ## dist/: the wheel, and the source distribution
	@$(PYTHON) -m build --outdir dist .

portable: wheel ## dist/portable-*: the supervisor with a Python of its own, for images with an older one
	@rm -rf dist/portable-$(MACHINE)
	@scripts/portable "$$(ls -t dist/*.whl | head -n 1)" dist/portable-$(MACHINE) $(MACHINE)
	@echo "made dist/portable-$(MACHINE): start its bin/ascend-supervisor from any place"

requirements: environment
	@scripts/requirements
recordings: environment ## record these events anew, from the tests' own runs, and draw them
	$(PYTEST) $(IN_PARALLEL) tests/recovery -m picture --keep-events tests/data/timelines
	$(PYTHON) scripts/tell-story tests/data/timelines/pod-level/1-pod-0.jsonl \
		docs/recovery.md docs/recovery.zh.md
	@$(MAKE) --no-print-directory pictures

environment:
	@scripts/environment .venv

clean: ## remove what these targets have made here
	rm -rf .venv .venvs .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
