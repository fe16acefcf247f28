package mcpsuite

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier/internal/test/assetcache"
)

// peersVersion is that of the protocol's reference servers, which are released together.
const (
	peersVersion = "2026.8.31"
	peersEntry   = "mcp-servers-" + peersVersion
)

func installPeers(ctx context.Context, log io.Writer) (string, error) {
	return assetcache.Ensure(ctx, peersEntry, func(ctx context.Context, dir string) error {
		const scope, at = "@modelcontextprotocol/server-", "@" + peersVersion
		return assetcache.NPM(ctx, dir, log, scope+"everything"+at, scope+"filesystem"+at, scope+"memory"+at)
	})
}

// Peers are the protocol's reference servers, real ones of others.
type Peers struct {
	// Dir has all that they read.
	Dir  string
	node string
}

// OpenPeers finds them, or skips the test aloud.
func OpenPeers(tb testing.TB) Peers {
	tb.Helper()
	s := open(tb) // for its Node
	find := assetcache.Lookup
	if os.Getenv("NIGHTCRIER_CLI") == "install" {
		find = func(string) (string, error) { return installPeers(tb.Context(), os.Stderr) }
	}
	dir, err := find(peersEntry)
	if errors.Is(err, fs.ErrNotExist) {
		tb.Skip("SKIPPED ALOUD: no reference servers of MCP in the cache: run `make suite`, or set NIGHTCRIER_CLI=install")
	}
	if err != nil {
		tb.Fatalf("mcpsuite: %v", err)
	}
	return Peers{Dir: dir, node: s.node}
}

// Command is the command of the server of that name, such as memory.
func (p Peers) Command(name string, args ...string) []string {
	return append([]string{p.node, filepath.Join(p.Dir, "node_modules", "@modelcontextprotocol", "server-"+name, "dist", "index.js")}, args...)
}

// NodeDir is where the program is that runs them.
func (p Peers) NodeDir() string { return filepath.Dir(p.node) }
