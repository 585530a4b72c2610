# make test     everything, with the race detector; brings up what it needs
# make integration  the suite on real Redis servers, in containers
# make lint     the linters, at pinned versions
# make bench    the benchmarks
# make fuzz     each fuzz target for FUZZTIME
# make soak     the long campaigns
.PHONY: test integration lint vuln bench fuzz soak

GOLANGCI_LINT := v2.15.0
BIN := $(CURDIR)/.bin
FUZZTIME ?= 60s
SOAK ?= 50

test:
	go vet ./...
	go test -race $$(go list ./... | grep -v '/integration$$')
	go test -race -run 'TestImports|TestContainersStayHere|TestBackendsAreApart|TestReadmeMatrix|TestConsumerPaysForLittle' ./integration

# The suite on real Redis servers, which needs Docker. It joins "make test" when the Redis backend is done.
integration:
	go test -race -timeout 30m ./integration

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT)
	$< run ./...
	go mod tidy -diff
	@set -e; for os in darwin freebsd windows; do echo GOOS=$$os go vet ./...; GOOS=$$os go vet ./...; done

# Installed beside the project and not in go.mod: users don't need it.
$(BIN)/golangci-lint-$(GOLANGCI_LINT):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

vuln:
	go run golang.org/x/vuln/cmd/govulncheck@latest ./...

bench:
	go test -run '^$$' -bench . -benchmem ./...

fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

soak:
	go test -race -count=$(SOAK) -timeout 60m ./...
