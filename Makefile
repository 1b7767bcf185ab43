# Three commands matter: `make conformance`, `make test` and `make test-all`. All bring their own tools (no root, no system install).
SHELL := /bin/sh
PYTHON ?= python3
UV := .tools/bin/uv
BIN := .venv/bin
STAMP := .venv/.installed
ARGS ?=
# The target that `make conformance` judges, all of it; one that ARGS names takes its place.
CEILING = $(if $(filter --access% --read-only,$(ARGS)),,--access hardware)
TARGET = $(if $(filter --kubeconfig% --in-cluster --snapshot% --simulate% --local%,$(ARGS)),,--simulate showcase $(CEILING))
# Every run starts many processes: without kept bytecode each compiles all modules anew, a third of a run's time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup conformance conformance-local test test-all quick check lint matrix matrix-local simulator incidents return frozen messages bench local local-node sockets fidelity fidelity-nodes upgrade-local rights-local conformance-node chaos-node chaos-selfcheck faults allure-page docs screenshots spirv helm linters karpenter image packages sbom licences lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(UV):
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed, this is " + sys.version.split()[0] if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-warn-script-location --target .tools uv

$(STAMP): requirements.lock pyproject.toml | $(UV)
	@test -x $(BIN)/python || $(UV) venv --quiet --python $(PYTHON) .venv
	$(UV) pip sync --quiet --compile-bytecode --require-hashes --python $(BIN)/python requirements.lock
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --editable .
	@$(BIN)/python -m compileall -q conformance chaos fixtures reports  # for shells that keep no bytecode themselves: a third of a run
	@touch $@

setup: $(STAMP) ## prepare the locked environment only

conformance: $(STAMP) ## judge the embedded simulated cluster, scenario showcase (ARGS="--kubeconfig FILE" for a live one)
	@$(BIN)/python -m pytest conformance $(TARGET) $(ARGS)

conformance-local: $(STAMP) ## judge real Kubernetes with simulated GPU nodes (make local first; ARGS="--simulate mig-mixed", LOCAL=1.36)
	@$(BIN)/python -m pytest conformance --local$(if $(LOCAL),=$(LOCAL)) --simulate healthy $(ARGS)

test: $(STAMP) ## before each commit: lint, the embedded cluster, unit tests, a defect for each requirement (ARGS go to pytest)
	@$(BIN)/python -m tests.development.tiers test $(ARGS)

test-all: $(STAMP) ## make test, then tests that take long: every defect, real Kubernetes, chaos, hostile clusters, browsers
	@$(BIN)/python -m tests.development.tiers test-all $(ARGS)

quick: $(STAMP) ## the part of make test that your change against main can reach
	@$(BIN)/python -m tests.development.tiers quick $(ARGS)

check: $(STAMP) ## prove one requirement while you work on it: lint of what changed, unit tests, its rows of the matrix (REQ=FENCE-01)
	@$(BIN)/python -m tests.development.check $(REQ)

lint: $(STAMP) ## ruff, mypy, import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

matrix: $(STAMP) ## prove that every requirement can fail: each defect turns exactly its requirements red
	@$(BIN)/gpu-conformance matrix --json out/matrix.json

simulator: $(STAMP) ## the tests of the simulated cluster alone, those against real Kubernetes too (ARGS go to pytest)
	@$(BIN)/python -m pytest tests/simulator -n auto --dist loadgroup $(ARGS)

incidents: $(STAMP) ## judge public incidents, each written from its reports into a healthy cluster
	@$(BIN)/python -m tests.incidents

return: $(STAMP) ## judge sixty nodes that came back from a repair, thirty of them wrong, with --nodes
	@$(BIN)/python -m tests.returned $(ARGS)

frozen: $(STAMP) ## write what every world without a server is judged as; writes out/frozen.json (ARGS="--against out/before.json" compares)
	@$(BIN)/python -m tests.frozen $(ARGS)

messages: $(STAMP) ## write what a person reads of each cause, tests/AREA/messages.yaml
	@$(BIN)/python -m tests.frozen.messages

bench: $(STAMP) ## compare reading 1,000 nodes and 10,000 pods with kubectl; writes out/bench.json
	@$(BIN)/python -m tests.bench.bench

local: $(STAMP) ## build etcd and Kubernetes 1.37 from pinned Go modules into the cache (ARGS=1.36 or 1.35 for another minor)
	@$(BIN)/python -m fixtures.localcluster.install.build $(ARGS)

fidelity: $(STAMP) ## ask a real API server and the simulated one the same 2,500 requests; writes out/fidelity.json (ARGS="--seed 2", LOCAL=1.36)
	@$(BIN)/python -m tests.simulator.fidelity $(ARGS) $(if $(LOCAL),--minor $(LOCAL))

fidelity-nodes: $(STAMP) ## break a real node in a virtual machine and a simulated one in the same ways; writes what docs/fidelity-nodes.md shows
	@$(BIN)/python -m tests.simulator.fidelity.nodes

matrix-local: $(STAMP) ## judge every scenario and defect on real Kubernetes too; writes out/local-matrix.json (LOCAL=1.36, ARGS="--only NAME")
	@$(BIN)/python -m tests.simulator.localcluster.matrix $(if $(LOCAL),--minor $(LOCAL)) $(ARGS)

upgrade-local: $(STAMP) ## upgrade real Kubernetes under simulated GPU nodes and roll it back, with the gate of deploy/ci around it (ARGS="1.36 1.37"; default: every minor and back)
	@$(BIN)/python -m tests.upg.local_upgrade $(ARGS)

sockets: $(STAMP) ## download the schemas of Cluster API, Karpenter and policy reports, for the tests on real Kubernetes that rest on them
	@$(BIN)/python -m tests.sockets.contracts

local-node: $(STAMP) ## build a node in a virtual machine into the cache and boot it: kubelet, containerd, systemd (as root)
	@$(BIN)/python -m fixtures.localcluster.guest.image $(ARGS)

conformance-node: $(STAMP) ## judge a real node in a virtual machine beside simulated ones (make local local-node first, as root)
	@$(BIN)/python -m pytest conformance --local --real-nodes 1 --simulate standalone-plugin $(ARGS)

chaos-node: $(STAMP) ## break a real node in a virtual machine: agents, kubelet, devices (make local local-node first, as root)
	@$(BIN)/gpu-conformance chaos run --local --real-nodes 1 --simulate standalone-plugin --chaos-target l40s-2 --chaos $(ARGS)

rights-local: $(STAMP) ## take each right of deploy/ away in turn on real Kubernetes; writes out/rights.json (ARGS=--embedded)
	@$(BIN)/python -m tests.simulator.localcluster.rights $(ARGS)

chaos-selfcheck: $(STAMP) ## prove the chaos experiments: seeded bugs, control runs, 200 kills; writes out/chaos-selfcheck.json (ARGS="--kills 20")
	@$(BIN)/python -m pytest tests/chaos -q -n 8 --dist loadgroup
	@$(BIN)/python -m tests.chaos.selfcheck --jobs 3 $(ARGS)
	@$(BIN)/python -m tests.chaos.selfcheck.meddled --jobs 3

faults: $(STAMP) ## run after run through a proxy that refuses, cuts and lies; writes out/faults.json (ARGS="--runs 20 --seed 7")
	@$(BIN)/python -m tests.hostile.faults $(ARGS)

allure-page: ## install Allure 3 from the npm registry into .tools, for the test that looks at its page
	@rm -rf .tools/allure.new && mkdir -p .tools/allure.new
	@cp tests/reports/allure3/package.json tests/reports/allure3/package-lock.json .tools/allure.new/
	@npm ci --prefix .tools/allure.new --ignore-scripts --no-audit --no-fund --silent
	@rm -rf .tools/allure && mv .tools/allure.new .tools/allure  # whole or not at all: tests may look for it meanwhile

docs: $(STAMP) ## write every generated file: pages of docs/, the README's command, roles of deploy/, JSON Schemas
	@$(BIN)/python -m tests.development.generated

# Programs that Go builds for the tests stay in the cache: linking them again costs more than all of their tests.
KEPT := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/gpu-conformance/tools
HELM_VERSION := v3.18.6
LINTERS := tests/upg/linters:ci-lint tests/deploy/linters:containerfile-lint
ACTIONLINT := github.com/rhysd/actionlint/cmd/actionlint@v1.7.12
KREW := sigs.k8s.io/krew/cmd/krew@v0.4.3
KREW_INDEX := $(subst /krew@,/validate-krew-manifest@,$(KREW))
KARPENTER = $(shell sed -n '/^karpenter:/,/version:/s/.*version: //p' tests/sockets/contracts.yaml)

helm: ## build helm from a pinned Go module into .tools/bin, for the tests of the chart
	@mkdir -p .tools/bin
	@test -x $(KEPT)/$(HELM_VERSION)/helm || CGO_ENABLED=0 GOBIN=$(KEPT)/$(HELM_VERSION) go install helm.sh/helm/v3/cmd/helm@$(HELM_VERSION)
	@ln -sf $(KEPT)/$(HELM_VERSION)/helm .tools/bin/helm

linters: ## build what lints deploy/ci, the kubectl plugin and the Containerfile: actionlint, krew's, Argo's, Tekton's and BuildKit's own code, from pinned Go modules
	@mkdir -p .tools/bin $(KEPT)
	@for module in $(ACTIONLINT) $(KREW) $(KREW_INDEX); do \
	  program=$${module%@*}; program=$${program##*/}; folder=$(KEPT)/$$program-$${module##*@}; \
	  { test -x $$folder/$$program || CGO_ENABLED=0 GOBIN=$$folder go install $$module; } && ln -sf $$folder/$$program .tools/bin/$$program; \
	done
	@for linter in $(LINTERS); do \
	  folder=$${linter%:*}; built=$(KEPT)/$${linter##*:}-$$(cat $$folder/main.go $$folder/go.mod $$folder/go.sum | sha256sum | cut -c1-16); \
	  { test -x $$built || { CGO_ENABLED=0 go build -C $$folder -trimpath -ldflags "-s -w" -o $$built.$$$$ . && mv $$built.$$$$ $$built; }; } && \
	  ln -sf $$built .tools/bin/$${linter##*:} || exit 1; \
	done

karpenter: ## build Karpenter with its provider of simulated machines from a pinned Go module into the cache, for a test on real Kubernetes
	@test -x $(KEPT)/karpenter-$(KARPENTER)/kwok || \
	  CGO_ENABLED=0 GOBIN=$(KEPT)/karpenter-$(KARPENTER) go install -trimpath -ldflags "-s -w" sigs.k8s.io/karpenter/kwok@$(KARPENTER)

image: $(STAMP) ## build the image as an OCI layout from Debian packages and locked wheels, without registry or daemon, and try it
	@$(BIN)/python -m deploy.image.build $(ARGS)
	@$(BIN)/python -m tests.deploy.try_image out/image/*.tar

spirv: $(STAMP) ## compile the kernels for Level Zero from their C; writes fixtures/compute/kernels.spv (clang-15, llvm-spirv-15)
	@$(BIN)/python -m tests.development.spirv

screenshots: $(STAMP) ## take the pictures of README.md; writes docs/images (Chromium needed)
	@$(BIN)/python -m tests.development.screenshots

packages: $(STAMP) ## build wheel, sdist and the kubectl plugin with its manifest for krew into out/packages (ARGS="--tag v0.1.0")
	@$(BIN)/python -m deploy.release $(ARGS)

sbom: $(STAMP) ## write out/sbom.cdx.json (CycloneDX) with the Python distributions, and the image's Debian packages if make image was run
	@$(BIN)/python -m deploy.sbom $(foreach image,$(firstword $(wildcard out/image/*.tar)),--image $(image)) $(ARGS)

licences: $(STAMP) ## list the licences of what a run needs
	@$(BIN)/python -m deploy.licences

lock: $(UV) ## renew requirements.lock from pyproject.toml
	$(UV) pip compile --quiet --universal --generate-hashes --no-header --extra injector --group dev -o requirements.lock pyproject.toml

clean: ## remove environment and outputs
	rm -rf .venv .tools out
