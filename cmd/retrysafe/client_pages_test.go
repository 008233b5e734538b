package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
	"github.com/retrysafe/retrysafe/internal/testing/pages"
	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

// tracedShell stands in for sync and curl. It writes what is synced, and that the request is sent, to the file $TRACE.
const tracedShell = `#!/bin/sh
case $0 in
*/sync) for name; do realpath "$name" >>"$TRACE"; done ;;
*) echo sent >>"$TRACE"; printf 201 ;;
esac
`

// tracedNode does the same in Node, before the program is loaded.
const tracedNode = `
const fs = require("fs"), path = require("path"), opened = new Map(), open = fs.openSync, sync = fs.fsyncSync;
const trace = (text) => fs.appendFileSync(process.env.TRACE, text + "\n");
fs.openSync = (name, ...rest) => {
  const fd = open(name, ...rest);
  opened.set(fd, path.resolve(name));
  return fd;
};
fs.fsyncSync = (fd) => {
  trace(opened.get(fd));
  sync(fd);
};
globalThis.fetch = async () => {
  trace("sent");
  return new Response("", { status: 201 });
};
require("module").syncBuiltinESMExports();
`

// A machine that loses its power after the request was sent must find the key again: before that the programs of the
// page sync the folder of the key's file, and the folders in which they have made one. The program in Python leaves
// this to SQLite.
//
// Seen to fail with ".." and "../.." taken out of the program in shell, and with "." taken out of that in JavaScript.
func TestTheClientsOfThePageSyncTheirFolders(t *testing.T) {
	blocks, err := pages.Read(filepath.Join(repository, "docs", "your-client.md"))
	clitest.Must(t, err)
	for _, c := range []struct {
		lang, file string
		command    func(t *testing.T, tools string) []string // also the variables of the environment
		folders    []string                                  // in which names are made
	}{
		{"bash", "pay.sh", func(t *testing.T, tools string) []string {
			for _, name := range []string{"sync", "curl"} {
				syscall.ForkLock.RLock() // a process that is being started would keep the file open: it could not run
				err := os.WriteFile(filepath.Join(tools, name), []byte(tracedShell), 0o700)
				syscall.ForkLock.RUnlock()
				clitest.Must(t, err)
			}
			return []string{"PATH=" + tools + ":" + os.Getenv("PATH"), "/bin/sh"}
		}, []string{"orders/order-17", "orders", "."}},
		{"js", "pay.mjs", func(t *testing.T, tools string) []string {
			hook := filepath.Join(tools, "hook.cjs")
			clitest.Must(t, os.WriteFile(hook, []byte(tracedNode), 0o600))
			return []string{"NODE_OPTIONS=--require=" + hook, servers.Node(t)}
		}, []string{"orders", "."}},
	} {
		t.Run(c.lang, func(t *testing.T) {
			t.Parallel()
			at := slices.IndexFunc(blocks, func(b pages.Block) bool { return b.Lang == c.lang })
			if at < 0 {
				t.Fatal("the page has no such program")
			}
			tools := t.TempDir()
			folder, err := filepath.EvalSymlinks(t.TempDir())
			clitest.Must(t, err)
			program, trace := filepath.Join(tools, c.file), filepath.Join(tools, "trace")
			clitest.Must(t, os.WriteFile(program, []byte(blocks[at].Text), 0o600))
			words := c.command(t, tools)
			run := exec.CommandContext(t.Context(), words[1], program, "http://localhost/payments", "order-17", "4200")
			run.Dir, run.Env = folder, append(os.Environ(), words[0], "TRACE="+trace)
			if out, err := run.CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			traced, err := os.ReadFile(trace)
			clitest.Must(t, err)
			before, _, sent := strings.Cut(string(traced), "sent\n")
			if !sent {
				t.Fatalf("no request was sent:\n%s", traced)
			}
			for _, name := range c.folders {
				if want := filepath.Join(folder, name); !slices.Contains(strings.Split(before, "\n"), want) {
					t.Errorf("%s was not synced before the request:\n%s", want, traced)
				}
			}
		})
	}
}
