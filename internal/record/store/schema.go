package store

import (
	"context"
	"database/sql"
	"embed"
	"io/fs"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/database"

	"nightcrier.dev/nightcrier"
)

//go:embed migrations/*.sql
var migrations embed.FS

// schemaTable remembers which migrations were applied.
const schemaTable = "nightcrier_schema"

// migrateSchema brings the schema up to date; one of a newer version is left alone.
func (s *Store) migrateSchema(ctx context.Context, db *sql.DB) error {
	p, err := s.newMigrator(db)
	if err != nil {
		return err
	}
	have, want, err := p.GetVersions(ctx)
	if err != nil {
		return err
	}
	if have > want {
		return newerSchema(have, want)
	}
	_, err = p.Up(ctx)
	return err
}

// checkSchema refuses a schema of any other version, for a reader who may not
// migrate.
func (s *Store) checkSchema(ctx context.Context, db *sql.DB) error {
	p, err := s.newMigrator(db)
	if err != nil {
		return err
	}
	want := int64(len(p.ListSources()))
	var have int64
	err = db.QueryRowContext(ctx, `SELECT COALESCE(MAX(version_id), 0) FROM `+schemaTable).Scan(&have)
	switch {
	case err != nil && isMissingTable(err):
		return nightcrier.Errorf(nightcrier.NotFound, "the database holds no incidents of nightcrier yet; start `nightcrier serve` once")
	case err != nil:
		return err
	case have > want:
		return newerSchema(have, want)
	case have < want:
		return nightcrier.Errorf(nightcrier.Conflict, "the store has schema %d, this version reads %d; start `nightcrier serve` once to update it", have, want)
	}
	return nil
}

func newerSchema(have, want int64) error {
	return nightcrier.Errorf(nightcrier.Conflict, "the store has schema %d, this version knows %d: it was written by a newer nightcrier; use that one", have, want)
}

func (s *Store) newMigrator(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	dialect := goose.DialectSQLite3
	if s.postgres {
		dialect = goose.DialectPostgres
	}
	table, err := database.NewStore(dialect, schemaTable)
	if err != nil {
		return nil, err
	}
	return goose.NewProvider("", db, files, goose.WithStore(table), goose.WithDisableGlobalRegistry(true))
}
