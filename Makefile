# Everything one does with this project; `make help` lists it.
.DEFAULT_GOAL := help
BIN := .venv/bin

.PHONY: help
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

.PHONY: python
python:
	@tools/setup.sh python

.PHONY: setup
setup: python ## install the Python environment and the Debian packages that tests drive
	@tools/setup.sh packages

.PHONY: toolchain
toolchain: python ## resolve the Pulumi engine and the Kubernetes control plane
	@$(BIN)/python tools/toolchain.py --group all

.PHONY: oracles
oracles: python ## ask sloth, the scanners and the engines' releases again what the tests believe
	@$(BIN)/python tools/oracles.py

.PHONY: up
up: python ## plan, preview, then deploy stack `local` on a control plane of its own on this machine
	@$(BIN)/python tools/up.py

.PHONY: down
down: python ## stop and remove what `make up` started
	@$(BIN)/python tools/down.py

.PHONY: preview
preview: python ## show plan and resources of stack `local`; needs no engine and no cluster
	@$(BIN)/servingstack preview local

.PHONY: check
check: python ## formatting, lint and types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright

.PHONY: test-fast
test-fast: setup ## all tests but those on the real engine
	$(BIN)/pytest tests --ignore=tests/engine -n auto --dist loadfile

.PHONY: test-engine
test-engine: setup toolchain ## the tests on the real engine and API server
	$(BIN)/pytest tests/engine --ignore=tests/engine/clouds --ignore=tests/engine/dynamic
	$(BIN)/pytest tests/engine/clouds # processes of their own: an engine that is killed leaves traces in its caller's
	$(BIN)/pytest tests/engine/dynamic

.PHONY: test
test: ## everything
	@$(MAKE) --no-print-directory check
	@$(MAKE) --no-print-directory test-fast
	@$(MAKE) --no-print-directory test-engine
