package sqlitestore

import (
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/sqlfunctions"
)

// Seen to fail with a blank added to it.
func TestMigrationsStay(t *testing.T) {
	sqlfunctions.Migrations(t, migrationFiles, "migrations/*.sql", map[string]string{
		"migrations/001_records.sql": "b7c172a69d3bc105",
		"migrations/002_find.sql":    "df0140a7f01fd8e7",
		"migrations/003_states.sql":  "1083665813bb6852",
		"migrations/004_scopes.sql":  "a860cc440a88fc5a",
	})
}
