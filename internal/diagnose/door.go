package diagnose

import (
	"context"

	"nightcrier.dev/nightcrier/internal/diagnose/internal/collect"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/compose"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/rules"
	"nightcrier.dev/nightcrier/internal/diagnose/internal/scene"
)

// What a diagnosis is given, and how it reads and records.
type (
	Input         = collect.Input
	Reader        = collect.Reader
	ReleaseReader = collect.ReleaseReader
	Recorder      = collect.Recorder
	Sources       = collect.Sources
)

// MaxScope is how many objects of one kind of standing a report tells.
const MaxScope = compose.MaxScope

// Cause is one entry of the published list.
type Cause = scene.Cause

// Causes returns the published list of causes, by id.
func Causes() []Cause { return rules.Causes() }

// SourceOf returns the source of the read that ctx belongs to, as a Recorder is told it,
// "" outside of a read.
func SourceOf(ctx context.Context) string { return collect.SourceOf(ctx) }

// WithSource makes ctx that of a read, whose answer will be recorded under source.
func WithSource(ctx context.Context, source string) context.Context {
	return collect.WithSource(ctx, source)
}

// Scrub takes out of an object, or of a list of them, what no report needs and what may
// hold a secret, as is done with all that a diagnosis records.
func Scrub(body []byte) []byte { return collect.ScrubBody(body) }
