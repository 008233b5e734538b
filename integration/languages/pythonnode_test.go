//go:build unix

package languages

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

var pythonAndNode = []program{
	{"django", "app.py", python("django", "psycopg2", "waitress")},
	{"flask", "app.py", python("flask", "psycopg", "psycopg_pool", "waitress")},
	{"fastapi", "app.py", python("fastapi", "sqlalchemy", "psycopg2", "uvicorn")},
	{"express-pg", "app.mjs", node},
}

func TestPythonAndNode(t *testing.T) { runAll(t, pythonAndNode) }

func python(modules ...string) func(*testing.T, string) []string {
	return func(t *testing.T, file string) []string {
		return []string{servers.PythonWith(t, modules...), "-B", file} // -B: writes nothing into the repository
	}
}

// node copies the program beside its modules, where imports look for them.
func node(t *testing.T, file string) []string {
	modules, dir := servers.NodeModules(t, filepath.Dir(file)), t.TempDir()
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(program, []byte(read(t, file)), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{servers.Node(t), program}
}
