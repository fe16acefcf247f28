// Package arch has no code, only tests: they hold the source tree to what
// docs/architecture.md and docs/requirements.md promise.
package arch
