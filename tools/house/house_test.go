package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestReadHouse(t *testing.T) {
	file := func(lines ...string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(strings.Join(lines, "\n") + "\n")}
	}
	h, err := readHouse(fstest.MapFS{
		"nouns.go":                        file("package nightcrier"),
		"internal/store/store.go":         file("package store", `import "nightcrier.dev/nightcrier/internal/text"`, "func open() {}", "func (s) ReadRun() {", "", "}"),
		"internal/store/sql/sql.go":       file("package sql", `import "nightcrier.dev/nightcrier/internal/store"`, `import "fmt"`, "func init() {}"),
		"internal/store/store_test.go":    file("package store", `import "nightcrier.dev/nightcrier/internal/app"`, "func help() {}"),
		"internal/text/text.go":           file("package text", "func open() {}", "func tell() {}"),
		"internal/text/testdata/x/x.go":   file("package x", "func x() {}"),
		"internal/test/pgtest/pg.go":      file("package pgtest", "func x() {}"),
		"internal/nested/go.mod":          file("module nested"),
		"internal/nested/internal/a/a.go": file("package a", "func x() {}"),
		".hidden/a.go":                    file("package a", "func x() {}"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := h.rooms(); !slices.Equal(got, []string{"store", "text"}) {
		t.Errorf("rooms %q", got)
	}
	if got := h.arrows(); !slices.Equal(got, []arrow{{"store", "text"}}) {
		t.Errorf("arrows %v", got)
	}
	if got := h.oneWord(); !slices.Equal(got, []usage{{"open", 2}, {"tell", 1}}) {
		t.Errorf("one-word names %v", got)
	}
	if got := h.oneWordNames(); got != 60 {
		t.Errorf("%v %% of names have one word, want 60", got)
	}
	if lines, where := h.longestFunction(); lines != 3 || where != "internal/store/store.go:4 ReadRun" {
		t.Errorf("the longest function has %d lines: %s", lines, where)
	}
	if p95, most, _ := h.filesPerPackage(); p95 != 1 || most != 1 {
		t.Errorf("files in a package: %d and %d, want 1 and 1", p95, most)
	}
	if h.lines != 14 {
		t.Errorf("%d lines, want 14", h.lines)
	}
}
