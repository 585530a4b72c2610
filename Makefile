# make test     all packages, with the race detector; brings up what it needs
# make images   the servers that the tests run, pulled, or built where they can't be
# make lint     the linters, at pinned versions
# make bench    the benchmarks
# make fuzz     each fuzz target for FUZZTIME
# make soak     the long campaigns
.PHONY: test images lint vuln bench fuzz soak

GOLANGCI_LINT := v2.15.0
BIN := $(CURDIR)/.bin
FUZZTIME ?= 60s
SOAK ?= 50

# The servers last: what fails without them is told sooner, and leaves them the machine to themselves.
test: images
	go vet ./...
	go test -race $$(go list ./... | grep -v '/integration$$')
	@test "$$(id -u)" = 0 -a -n "$$(command -v iptables)" || echo "TestCut is left out: cuts below TCP need root and iptables"
	go test -race -timeout 60m ./integration

images:
	go run ./integration/cmd/images

lint: $(BIN)/golangci-lint-$(GOLANGCI_LINT)
	$< run ./...
	go mod tidy -diff
	@set -e; for os in darwin freebsd windows; do \
		echo "GOOS=$$os go vet, of all but integration"; \
		GOOS=$$os go vet $$(go list ./... | grep -v '/integration'); \
	done

# Installed beside the project and not in go.mod: users don't need it.
$(BIN)/golangci-lint-$(GOLANGCI_LINT):
	GOBIN=$(BIN) go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(GOLANGCI_LINT)
	mv $(BIN)/golangci-lint $@

vuln:
	go run golang.org/x/vuln/cmd/govulncheck@latest ./...

# The benchmarks of the packages, and then all backends and their peers on real servers, which need Docker.
bench:
	go test -run '^$$' -bench . -benchmem $$(go list ./... | grep -v '/integration$$')
	cd bench && go vet . && go test . && go run .

fuzz:
	@set -e; for pkg in $$(go list ./...); do \
		for f in $$(go test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; go test -run '^$$' -fuzz "^$$f\$$" -fuzztime $(FUZZTIME) $$pkg; \
		done; \
	done

soak: images
	go test -race -count=$(SOAK) -timeout 60m $$(go list ./... | grep -v '/integration$$')
	LOCKER_SOAK=1 go test -timeout 1h ./internal/redlockmodel
	LOCKER_SOAK=1 go test -race -count=20 -timeout 4h ./integration
