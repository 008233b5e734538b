package judges

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// roleVariable is set for processes of this test program that are a client or a server of a suite.
const roleVariable = "RETRYSAFE_JUDGES_ROLE"

// The roles.
const (
	interopRole = "interop" // case, address, whether the client gives keys
	connectRole = "connect" // a name of connectServers
	behindRole  = "behind"  // the program of a server, and that of the proxy
)

func TestMain(m *testing.M) {
	role, rest, _ := strings.Cut(os.Getenv(roleVariable), " ")
	args := strings.Split(rest, " ")
	var err error
	switch role {
	case "":
		code := m.Run()
		os.RemoveAll(programsFolder)
		os.Exit(code)
	case interopRole:
		err = playInterop(args[0], args[1], args[2])
	case connectRole:
		err = playConnectServer(args[0])
	case behindRole:
		err = playBehindProxy(args[0], args[1])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func testProgram(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// programsFolder has the programs of tools.mod, once they are built.
var programsFolder string

// buildPrograms builds them.
var buildPrograms = sync.OnceValue(func() (err error) {
	if programsFolder, err = os.MkdirTemp("", "retrysafe-judges-"); err != nil {
		return err
	}
	cmd := exec.Command("go", "build", "-modfile=tools.mod", "-ldflags=-s -w", "-o", programsFolder+"/", "tool")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs of tools.mod: %w\n%s", err, out)
	}
	return nil
})

// program returns the path of a program of tools.mod.
func program(t *testing.T, name string) string {
	t.Helper()
	if err := buildPrograms(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(programsFolder, name)
}

// commandPath returns the path of the command.
var commandPath = sync.OnceValues(servers.Retrysafe)

func command(t *testing.T) string {
	t.Helper()
	path, err := commandPath()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// startProxy starts a proxy for one test, and returns its address.
func startProxy(t *testing.T, config string) (address string) {
	t.Helper()
	address, stop, err := runProxy(command(t), t.TempDir(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return address
}

// runProxy starts a proxy that has its files in a folder, and returns its address and what ends it.
func runProxy(program, dir, config string) (address string, stop func(), err error) {
	file := filepath.Join(dir, "proxy.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return "", nil, err
	}
	cmd := exec.Command(program, "proxy", "--config="+file, "--listen=127.0.0.1:0", "--log=json")
	cmd.Dir = dir
	log, err := cmd.StderrPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		cmd.Process.Kill()
		cmd.Wait()
	}
	listening := make(chan string, 1)
	go func() {
		defer close(listening)
		var text bytes.Buffer
		for lines := bufio.NewScanner(log); lines.Scan(); {
			text.WriteString(lines.Text() + "\n")
			var line struct{ Msg, Address string }
			if json.Unmarshal(lines.Bytes(), &line) == nil && line.Msg == "listening" {
				listening <- line.Address
			}
		}
		os.WriteFile(filepath.Join(dir, "proxy.log"), text.Bytes(), 0o600)
	}()
	select {
	case address, ok := <-listening:
		if !ok {
			text, _ := os.ReadFile(filepath.Join(dir, "proxy.log"))
			return "", nil, fmt.Errorf("the proxy ended before it listened:\n%s", text)
		}
		return address, stop, nil
	case <-time.After(time.Minute):
		stop()
		return "", nil, fmt.Errorf("the proxy does not listen")
	}
}

// moduleVersion returns the version of a module in a go.mod.
func moduleVersion(file, module string) func(t *testing.T) string {
	return func(t *testing.T) string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`(?m)^\s+` + regexp.QuoteMeta(module) + ` (\S+)`).FindSubmatch(text)
		if found == nil {
			t.Fatalf("%s does not require %s", file, module)
		}
		return module + " " + string(found[1])
	}
}

// packageVersion returns the version of the only dependency in the package.json of a folder.
func packageVersion(folder string) func(t *testing.T) string {
	return func(t *testing.T) string {
		var pkg struct{ Dependencies map[string]string }
		text, err := os.ReadFile(filepath.Join(folder, "package.json"))
		if err == nil {
			err = json.Unmarshal(text, &pkg)
		}
		if err != nil || len(pkg.Dependencies) != 1 {
			t.Fatalf("%s/package.json: want one dependency: %v, %v", folder, pkg.Dependencies, err)
		}
		for name, version := range pkg.Dependencies {
			return name + " " + version
		}
		return ""
	}
}
