# make test   all that must hold, from a fresh clone (Go, Node, apt; root or not)
# make build  bin/nightcrier
# make demo   the product against a scripted cluster and a scripted model

VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
PACKAGES ?= ./...
# What takes longest is begun first, or the rest would wait for it alone.
LONGEST   = $(if $(filter ./...,$(PACKAGES)),./e2e ./internal/agent/worker)
# The longest that one package may take on a slow machine; the whole run is bounded by CI.
TIMEOUT  ?= 45m
# Packages tested at once: one more than there are cores, as real servers and agents are
# often waited for. The race detector and they want memory.
PARALLEL ?= 3
# Tests of one package at once, of those that may be: most wait for an agent or a server.
BESIDE   ?= 4
# The detector lets a program sleep for a second before it ends; `make test` does not.
# In what only counts (SQLite, which is C in the words of Go, and packing, ciphers and
# patterns of Go's own) it has nothing to find, and made it ten times as slow.
COUNTS    = modernc.org/... compress/... crypto/internal/... regexp/...
RACE     ?= -race $(COUNTS:%=-gcflags=%=-race=false)

FUZZTIME ?= 10m

.PHONY: pages test build bench fuzz demo lint kube clis suite browser prerequisites assets clean

test: prerequisites assets lint
	GORACE="atexit_sleep_ms=0 $$GORACE" go run ./tools/runtests $(RACE) -vet=off -p $(PARALLEL) -parallel $(BESIDE) -timeout $(TIMEOUT) $(LONGEST) $(PACKAGES)

build:
	CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.release=$(VERSION)" -o bin/nightcrier ./cmd/nightcrier

demo: build
	bin/nightcrier demo

bench:
	go test -run '^$$' -bench . -benchmem -timeout 30m $(PACKAGES)

# Every fuzz test for a slice of FUZZTIME; what it finds stays in testdata/fuzz as a test.
fuzz:
	go run ./tools/fuzz -time $(FUZZTIME) -keep 12

# Pictures of every page, in both themes and two widths, to look at; page.png is that of docs.
pages:
	mkdir -p $(CURDIR)/bin/pages
	NIGHTCRIER_PAGES=$(CURDIR)/bin/pages go test -count=1 -run TestPageOfTheDemo ./e2e

# What is written for one system only would be found by whoever needs another.
lint: bin/staticcheck
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); \
	  test -z "$$unformatted" || { echo "gofmt these files:"; echo "$$unformatted"; exit 1; }
	go vet $(PACKAGES)
	bin/staticcheck $(PACKAGES)
	GOOS=windows CGO_ENABLED=0 go build -gcflags=all=-dwarf=false -ldflags="-s -w" -o /dev/null ./cmd/nightcrier

bin/staticcheck: tools/lint/go.sum
	go -C tools/lint build -buildvcs=false -o ../../bin/staticcheck honnef.co/go/tools/cmd/staticcheck

# What the tests run against, made once per machine and version, in
# $$NIGHTCRIER_CACHE or ~/.cache/nightcrier.
kube clis suite browser:
	go run ./tools/assets $@
assets:
	go run ./tools/assets kube clis suite browser

prerequisites:
	tools/prerequisites

clean:
	rm -rf bin
