//go:build languages

package languages

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

var otherLanguages = []program{
	{"express-prisma", "app.mjs", prisma},
	{"rails", "app.rb", func(t *testing.T, file string) []string { return []string{servers.Rails(t), file} }},
	{"laravel", "app.php", laravel},
	{"spring-jdbc", "ChargeService.java", func(t *testing.T, file string) []string {
		java, classes := servers.SpringJDBC(t)
		return []string{java, "-cp", classes, file}
	}},
	{"aspnet", "Charges.cs", func(t *testing.T, file string) []string {
		beside := filepath.Dir(file)
		return csharp(t, file, filepath.Join(beside, "Service.cs"), filepath.Join(beside, "Odbc.cs"))
	}},
}

func TestOtherLanguages(t *testing.T) { runAll(t, otherLanguages) }

// csharp compiles files, and returns the command that runs them.
func csharp(t *testing.T, files ...string) []string {
	t.Helper()
	compiler, mono, driver := servers.CSharp(t)
	program := filepath.Join(t.TempDir(), "program.exe")
	compile := exec.CommandContext(t.Context(), compiler, append([]string{
		"-langversion:6", "-warnaserror", "-r:System.Data.dll", "-out:" + program,
	}, files...)...)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("mcs: %v\n%s", err, out)
	}
	return []string{"ODBC_DRIVER=" + driver, mono, program}
}

// laravel begins each request anew, as PHP does.
func laravel(t *testing.T, file string) []string {
	return []string{"/bin/sh", "-c", `exec "$0" -q -S 127.0.0.1:"$2" "$1"`, servers.Laravel(t), file}
}

// prisma generates the client of the schema. The engines that Prisma would download are not needed for it, nor by a
// client with a driver of Node; the variables say that they are there.
func prisma(t *testing.T, file string) []string {
	command := node(t, file)
	dir := filepath.Dir(command[1])
	if err := os.WriteFile(filepath.Join(dir, "schema.prisma"), []byte(read(t, filepath.Join(filepath.Dir(file), "schema.prisma"))), 0o600); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), command[0], "node_modules/prisma/build/index.js", "generate", "--no-hints")
	generate.Dir = dir
	generate.Env = append(os.Environ(), "PRISMA_SCHEMA_ENGINE_BINARY="+command[0], "PRISMA_QUERY_ENGINE_LIBRARY="+command[0])
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("prisma generate: %v\n%s", err, out)
	}
	return command
}
