package mcp

//lint:file-ignore SA1019 Log messages are how servers push faults; the session is pinned to the protocols that have them.

import (
	"context"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// setLevel lowers the server's threshold to what its notifications have; above
// it they are dropped in silence.
func (s *session) setLevel(ctx context.Context) error {
	level := sdk.LoggingLevel("warning")
	if s.mode == ModeEvents {
		level = "info"
	}
	ctx, cancel := context.WithTimeout(ctx, s.timings.Call)
	defer cancel()
	if err := s.client.SetLoggingLevel(ctx, &sdk.SetLoggingLevelParams{Level: level}); err != nil {
		return unreachableError("logging/setLevel", err)
	}
	return nil
}
