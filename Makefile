# make test     all packages of the root module, of integration, of examples/observed and of the adapters,
#               with the race detector, what needs no server in bench, and one round of each fault of the
#               campaign; it starts the servers that the tests need
# make images   the images of the servers that the tests run: pulled, or built if that fails
# make lint     the linters, at pinned versions
# make bench    the benchmarks
# make fuzz     each fuzz target for FUZZTIME
# make release  the programs of a release and their checksums, in dist; make release-check builds them
#               again, and the bytes must be the same
# make mutate   how many wrong backends the conformance suite refuses, as a table
# make soak     the long campaigns
# make campaign real faults on real servers, with other libraries in the same rounds; it writes docs/proof.md
# make failovers
#               the same where a replica takes over or keys move; it writes docs/failovers.md
# make docker   an image of the command, DOCKER_TAG
# make adapters the adapters with the libraries that they are for, on the services in LOCKER_URLS
# make mutants-driver
#               the engine under small changes of its code, which its own tests must notice
.PHONY: test images lint vuln bench fuzz mutate mutants-driver soak campaign failovers adapters docker

GOLANGCI_LINT := v2.15.0
GREMLINS := v0.6.0
BIN := $(CURDIR)/.bin
FUZZTIME ?= 60s
SOAK ?= 50
# How many packages of integration run their servers at the same time. Two of them keep two processors so
# busy that it saves little time, and leases are lost; more processors can have more.
PACKAGES ?= 1
# The packages of integration that have the suite. etcd and ZooKeeper load a machine most: they don't
# begin together.
SERVICES := /etcd /pg /zk /redis /redlock
SHORT_LEASES := /conformance /examples/tcpbackend
# Each adapter is a module of its own, so that nobody gets the requirements of another one's library.
ADAPTERS := adapters/gocron adapters/migrate adapters/goose adapters/certmagic

# The tests that need servers run last: a failure of another test is reported sooner, and the
# servers have the machine to themselves. One of them, TestAdapters, runs adapters/acceptance.
# go test doesn't see that files outside of a module have changed: hence -count=1. With -vet=all it does
# what go vet does, in packages without tests, too, and needs each package compiled in one way alone.
#
# The packages of integration are compiled before their servers run, and so is the program that
# TestSkewed builds: on a machine that compiles, servers answer late. The other packages of integration
# run later, because some of their tests compile programs.
#
# SHORT_LEASES are packages whose leases in real time are so short that a machine that compiles makes
# them late. They run when all is compiled, six tests at a time, because most of them wait.
#
# TestSabotage has the verdicts of each wrong backend in each case, and takes several times as long with
# the race detector. The same cases run with it on backends that are right, and make soak runs all.
test: images
	go test -race -vet=all $$(go list ./... | grep -v $(SHORT_LEASES:%=-e %$$))
	go test -race -vet=all -timeout 30m -parallel 6 -skip '^TestSabotage$$' $(SHORT_LEASES:%=.%)
	go test -timeout 30m -run '^TestSabotage$$' ./conformance
	cd examples/observed && go test -race -vet=all .
	@set -e; for dir in $(ADAPTERS); do \
		echo "go test -race -vet=all $$dir"; \
		(cd $$dir && go test -race -vet=all ./...); \
	done
	cd adapters/acceptance && go vet ./... && go test -count=1 ./kubernetes
	cd bench && go test -vet=all -short .
	cd campaign && go test -vet=all -skip '^(TestEachFault|TestPlanted)$$' -timeout 15m .
	@test "$$(id -u)" = 0 -a -n "$$(command -v iptables)" || echo "TestCut is skipped: cuts below TCP need root and iptables"
	cd integration && go test -race -vet=all -run '^TestSkewed$$' ./...
	cd integration && go test -race -vet=all -p $(PACKAGES) -timeout 60m $(SERVICES:%=.%)
	cd integration && go test -race -vet=all -p $(PACKAGES) -timeout 60m $$(go list ./... | grep -v $(SERVICES:%=-e %$$))

images:
	cd integration && go run ./cmd/images

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT)
	$< run ./...
	cd integration && $< run ./...
	cd bench && $< run ./...
	cd campaign && $< run ./...
	cd examples/observed && $< run ./...
	@set -e; for dir in $(ADAPTERS) adapters/acceptance; do \
		echo "$< run $$dir"; \
		(cd $$dir && $< run ./... && go mod tidy -diff); \
	done
	go mod tidy -diff
	cd integration && go mod tidy -diff
	cd bench && go mod tidy -diff
	cd campaign && go mod tidy -diff
	cd examples/observed && go mod tidy -diff
	@set -e; for os in darwin freebsd windows; do \
		echo "GOOS=$$os go vet"; \
		GOOS=$$os go vet ./...; \
	done

# The linter is installed in $(BIN) and isn't in go.mod, because users don't need it.
$(BIN)/golangci-lint-$(GOLANGCI_LINT):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

vuln:
	go run golang.org/x/vuln/cmd/govulncheck@latest ./...

# integration's TestAdapters does this on servers that it starts. Without LOCKER_URLS it is on memory
# and on files.
adapters:
	cd adapters/acceptance && go vet ./... && go test -race -count=1 ./...

# The context of the build has the two files that the Dockerfile copies, and nothing else. Another
# architecture: make docker GOARCH=arm64. CA_BUNDLE is the certificates of public authorities.
DOCKER_TAG ?= locker
CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt
docker:
	mkdir -p $(BIN)/image
	CGO_ENABLED=0 GOOS=linux go build -trimpath -ldflags='-s -w' -o $(BIN)/image/locker ./cmd/locker
	cp $(CA_BUNDLE) $(BIN)/image/ca-certificates.crt
	chmod 0644 $(BIN)/image/ca-certificates.crt
	docker build --platform linux/$$(go env GOARCH) --tag $(DOCKER_TAG) --file Dockerfile $(BIN)/image

# First the Go benchmarks of the packages, and then all backends and their peers on real servers,
# which need Docker. The program divides the time that its flag -time states among the backends; images
# are built before that.
bench: images
	go test -run '^$$' -bench . -benchmem ./...
	cd bench && go vet . && go test . && go run .

fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

# MUTATION is a regular expression for the names of mutations; by default all are evaluated.
mutate:
	LOCKER_MUTATE='$(MUTATION)' go test -timeout 60m -run '^TestMutations$$' -v ./conformance

soak: images
	go test -race -count=$(SOAK) -timeout 60m ./...
	LOCKER_SOAK=1 go test -timeout 1h ./internal/redlockmodel
	cd integration && LOCKER_SOAK=1 go test -race -p $(PACKAGES) -count=20 -timeout 4h ./...

# First one round of each fault, and the planted mistakes.
#
# The page is also written if rows break the rules: it says which. The faults are made with SEED and
# in ROUNDS rounds each, PEER_ROUNDS of them with other libraries, with the WORKLOADS that this
# regular expression matches. PARALLEL rounds run at the same time, because most of a round is waiting
# for a lease to end. No round begins after CAMPAIGN_TIME. With CONTINUE=-continue the figures of an
# earlier run of the same commit count, so a long run can be made in parts.
PARALLEL ?= 12
SEED ?= 1
WORKLOADS ?= counter
CAMPAIGN_TIME ?= 4h
CONTINUE ?=
campaign: BACKENDS = ^(redis|postgres|etcd|zookeeper|redlock)$$
campaign: PAGE = proof
campaign: ROUNDS ?= 50
campaign: PEER_ROUNDS ?= 10
failovers: BACKENDS = ^(postgres-replica|redis-sentinel|redis-cluster)$$
failovers: PAGE = failovers
failovers: ROUNDS ?= 6
failovers: PEER_ROUNDS ?= 3
campaign failovers: images
	cd campaign && go vet . && go test -race -timeout 20m .
	cd campaign && go build -o $(BIN)/campaign . && { \
		$(BIN)/campaign -backend '$(BACKENDS)' -rounds $(ROUNDS) -peer-rounds $(PEER_ROUNDS) -parallel $(PARALLEL) \
			-seed $(SEED) -workload '$(WORKLOADS)' -time $(CAMPAIGN_TIME) -json $(PAGE).json $(CONTINUE); code=$$?; \
		$(BIN)/campaign -report ../docs/$(PAGE).md $(PAGE).json && exit $$code; }

# Survivors (LIVED) that are not in driver/mutants.txt are holes in the tests. MUTANTS is another
# package or its folder. One mutant at a time, with the tests of its package alone, without the race
# detector.
#
# A hang is ended by the limit of processor time, which doesn't depend on how busy the machine is.
# gremlins' own limit is a multiple of the time of the first run; -count=1 keeps that from being the
# time of a result in the cache.
MUTANTS ?= ./driver
mutants-driver: $(BIN)/gremlins-$(GREMLINS)
	ulimit -t 60 && GOFLAGS="$(shell go env GOFLAGS) -count=1 -vet=off" $< unleash $(MUTANTS) \
		--workers 1 --timeout-coefficient 20 --output-statuses lt --exclude-files clock_other \
		--invert-logical --invert-loopctrl --invert-assignments --remove-self-assignments

$(BIN)/gremlins-$(GREMLINS):
	GOBIN=$(BIN) go install github.com/go-gremlins/gremlins/cmd/gremlins@$(GREMLINS)
	mv $(BIN)/gremlins $@

# PLATFORMS may name some alone: make release release-check PLATFORMS=linux/amd64
.PHONY: release release-check
PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
release:
	PLATFORMS='$(PLATFORMS)' .ci/release dist

release-check:
	PLATFORMS='$(PLATFORMS)' .ci/release-check dist
