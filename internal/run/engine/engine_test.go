package engine_test

import (
	"os"
	"path/filepath"
	"testing"

	"nightcrier.dev/nightcrier/internal/run/engine"
	"nightcrier.dev/nightcrier/internal/run/engine/enginetest"
	"nightcrier.dev/nightcrier/internal/test/pgtest"
)

func TestSQLite(t *testing.T) {
	enginetest.Exercise(t, func(t *testing.T) engine.Options {
		dir := filepath.Join(t.TempDir(), "100% #1?")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if entries, err := os.ReadDir(filepath.Dir(dir)); err != nil || len(entries) != 1 {
				t.Errorf("beside its directory the engine made %v, %v", entries, err)
			}
		})
		return engine.Options{SQLitePath: filepath.Join(dir, "engine.db")}
	})
}

func TestPostgres(t *testing.T) {
	enginetest.Exercise(t, func(t *testing.T) engine.Options {
		return engine.Options{PostgresURL: pgtest.DSN(t)}
	})
}
