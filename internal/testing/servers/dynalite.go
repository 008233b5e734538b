package servers

import (
	"embed"
	"path/filepath"
	"strconv"
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
	memory bool // keeps the tables in memory, which is faster; they are lost when the server ends
}

// StartDynalite starts a server for one test and ends it with the test. The first start on a machine installs the
// server with npm.
func StartDynalite(t testing.TB, o DynaliteOptions) *Dynalite {
	t.Helper()
	return startFor(t, launchDynalite, o)
}

func launchDynalite(o DynaliteOptions) (*Dynalite, error) {
	program, err := installDynalite()
	if err != nil {
		return nil, err
	}
	in, err := newInstance("dynalite", "root", "KILL", "") // npm installs into the home of the current user
	if err != nil {
		return nil, err
	}
	d := &Dynalite{in}
	d.command = []string{"node", program, strconv.Itoa(in.port.number)}
	if !o.memory {
		d.command = append(d.command, filepath.Join(in.folder.path, "data"))
	}
	d.stop, d.ready = syscall.SIGKILL, answers(d.URL()) // each write is with the operating system before it is acknowledged
	return started(d, nil)
}

func installDynalite() (string, error) {
	return installPackages("dynalite", dynaliteFiles, "server.js", "package.json", "package-lock.json", "server.js")
}

// URL returns the URL of the server, a client's BaseEndpoint.
func (d *Dynalite) URL() string { return "http://" + d.address() }
