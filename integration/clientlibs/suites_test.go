package clientlibs

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
	"github.com/retrysafe/retrysafe/internal/testing/soak"
)

// suite is an example project whose tests a test runner runs.
type suite struct {
	program, tests string // its two files
	page           string // shows the tests
	passes         string // what the runner prints if all tests pass
	run            func(folder string) *exec.Cmd
}

// mistake changes the program of a suite. The runner must print what is in says.
type mistake struct {
	changes [][2]string
	says    []string
}

var fenced = regexp.MustCompile("(?ms)^```(?:py|js)\n(.*?)^```$")

// check runs the tests of a project, which must pass, and which must fail when its program makes a mistake.
func (s suite) check(t *testing.T, folder string, mistakes map[string]mistake) {
	t.Helper()
	s.isShown(t, folder)
	runs := func(says ...string) (passed bool) {
		t.Helper()
		direct, _ := newDatabase(t)
		cmd := s.run(folder)
		cmd.Dir, cmd.Env = folder, append(os.Environ(), append(cmd.Env, "DATABASE_URL="+direct, "PYTHONDONTWRITEBYTECODE=1")...)
		out, err := cmd.CombinedOutput()
		var failed *exec.ExitError
		if err != nil && (!errors.As(err, &failed) || failed.ExitCode() != 1) { // of both runners, 1 means that tests have failed
			t.Fatalf("%v\n%s", err, out)
		}
		if strings.Contains(string(out), "no visual difference") {
			t.Errorf("jest compares values that there are not:\n%s", out)
		}
		for _, want := range says {
			if !strings.Contains(string(out), want) {
				t.Errorf("%q is not in\n%s", want, out)
			}
		}
		return err == nil
	}
	if !runs(s.passes) {
		t.Error("the tests fail")
	}
	file := filepath.Join(folder, s.program)
	right, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range mistakes {
		wrong := string(right)
		for _, change := range m.changes {
			if !strings.Contains(wrong, change[0]) {
				t.Fatalf("%s: %s does not have %q", name, s.program, change[0])
			}
			wrong = strings.ReplaceAll(wrong, change[0], change[1])
		}
		if err := os.WriteFile(file, []byte(wrong), 0o600); err != nil {
			t.Fatal(err)
		}
		if runs(m.says...) {
			t.Errorf("%s: the tests pass", name)
		}
	}
}

// isShown compares the tests that the page shows with those of the project.
func (s suite) isShown(t *testing.T, folder string) {
	t.Helper()
	tests, err := os.ReadFile(filepath.Join(folder, s.tests))
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(s.page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Test your own program\n")
	section, _, _ = strings.Cut(section, "\n## ")
	blocks := fenced.FindAllStringSubmatch(section, -1)
	if len(blocks) == 0 {
		t.Errorf("%s shows no tests", s.page)
	}
	for _, block := range blocks {
		for part := range strings.SplitSeq(strings.TrimSpace(block[1]), "\n\n") {
			if !strings.Contains(string(tests), "\n"+part+"\n") {
				t.Errorf("%s shows tests which %s does not have:\n%s", s.page, s.tests, part)
			}
		}
	}
}

// copied copies a folder, so that its program can be changed.
func copied(t *testing.T, from string) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "shop")
	if err := os.CopyFS(folder, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return folder
}

// The tests that docs/python.md shows, of a function and of a service in Flask, with pytest itself.
//
// Seen to fail with "if False" in place of "if wrong" in retrysafe_testing.py: pytest passes the services with mistakes;
// and with a word of the page changed.
func TestPytest(t *testing.T) {
	t.Parallel()
	python := servers.PythonWith(t, "pytest", "psycopg", "flask")
	folder := copied(t, "testdata/pytest")
	// As pyproject.toml arranges the wheel, which TestPythonPackage builds.
	for file, installed := range map[string]string{"retrysafe.py": "__init__.py", "retrysafe_testing.py": "testing.py"} {
		text, err := os.ReadFile(filepath.Join("../../clients/python", file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(folder, "installed/retrysafe"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "installed/retrysafe", installed), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	suite{
		program: "shop.py", tests: "test_shop.py", page: "../../docs/python.md", passes: "4 passed",
		run: func(folder string) *exec.Cmd {
			cmd := exec.CommandContext(t.Context(), python, "-m", "pytest", "-p", "no:cacheprovider", "--color=no", "-q", ".")
			cmd.Env = []string{"PYTHONPATH=" + filepath.Join(folder, "installed")}
			return cmd
		},
	}.check(t, folder, map[string]mistake{
		"the service commits before it completes the key": {
			[][2]string{
				{"        retrysafe.hold(conn, lease)\n", ""},
				{"        answer = retrysafe.complete(", "        conn.commit()\n        answer = retrysafe.complete("},
			},
			[]string{
				"1 failed, 3 passed", "FAILED test_shop.py::test_a_service_behind_the_proxy",
				"AssertionError: no fault: the call failed, and its effect stayed",
			},
		},
		"the service hides that the key was not completed": {
			[][2]string{{
				"        answer = retrysafe.complete(",
				"        answer = b''\n        with __import__('contextlib').suppress(Exception):\n            answer = retrysafe.complete(",
			}},
			[]string{
				"1 failed, 3 passed", "FAILED test_shop.py::test_a_service_behind_the_proxy",
				"an exception in complete: the service answered 201 and had not completed the key",
			},
		},
		"each attempt has a key of its own": {
			[][2]string{{`"payments", order,`, `"payments", os.urandom(8),`}},
			[]string{"3 failed, 1 passed", "2 effects after the retry, not 1", "3 effects, not 1", "the work ran again"},
		},
	})
}

// The tests that docs/node.md shows, with jest itself, and the package installed from its tarball. Without RETRYSAFE_SOAK,
// or with 1, only the page is compared.
//
// Seen to fail with "throw" taken out of fail in testing.js: jest passes a program that charges twice; with operator taken
// out of it; and with a word of the page changed.
func TestSoakJest(t *testing.T) {
	t.Parallel()
	folder := copied(t, "testdata/jest")
	jest := suite{program: "shop.js", tests: "shop.test.js", page: "../../docs/node.md", passes: "3 passed, 3 total"}
	if soak.Times(t, 1) == 1 {
		jest.isShown(t, folder)
		return // npm installs jest for half a minute
	}
	// Node looks for packages in the folders above, too.
	if err := os.Symlink(servers.NodeModules(t, "testdata/jest"), filepath.Join(filepath.Dir(folder), "node_modules")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(folder, "node_modules"), 0o700); err != nil {
		t.Fatal(err)
	}
	output(t, "../../clients/node", servers.NPM(t), "pack", "--pack-destination", folder)
	output(t, folder, "tar", "-xzf", "retrysafe-0.1.0.tgz")
	if err := os.Rename(filepath.Join(folder, "package"), filepath.Join(folder, "node_modules/retrysafe")); err != nil {
		t.Fatal(err)
	}
	node := servers.Node(t)
	jest.run = func(string) *exec.Cmd {
		return exec.CommandContext(t.Context(), node, "../node_modules/jest/bin/jest.js", "--ci", "--runInBand", "--cache=false")
	}
	jest.check(t, folder, map[string]mistake{
		"each attempt has a key of its own": {
			[][2]string{{"key: order, request", "key: require('crypto').randomUUID(), request"}},
			[]string{
				"3 failed, 3 total", "two calls at once and a retry: 3 effects, not 1", "a completed key: the work ran again",
				"toBeInstanceOf",
			},
		},
	})
}
