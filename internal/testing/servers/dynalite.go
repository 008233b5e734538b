package servers

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// What npm installs, and the program that serves it.
//
//go:embed dynalite/package.json dynalite/package-lock.json dynalite/server.js
var dynaliteFiles embed.FS

// DynaliteVersion is the name and version of the server behind Dynalite.
const DynaliteVersion = "dynalite 4.0.0"

// Dynalite is a server with the protocol of Amazon DynamoDB. It has conditional writes. It has no transactions and no
// time to live, ignores ReturnValuesOnConditionCheckFailure, and does not check signatures.
type Dynalite struct{ *Instance }

// DynaliteOptions are the options of a server. DynaliteOptions{} works: the tables are on disk, and outlive the server.
type DynaliteOptions struct {
	// Memory keeps the tables in memory, which is faster. They are lost when the server ends.
	Memory bool
	// Env is added to the server's environment, for example FakeTime.
	Env []string
}

// StartDynalite starts a server for one test and ends it with the test. The first start on a machine installs the
// server with npm.
func StartDynalite(t testing.TB, o DynaliteOptions) *Dynalite {
	t.Helper()
	d, err := LaunchDynalite(o)
	check(t, err)
	d.closeWith(t)
	return d
}

// LaunchDynalite starts a server for programs without a testing.TB. It ends with Close, or with this process.
func LaunchDynalite(o DynaliteOptions) (*Dynalite, error) {
	program, err := installDynalite()
	if err != nil {
		return nil, err
	}
	in, err := newInstance("dynalite", "root", "KILL", "") // npm installs into the home of the current user
	if err != nil {
		return nil, err
	}
	d := &Dynalite{in}
	d.command = append(append([]string{}, o.Env...), "node", program, strconv.Itoa(in.port.number))
	if !o.Memory {
		d.command = append(d.command, filepath.Join(in.folder.path, "data"))
	}
	d.stop, d.ready = syscall.SIGKILL, d.answers // each write is with the operating system before it is acknowledged
	if err := d.start(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func installDynalite() (string, error) {
	return installPackages("dynalite", dynaliteFiles, "server.js", "package.json", "package-lock.json", "server.js")
}

// answers returns nil once the server answers.
func (d *Dynalite) answers(ctx context.Context) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, d.URL(), nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("servers: dynalite answered %s", response.Status)
	}
	return nil
}

// URL returns the URL of the server, a client's BaseEndpoint.
func (d *Dynalite) URL() string { return "http://" + d.address() }

// SharedDynalite is one server for all tests of a test binary, with its tables in memory. The zero value is ready for
// use; the server starts with the first Get and ends with the process. A SharedDynalite must not be copied.
type SharedDynalite struct {
	once sync.Once
	d    *Dynalite
	err  error
}

// Get returns the server. It fails the test, and all tests that follow, if the server does not start.
func (s *SharedDynalite) Get(t testing.TB) *Dynalite {
	t.Helper()
	s.once.Do(func() { s.d, s.err = LaunchDynalite(DynaliteOptions{Memory: true}) })
	check(t, s.err)
	return s.d
}
