# Everything that is done to this repository by hand has a target here.
# `make` alone lists them.

GO  ?= go
BIN := $(CURDIR)/out/bin

.DEFAULT_GOAL := help

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^[a-z0-9-]+:.*## / { printf "  %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## compile everything, and toolgate into out/bin
	$(GO) build ./...
	@if [ -d cmd/toolgate ]; then mkdir -p $(BIN) && $(GO) build -o $(BIN)/ ./cmd/toolgate; fi

EXAMPLES := $(CURDIR)/out/examples

.PHONY: examples
examples: ## toolgate and the programs that the examples use, into out/examples
	@echo "Building into $(EXAMPLES). The first build takes a few minutes, later ones a few seconds."
	@mkdir -p $(EXAMPLES)
	@$(GO) build -o $(EXAMPLES)/ ./cmd/toolgate ./examples/notes-server ./examples/oauth-issuer ./examples/login-server ./examples/receiver ./examples/embedder ./examples/note-guard ./examples/model-server ./examples/broker ./examples/plugin-go ./examples/plugin-go-sdk ./examples/plugin-mcp-go
	@echo 'Now put them into the PATH of your shell, and go to the folder of an example:'
	@echo '    export PATH="$(EXAMPLES):$$PATH"'

.PHONY: pages
pages: ## write what the commands of README.md and docs/tutorial.md print into them (Linux)
	$(GO) test -tags e2e ./examples -run TestPages -count 1 -update

.PHONY: example-times
example-times: ## measure how long the examples take, and write it into examples/README.md
	$(GO) test -tags e2e ./examples -run TestReadmes -count 1 -parallel 1 -update
	$(GO) test -tags e2e ./examples -run TestReadmes -count 1 -network -update

.PHONY: picture
picture: build ## draw docs/picture.svg, the picture of the README, from a real run (Linux)
	$(GO) run ./internal/picture $(BIN)/toolgate docs/picture.svg

.PHONY: console-picture
console-picture: ## take docs/console.png, the picture of the console, in Chromium
	$(GO) test -tags e2e ./internal/e2e -run TestConsolePicture -count 1 -update

.PHONY: vet
vet: ## go vet, tests and end-to-end tests included
	$(GO) vet ./...
	$(GO) vet -tags e2e ./...
	$(GO) vet -tags bench ./cmd/... ./internal/daemon/...

.PHONY: tools
tools: ## build the pinned tools into out/bin (minutes the first time, then seconds)
	GOBIN=$(BIN) $(GO) -C internal/tools install tool

.PHONY: fmt
fmt: tools ## format the code and group the imports
	$(BIN)/golangci-lint fmt

.PHONY: fmt-check
fmt-check: tools ## fail if `make fmt` would change something
	$(BIN)/golangci-lint fmt --diff

.PHONY: lint
lint: tools ## run the linters of .golangci.yml
	$(BIN)/golangci-lint run ./...

.PHONY: vuln
vuln: tools ## look for known vulnerabilities (asks the Go vulnerability database)
	$(BIN)/govulncheck ./...

.PHONY: test-unit
test-unit: ## the tests of the packages, those behind the tag e2e too, with the race detector
	$(GO) test -race -tags e2e -gcflags=modernc.org/...=-race=false -timeout 20m $$($(GO) list ./... | grep -v '/internal/e2e$$')

.PHONY: test-e2e
test-e2e: ## toolgate between real clients and servers (installs them once)
	$(GO) test -tags e2e -timeout 20m -p 1 -v ./internal/e2e/...
	$(GO) test -tags e2e -timeout 5m ./examples -run TestReadmes -network

.PHONY: test-spicedb
test-spicedb: ## the contract of gate/spicedb on a real SpiceDB (minutes the first time)
	$(GO) -C gate/spicedb/realtest test -timeout 20m ./...

.PHONY: test-kafka
test-kafka: ## the suite of native/queue/kafka on Kafka's own broker (needs Java and Maven; fetches its jars once)
	mvn -q -B -f native/queue/kafka/testdata/broker.xml dependency:copy-dependencies -DincludeScope=runtime -DoutputDirectory=$(CURDIR)/out/kafka
	$(GO) test -tags e2e -count 1 -timeout 15m ./native/queue/kafka -run 'TestSuite|TestChaos|TestBacklog' -kafka-jars $(CURDIR)/out/kafka -v

.PHONY: test-chart
test-chart: ## render the Helm chart, and check it against the types of Kubernetes
	$(GO) -C internal/tools/charttest test ./...

.PHONY: test
test: ## everything, in order, with a summary; installs what it needs
	@bash .ci/test.sh

.PHONY: house
house: ## the figures of the structure, and what they are held to
	@$(GO) test ./internal/depcheck -run TestHouse -count 1 -v

.PHONY: test-release
test-release: ## make a release for this machine, and start what is in it
	$(GO) -C internal/release test -tags rehearsal ./...

.PHONY: release-rehearsal
release-rehearsal: ## everything that a release needs, into out/release, signed with a throw-away key
	$(GO) -C internal/release run . -dry

.PHONY: bench
bench: ## the benchmarks of the packages, then the table of ratios
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) run ./internal/bench

.PHONY: soak
soak: ## the counts that are too long for every run, in full
	$(GO) run ./internal/bench -soak
	$(GO) test -timeout 15m ./upstream -run TestCrashLoops -crashes 1000 -v
	$(GO) test -race -tags e2e -timeout 15m ./internal/matrix -run TestInterleavedCalls -calls 2000 -v
	$(GO) test -race -timeout 30m ./internal/daemon -run TestLoadWithCancelsAndReloads -load 10m -v
	$(GO) test -tags e2e -timeout 60m ./budget/sqlstore -run TestKilledProcessHasChargedWhatItDelivered -kills 1000 -v
	$(GO) test -timeout 30m ./internal/audit -run TestKilledAtAnyMoment -audit-kills 2000 -v
	$(GO) test -tags e2e -timeout 60m ./cmd/toolgate/cli -run TestKilledGatewayHasRecordedWhatItDelivered -audit-kills 2000 -v
	$(GO) test -tags e2e -timeout 30m ./cmd/toolgate/cli -run TestSharedServerOfAKilledGateway -shared-kills 100 -v
	$(GO) test -tags e2e -timeout 60m ./cmd/toolgate/cli -run 'TestChaos$$' -chaos-faults 400 -chaos-calls 300 -chaos-pause 0 -chaos-clocks -v
	$(GO) test -tags e2e -timeout 30m ./cmd/toolgate/cli -run TestRolling -rolling-from HEAD~1 -chaos-calls 300 -chaos-pause 0 -v
	$(GO) test -p 1 -tags e2e -timeout 30m ./native/queue/memory ./native/queue/postgres ./native/queue/nats ./native/queue/kafka -run 'TestChaos$$' -kills 1000 -v
	$(GO) test -p 1 -timeout 30m ./native/queue/memory ./native/queue/postgres ./native/queue/nats ./native/queue/kafka -run TestBacklog -backlog 100000 -v
	$(GO) test -timeout 60m ./internal/daemon/agents -run TestKilledAtAnyStep -killed 1000 -v
	$(GO) test -timeout 30m ./proxy/find -run TestHiddenItemsChangeNothing -pairs 1000000 -v
	$(GO) test -timeout 90m ./proxy -run 'TestHiddenToolsChangeNothing|TestFindWhileToolsChange' -find-worlds 2000 -find-queries 500 -find-tools 10000 -find-time 1m -v
	$(GO) test -timeout 15m ./internal/daemon -run TestEverythingAgrees -agree-worlds 200 -v
	$(GO) test -tags e2e -timeout 30m ./cmd/toolgate/cli -run 'TestNoCallBeyondTheBudget|TestKilledGatewayHasChargedWhatItDelivered' -budget-clients 1000 -budget-kills 50 -v

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME (20s)
	@bash .ci/fuzz.sh

.PHONY: generate
generate: ## write generated files anew
	$(GO) generate ./...

.PHONY: clean
clean: ## remove what the other targets made
	rm -rf out internal/e2e/.cache
