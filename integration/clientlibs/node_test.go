package clientlibs

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// nodeFolder is a new folder in which npm has installed the package of clients/node from its tarball, beside pg, and
// which has the tests of the package.
func nodeFolder(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(servers.NodeTypeScript(t))); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(folder, "test"), os.DirFS("../../clients/node/test")); err != nil {
		t.Fatal(err)
	}
	npm := servers.NPM(t)
	output(t, "../../clients/node", npm, "pack", "--pack-destination", folder)
	// With --legacy-peer-deps npm does not look pg up again, for which it would need the registry.
	output(t, folder, npm, "install", "--offline", "--ignore-scripts", "--no-audit", "--no-fund",
		"--legacy-peer-deps", "./retrysafe-0.1.0.tgz")
	return folder
}

// output runs a command to its end, and returns what it has written.
func output(t *testing.T, dir string, command ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command, err, out)
	}
	return string(out)
}

var ran = regexp.MustCompile(`(?m)^# (pass|skipped|todo) (\d+)$`)

// nodeTests runs files of clients/node/test, whose comments say what each test was seen to fail with.
func nodeTests(t *testing.T, folder string, kills int, files ...string) {
	t.Helper()
	direct, bouncer := newDatabase(t)
	nodeTestsOn(t, folder, direct, bouncer, kills, files...)
}

func nodeTestsOn(t *testing.T, folder, direct, bouncer string, kills int, files ...string) {
	t.Helper()
	data, err := filepath.Abs("../../clients/testdata")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), servers.Node(t), append([]string{"--test", "--test-reporter=tap"}, files...)...)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "RETRYSAFE_TEST_DATABASE="+direct, "RETRYSAFE_TEST_BOUNCER="+bouncer,
		"RETRYSAFE_TEST_DATA="+data, "RETRYSAFE_TEST_KILLS="+strconv.Itoa(kills))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counts := map[string]string{}
	for _, m := range ran.FindAllStringSubmatch(string(out), -1) {
		counts[m[1]] = m[2]
	}
	if counts["pass"] == "0" || counts["skipped"] != "0" || counts["todo"] != "0" {
		t.Errorf("got %v; want tests that pass, and none skipped\n%s", counts, out)
	}
	t.Logf("%s", out)
}

// The package is packed and installed from the file. Its tests run against what was installed: require and import find
// it, TypeScript accepts its types, and nothing but its own files is in it.
func TestNodeClient(t *testing.T) {
	folder := nodeFolder(t)
	var files []string
	entries, err := os.ReadDir(filepath.Join(folder, "node_modules", "retrysafe"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		files = append(files, e.Name())
	}
	if want := []string{
		"LICENSE", "README.md", "command.js", "index.d.ts", "index.js", "package.json", "testing.d.ts", "testing.js",
	}; !slices.Equal(files, want) {
		t.Errorf("the package has %v, want %v", files, want)
	}
	output(t, folder, servers.Node(t), "test/import.mjs")
	output(t, folder, servers.Node(t), "node_modules/typescript/lib/tsc.js", "--noEmit", "--strict", "--target", "es2022",
		"--module", "nodenext", "--esModuleInterop", "--noUncheckedIndexedAccess", "test/types.ts")
	nodeTests(t, folder, 0, "test/once.test.js", "test/functions.test.js", "test/commit.test.js", "test/testing.test.js")
}

// Processes that are killed and paused. In make test 30 are killed.
func TestSoakNodeClientKills(t *testing.T) {
	nodeTests(t, nodeFolder(t), soak.Times(t, 30), "test/kill.test.js")
}
