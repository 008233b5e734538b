package outbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A message can be saved only in a transaction: other handles do not compile. Seen to fail with Save taking a
// function that executes statements, which a pool also has: inside InTx the message then stayed after a rollback.
func TestSaveTakesTransactionsOnly(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call, lacks string
	}{
		{"outbox.Save(ctx, nil, (*sql.Tx)(nil), m)", ""},
		{"outbox.SavePgx(ctx, nil, pgx.Tx(nil), m)", ""},
		{"outbox.SavePgx(ctx, nil, (*pgxpool.Tx)(nil), m)", ""},
		{"outbox.Save(ctx, nil, (*sql.DB)(nil), m)", "missing method Commit"},
		{"outbox.Save(ctx, nil, (*sql.Conn)(nil), m)", "missing method Commit"},
		{"outbox.SavePgx(ctx, nil, (*pgxpool.Pool)(nil), m)", "does not match outbox.PgxTx"},
		{"outbox.SavePgx(ctx, nil, (*pgxpool.Conn)(nil), m)", "does not match outbox.PgxTx"},
		{"outbox.SavePgx(ctx, nil, (*pgx.Conn)(nil), m)", "does not match outbox.PgxTx"},
	} {
		program := `package main

import (
	"context"
	"database/sql"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/retrysafe/retrysafe/outbox"
)

var (
	_ sql.DB
	_ pgx.Conn
	_ pgxpool.Pool
)

func main() {
	ctx, m := context.Background(), outbox.Message{}
	_ = ` + c.call + `
}
`
		file := filepath.Join(t.TempDir(), "main.go")
		if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
			t.Fatal(err)
		}
		vet := exec.CommandContext(t.Context(), "go", "vet", "-trimpath", file)
		vet.Env = append(os.Environ(), "CGO_ENABLED=0") // with the packages that tests of the command have compiled
		said, err := vet.CombinedOutput()
		if compiles := err == nil; compiles != (c.lacks == "") || !strings.Contains(string(said), c.lacks) {
			t.Errorf("%s: %v, %s", c.call, err, said)
		}
	}
}
