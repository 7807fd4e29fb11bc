# Everything runs from a fresh clone. `make help` lists the targets.
SHELL := /bin/bash
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
IMAGE_TESTS := tests/cluster/test_main_job.py tests/cluster/test_manifests.py tests/cluster/test_own_certificates.py
FAST := tests/unit tests/properties tests/corpus tests/sizing

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "%-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable . --group dev
	@touch $(READY)

.PHONY: venv
venv: $(READY) ## Make the environment in .venv

.PHONY: controlplane
controlplane: $(READY) ## Build the real control plane from Go modules, once (6 to 8 minutes, cached outside the clone)
	$(BIN)/python -m controlplane build

.PHONY: demo
demo: $(READY) ## The webhook on a made-up fleet, without a cluster
	$(BIN)/python -m demo

.PHONY: demo-cluster
demo-cluster: controlplane ## The webhook in front of a real API server and scheduler
	$(BIN)/python -m demo.cluster

.PHONY: test
test: $(READY) ## All tests, the real control plane included
	$(BIN)/python -m pytest -n 2 --dist loadfile $(FAST)
	-$(BIN)/python -m controlplane build
	$(BIN)/python -m pytest -n 2 --dist loadfile tests/cluster

.PHONY: test-fast
test-fast: $(READY) ## The tests that need no control plane
	$(BIN)/python -m pytest -n 2 --dist loadfile $(FAST)

.PHONY: test-controllers
test-controllers: controlplane ## Jobs of each kind on the real controllers of their projects (builds these once, in minutes)
	$(BIN)/python -m controlplane build-controllers
	$(BIN)/python -m pytest tests/controllers

.PHONY: test-monitoring
test-monitoring: controlplane ## Learning from runs with a real Prometheus, and the alert rules (builds it once, in 3 minutes)
	$(BIN)/python -m controlplane build-monitoring
	$(BIN)/python -m pytest tests/monitoring

.PHONY: test-load
test-load: controlplane ## A stream of jobs on the real scheduler: who waits for what, and how long (2 to 4 minutes)
	$(BIN)/python -m pytest -s tests/load

.PHONY: test-image
test-image: controlplane ## The container image: built without Docker, and as the server under test (root, buildah, debootstrap)
	tests/image/build.sh
	SAMESTEP_SERVER=tests/image/serve.sh $(BIN)/python -m pytest tests/image $(IMAGE_TESTS)

.PHONY: kind-up
kind-up: $(READY) ## A cluster of kind with the image of this checkout, for `pytest -m kind tests/kind` (needs Docker)
	PYTHON=$(BIN)/python tests/kind/up.sh

.PHONY: kind-down
kind-down: $(READY) ## Remove it
	"$$($(BIN)/python -c 'from controlplane.build import artifact; print(artifact("kind"))')" delete cluster --name samestep

.PHONY: mutate-policies
mutate-policies: $(READY) ## Whether the tests of the policy pack notice each change to its policies
	$(BIN)/python -m tests.mutation.policies

.PHONY: test-sizing-torch
test-sizing-torch: $(READY) ## The parts of an estimate against PyTorch on the CPU (downloads gigabytes, in a venv of its own)
	$(PYTHON) -m venv .venv-torch
	.venv-torch/bin/python -m pip install --quiet --upgrade pip
	.venv-torch/bin/python -m pip install --quiet --editable . --group dev torch numpy
	.venv-torch/bin/python -m pytest tests/sizing_torch

.PHONY: check
check: $(READY) ## Lint, format, types, import rules, generated files
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/python -m docs.generate --check

.PHONY: format
format: $(READY) ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

.PHONY: docs
docs: $(READY) ## Generate the reference pages
	$(BIN)/python -m docs.generate
	$(BIN)/python -m tests.sizing.report

.PHONY: bench
bench: $(READY) ## What reviews, requests, reading, fleets, policies and profiles cost; fails where a recorded ratio is a fifth worse
	$(BIN)/python -m tests.bench.review
	$(BIN)/python -m tests.bench.read
	$(BIN)/python -m tests.bench.fleet
	$(BIN)/python -m tests.bench.policies
	$(BIN)/python -m tests.bench.stages
	$(BIN)/python -m tests.bench.evidence
	$(BIN)/python -m tests.bench.served

NULLS = null webhook, null webhook with our conditions, samestep

.PHONY: bench-cluster
bench-cluster: controlplane ## Samestep beside null webhooks in Go alone, for two kinds of job; the first list of 10,000 nodes
	$(BIN)/python -m tests.bench.peers --kind Job --engines "$(NULLS)"
	$(BIN)/python -m tests.bench.peers --kind PyTorchJob --engines "$(NULLS)"
	$(BIN)/python -m tests.bench.first_sync

.PHONY: soak
soak: controlplane ## Two replicas under load for 5 minutes while one thing after the other goes wrong
	$(BIN)/python -m tests.soak

.PHONY: bench-peers
bench-peers: controlplane ## Samestep beside Gatekeeper, Kyverno, native policies and a null webhook (builds these once; 15 minutes)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --group bench
	$(BIN)/python -m controlplane build-peers
	$(BIN)/python -m tests.bench.peers --out peers.json
	$(BIN)/python -m tests.bench.peers_report peers.json

.PHONY: bench-peers-image
bench-peers-image: export SAMESTEP_SERVER := tests/image/serve.sh
bench-peers-image: $(READY) ## The same with Samestep as its image runs it (root, buildah, debootstrap)
	tests/image/build.sh
	$(MAKE) bench-peers

.PHONY: clean
clean: ## Remove the environment and caches inside the clone
	rm -rf .venv .venv-torch .mypy_cache .ruff_cache .pytest_cache .hypothesis
