// Package arch has no code, only tests: they hold the source tree to what
// docs/architecture.md, docs/requirements.md and docs/security.md promise.
package arch
