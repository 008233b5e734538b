# What one does in this repository. `make` alone lists it.
.DEFAULT_GOAL := help
.PHONY: help test test-core servers race drivers drivers-and-tidy tidy soak mutate fuzz vulncheck bench compare matrix clients judges lint fmt proto demo pictures licenses pack release test-newest clean languages install site

ROOT     := github.com/retrysafe/retrysafe
PACKAGES  = $(shell go list -m -f '{{.Path}}/...')
MODULES   = $(shell go list -m -f '{{.Dir}}')
LANGUAGES = $(shell grep -rl '^//go:build.*languages' --include='*_test.go' . | xargs -n 1 dirname | sort -u)
SOAKED    = $(shell grep -rl '^func TestSoak' --include='*_test.go' . | xargs -n 1 dirname | sort -u)
JUDGES   := $(ROOT)/integration/judges
FUZZTIME ?= 60s
SOAK     ?= 40
BIN      := .bin
# SQLite is C that was translated into Go. The race detector makes it several times slower, and its races would not be ours.
RACE     := -race -gcflags=modernc.org/sqlite/lib=-race=false

# Most of what the tests cost on a new machine is compiling. Without a garbage collector, up to that much memory, compilers
# take a fifth less CPU; the tests themselves run with it, in .ci/test.
COMPILING := GOGC=off GOMEMLIMIT=2GiB

# The tests of these packages drive other programs, which they build as releases are built: the race detector would watch
# the tests and not the programs. Without it they take half the time, and what both need is compiled once. Those of
# internal/model, and of internal/testing/architecture, have one goroutine. Those of probe/cases, whose cases probe/report
# plays with it, come too late to be judged if it slows them down on a busy machine. make soak runs all of them with it.
DRIVERS   = ^$(ROOT)/(bench|caddysafe|cmd|deploy/helm|examples|integration|internal/(model|release|testing)|probe/cases|site)(/|$$)

# Packages whose tests take longest begin first, so that no core waits for the last of them.
LONGEST   = ^$(ROOT)/(stores/(pg|mysql)store|probe/cases|cmd/retrysafe/internal/(proxycmd|store)|internal/release|integration)$$
SORTED   := awk -v longest='$(LONGEST)' '$$0 ~ longest {print; next} {rest = rest $$0 "\n"} END {printf "%s", rest}'

CORE      = . ./client/... ./httpkey ./httpsafe/... ./stores/... ./proxy

# Tests with the race detector run with the version of Go that is installed, the lowest that go.mod files admit. All others,
# the linters and test-newest run with the newest one, and share what it has compiled.
NEWEST_GO := go1.27.4
RELEASED  := GOTOOLCHAIN=$(NEWEST_GO) CGO_ENABLED=0 GOFLAGS=-trimpath
LINTER    := $(BIN)/golangci-lint

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

test: servers race drivers-and-tidy ## unit tests with the race detector in every module, end-to-end tests

# tidy waits for the network: on a new machine it downloads what the tests of dependencies import.
drivers-and-tidy:
	@$(MAKE) -j 2 drivers tidy

test-core: ## the library without servers: the engine, its stores in memory, the middleware, the proxy; less than a minute
	go test -race $(TESTFLAGS) $(CORE)

# A test that needs a server waits until it is installed, or installs it, or says what to install. This saves it the wait.
servers: # install the servers that tests need, in the background
	@$(RELEASED) go run ./internal/testing/servers/install >/dev/null 2>&1 &

# One package more than there are cores, because tests wait for servers, leases and retries.
AT_A_TIME = -p $$(($$(nproc) + 1))

# Without vet, which lint does. Not from the cache, which does not see that a test reads the pages and runs the programs of
# other modules.
# While the first command downloads the modules of a new machine, what needs none of them is compiled.
race:
	@(GOWORK=off $(COMPILING) go build $(RACE) ./... >/dev/null 2>&1) & all=$$(go list $(PACKAGES)) && wait && $(COMPILING) go test $(RACE) $(AT_A_TIME) -exec $(CURDIR)/.ci/test -vet=off -count=1 -timeout 40m $(TESTFLAGS) \
		$$(echo "$$all" | grep -vE '$(DRIVERS)' | $(SORTED))

# The tag leaves the encoder of MessagePack out of Gin, which takes longer to compile than all the examples.
drivers: # end-to-end tests
	@all=$$(go list $(PACKAGES)) && $(COMPILING) $(RELEASED) go test -tags nomsgpack $(AT_A_TIME) -exec $(CURDIR)/.ci/test -parallel 4 -vet=off -count=1 -timeout 40m $(TESTFLAGS) \
		$$(echo "$$all" | grep -E '$(DRIVERS)' | $(SORTED))

tidy: ## check that every module is tidy, and that go doc changes no file; that users can build them is a long test of internal/release
	@before=$$(cksum <go.work.sum); go list -m all >/dev/null; [ "$$before" = "$$(cksum <go.work.sum)" ] || \
		{ echo "go.work.sum did not fit the modules: go commands have rewritten it, commit it"; exit 1; }
	@printf '%s\n' $(MODULES) | GOWORK=off xargs -P 4 -I{} sh -c 'cd {} && go mod tidy -diff || { echo "in {}: run go mod tidy there"; exit 1; }'

# Without the race detector, which the same tests have had with the installed version: it doubles what is compiled anew.
test-newest: ## test-core with the newest version of Go, which the go command downloads
	$(COMPILING) $(RELEASED) go test -exec $(CURDIR)/.ci/test -vet=off $(TESTFLAGS) $(CORE)

mutate: ## break the reference store on purpose, one line at a time: every break must be noticed
	go run ./internal/testing/mutate

fuzz: ## run every fuzz target for FUZZTIME (60s), and keep of what was found the inputs that run more of the code
	@go list -f '{{.ImportPath}} {{.Dir}}' $(PACKAGES) | while read pkg dir; do \
		for f in $$(grep -ho '^func Fuzz[A-Za-z0-9_]*' $$dir/*_test.go 2>/dev/null | sed 's/func //'); do \
			echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) $$pkg || exit 1; \
			go run ./internal/testing/corpus $$dir $$f || exit 1; \
		done; \
	done

soak: ## run the tests that kill and torture processes SOAK (40) times as long, and the probe SOAK times on a busy machine
	RETRYSAFE_SOAK=$(SOAK) go test $(RACE) -v -timeout 24h -run '^TestSoak' $(SOAKED)
	@all=$$(go list $(PACKAGES)) && go test $(RACE) -count=1 -timeout 24h $$(echo "$$all" | grep -E '$(DRIVERS)')
	@busy=; trap 'kill $$busy' EXIT INT TERM; \
	for i in $$(seq $$((2 * $$(nproc)))); do sh -c 'while :; do :; done' & busy="$$busy $$!"; done; \
	go test ./probe/cases -run 'Faultless|Pair|Burst|HalfSent|Defects|NothingIsCaught' -count $(SOAK) -timeout 24h

bench: ## measure against peers and limits, side by side, into bench/results.json, RESULTS.md and docs/performance.md (an hour, on an idle machine)
	go run ./bench -results bench/results.json

compare: ## the Retry-Safety Index: what the probe finds in public software and in us, into docs/compare (about an hour)
	go run ./bench/compare

languages: ## run the services in Ruby, PHP, Java and C# too, which complete their keys through SQL (installs Rails, Laravel, Spring, Mono; minutes)
	go test $(RACE) -vet=all -tags languages -count=1 -timeout 60m $(TESTFLAGS) $(LANGUAGES)

# CELL is a store, a store/fault or a store/fault/policy; without it, the results and the page are written.
matrix: ## every fault on every store under every policy, into docs/proof-crash-matrix.md (eleven minutes; as root); CELL=postgres/kill-in-work/refuse SEED=1 repeats a cell
	@mkdir -p $(BIN) && $(RELEASED) go test -c -vet=off -o $(BIN)/matrix.test ./integration/matrix
	@cd integration/matrix && RETRYSAFE_SOAK=2 RETRYSAFE_SEED=$(SEED) $(CURDIR)/$(BIN)/matrix.test -test.timeout 3h \
		-test.run 'TestSoakMatrix/stores$(if $(CELL),/^$(subst /,$$/^,$(CELL))$$)' $(if $(CELL),,-write)

clients: ## measure what well-known HTTP clients retry: the table of docs/clients.md (half a minute)
	@go run ./integration/clients/survey

judges: ## run test suites of other projects, into docs/proof-independent-suites.md (five minutes); CHECKOUTS=DIR has those of no registry
	$(RELEASED) go test -vet=off -count=1 -v -timeout 60m -run '^TestSoakSuites$$' ./integration/judges \
		-judges.write $(if $(CHECKOUTS),-judges.checkouts=$(abspath $(CHECKOUTS)))

# All modules in one run, which reads what they share once.
lint: $(LINTER) ## vet everything and run the linters (building them takes minutes, once)
	$(RELEASED) $(LINTER) run $(addsuffix /...,$(MODULES))

fmt: $(LINTER) ## format the code
	@for m in $(MODULES); do (cd $$m && GOWORK=off $(CURDIR)/$(LINTER) fmt ./...); done

$(LINTER): .ci/linter .golangci.yml tools.mod tools.sum
	@echo "building golangci-lint, once"
	@$(COMPILING) $(RELEASED) .ci/linter $@

proto: ## generate code from the .proto files of tests and examples (needs protoc)
	@for p in google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12 google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.1 \
		connectrpc.com/connect/cmd/protoc-gen-connect-go@v1.21.1; do GOWORK=off GOBIN=$(CURDIR)/$(BIN) go install $$p || exit 1; done
	cd internal/testing && PATH=$(CURDIR)/$(BIN):$$PATH protoc --go_out=. --go_opt=paths=source_relative shoppb/shop.proto
	cd examples && PATH=$(CURDIR)/$(BIN):$$PATH protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative \
		--connect-go_out=. --connect-go_opt=paths=source_relative internal/paymentspb/payments.proto
	cd integration/judges && GOWORK=off go mod download -modfile=tools.mod connectrpc.com/conformance && PATH=$(CURDIR)/$(BIN):$$PATH protoc \
		-I "$$(GOWORK=off go list -modfile=tools.mod -m -f '{{.Dir}}' connectrpc.com/conformance)/proto" -I /usr/include \
		--go_out=. --go_opt=module=$(JUDGES) $(foreach f,config service server_compat,--go_opt=Mconnectrpc/conformance/v1/$f.proto=$(JUDGES)/conformancepb) \
		$(foreach f,config service server_compat,connectrpc/conformance/v1/$f.proto)

demo: ## watch one charge happen although twenty clients retry it
	go run ./cmd/retrysafe demo

pictures: ## draw the pictures of README.md, of the dashboard and of the probe's report into docs/pictures
	go run ./internal/testing/pictures
	go test -count=1 -run '^TestInABrowser$$' ./cmd/retrysafe/internal/dashboard ./probe/report -write

site: site/node_modules/.package-lock.json ## build the pages of docs as a site into DIR (.bin/site), for a browser without a server; broken links are errors
	@cd site && node_modules/.bin/eleventy --output=$(abspath $(or $(DIR),$(BIN)/site))
	@echo "open $(abspath $(or $(DIR),$(BIN)/site))/index.html"

site/node_modules/.package-lock.json: site/package.json site/package-lock.json
	@echo "installing the site's generator with npm, once"
	@cd site && npm ci --no-audit --no-fund --silent

install: ## install the command from this checkout, with the commit in its version
	go install -ldflags '-X $(ROOT)/cmd/retrysafe/internal/cli.commit=$(shell git describe --always --dirty)' ./cmd/retrysafe

# With GOVULNDB=file:///DIRECTORY, a copy of the database.
vulncheck: ## look for known vulnerabilities in what every module calls (needs the database of Go, in the network)
	@GOWORK=off GOBIN=$(CURDIR)/$(BIN) $(RELEASED) go install golang.org/x/vuln/cmd/govulncheck@v1.9.0
	@failed=0; for m in $(MODULES); do echo "$$m"; \
		(cd $$m && GOWORK=off $(RELEASED) $(CURDIR)/$(BIN)/govulncheck $(if $(GOVULNDB),-db $(GOVULNDB)) ./...) || failed=1; \
	done; exit $$failed

licenses: ## write cmd/retrysafe/licenses.txt after a change of dependencies
	go run ./internal/release licenses

pack: ## write every public module of the working tree, as it would be released, into DIR, a module proxy in files
	@go run ./internal/release pack $(or $(DIR),$(error say where to: make pack DIR=out)) $(VERSION)

release: ## make the release VERSION, signed with KEY: tags, binaries and packages, as RELEASING.md says; DRY_RUN=1 only tries it
	@$(RELEASED) go run ./internal/release make $(if $(DRY_RUN),-n) $(if $(KEY),-key $(KEY)) $(or $(VERSION),$(error say which version: make release VERSION=v0.1.0))

clean: ## remove what was built
	rm -rf $(BIN)
