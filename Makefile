# Needs python3 (>= 3.10) and make; everything else goes into .venv, which each target makes itself.

.DEFAULT_GOAL := help
.PHONY: help demo test lint types tests test-e2e test-mindspore test-faults test-pythons bench compare environment clean

PYTHON := .venv/bin/python
# Programs in Python whose names do not say so: neither ruff nor mypy finds them.
PROGRAMS := $(shell grep -l '^\#!.*python' $(filter-out %.py,$(wildcard scripts/*)))
# `make test E2E=no` leaves the end-to-end tests out, and so PyTorch and TensorFlow.
E2E := yes
# What the fault suite runs besides: a wrong clock, a disk that stands still, rotation by others.
PACKAGES := libfaketime bindfs logrotate
# So long, at most, may the environment with MindSpore take to be made; none: as long as it takes.
MINDSPORE_SECONDS :=
# Its cases wait more than they compute.
FAULTS_AT_ONCE := 3

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r target what; do printf '  make %-14s %s\n' "$$target" "$$what"; done

demo: environment ## four ranks train, one is killed, the job resumes and ends: 15 s at most
	@$(PYTHON) scripts/demo

test: lint types tests test-faults ## lint, types and every test, the end-to-end ones included

lint: environment
	$(PYTHON) -m ruff check . $(PROGRAMS)
	$(PYTHON) -m ruff format --check . $(PROGRAMS)

types: environment
	$(PYTHON) -m mypy
	MYPYPATH=scripts $(PYTHON) -m mypy --scripts-are-modules $(PROGRAMS)

tests: environment
	@[ $(E2E) = no ] || scripts/environment .venv e2e || \
		echo 'PyTorch could not be installed here (why is above): the end-to-end tests are skipped'
	@[ $(E2E) = no ] || scripts/environment .venv e2e_tensorflow || \
		echo 'TensorFlow could not be installed here (why is above): its end-to-end test is skipped'
	@scripts/debian-packages iproute2 openmpi-bin openssh-client openssh-server
	$(PYTHON) -m pytest --ignore=tests/faults $(if $(filter no,$(E2E)),-m 'not e2e')

test-e2e: test-mindspore ## only the end-to-end tests: PyTorch, TensorFlow and MindSpore
	@scripts/environment .venv e2e e2e_tensorflow
	$(PYTHON) -m pytest -m e2e

test-mindspore: environment ## only those with msrun and MindSpore, in an environment of 3 GB
	@scripts/test-mindspore $(MINDSPORE_SECONDS)

test-faults: environment ## only the fault suite: bad days of all kinds, 4 minutes
	@scripts/debian-packages $(PACKAGES)
	$(PYTHON) -m pytest -n $(FAULTS_AT_ONCE) --dist worksteal tests/faults

test-pythons: environment ## the tests with every other Python of this machine
	@scripts/test-pythons

bench: environment ## the figures of the supervisor on this machine
	@$(PYTHON) scripts/bench

compare: environment ## seven cases of owning processes, beside tini, dumb-init, supervisord, honcho
	@$(PYTHON) scripts/compare

environment:
	@scripts/environment .venv

clean: ## remove what these targets have made here
	rm -rf .venv .venvs .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
