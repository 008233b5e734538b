package recipe

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"

	"github.com/retrysafe/retrysafe/internal/yamlfile"
)

// hookSettings are commands, each a program and its arguments. Nothing is run by a shell.
type hookSettings struct {
	restart, stopStore, startStore, revoke, restore []string
	timeout                                         time.Duration
}

// hookTimeout is how long a command may take.
const hookTimeout = 30 * time.Second

// read reads the hooks. It returns errors for halves of pairs: a probe that stops a store and cannot start it again
// would leave the target broken.
func (h *hookSettings) read(r *yamlfile.Reader, n ast.Node) {
	h.timeout = hookTimeout
	r.Mapping(n, "hooks", map[string]yamlfile.Field{
		"restart":     command(&h.restart),
		"stop_store":  command(&h.stopStore),
		"start_store": command(&h.startStore),
		"revoke":      command(&h.revoke),
		"restore":     command(&h.restore),
		"timeout":     yamlfile.Scalar(&h.timeout, yamlfile.Duration),
	})
	if (h.stopStore == nil) != (h.startStore == nil) {
		r.Fault(n, "stop_store and start_store belong together", "write both stop_store: and start_store:")
	}
	if (h.revoke == nil) != (h.restore == nil) {
		r.Fault(n, "revoke and restore belong together", "write both revoke: and restore:")
	}
}

// command returns a field whose value is a program and its arguments. No shell runs it, so nothing in it needs quoting.
func command(to *[]string) yamlfile.Field {
	return func(r *yamlfile.Reader, n ast.Node) {
		if _, list := n.(*ast.SequenceNode); !list {
			r.Fault(n, "a command is a list of a program and its arguments; no shell runs it",
				"write [docker, restart, api]; for pipes and variables, [sh, -c, '…']")
			return
		}
		yamlfile.List(to, func(s string) (string, error) { return s, nil })(r, n)
	}
}

// maxSaid is how much of what a command says is shown when it fails.
const maxSaid = 2000

// run runs a command in dir until it ends. What it starts may live on.
func run(ctx context.Context, dir string, words []string, timeout time.Duration) error {
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	// A file and no pipe: a server that the command has started may go on writing to it.
	said, err := os.CreateTemp("", "retrysafe-hook")
	if err != nil {
		return err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	c := exec.CommandContext(ctx, words[0], words[1:]...) //nolint:gosec // the user's own command
	c.Dir, c.Stdout, c.Stderr = dir, said, said
	err = c.Run()
	if err == nil {
		return nil
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = fmt.Errorf("it took longer than %v", timeout)
	}
	text := make([]byte, maxSaid)
	n, _ := said.ReadAt(text, 0)
	return fmt.Errorf("run %s: %w%s", strings.Join(words, " "), err, indented(text[:n]))
}

// indented returns the output of a failed command as a part of an error message.
func indented(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	return "\n    " + strings.ReplaceAll(strings.TrimSpace(string(text)), "\n", "\n    ")
}

// listens waits until the target accepts connections.
func listens(ctx context.Context, target *url.URL, timeout time.Duration) error {
	address := target.Host
	if target.Port() == "" {
		address = net.JoinHostPort(target.Hostname(), target.Scheme)
	}
	ctx, stop := context.WithTimeout(ctx, timeout)
	defer stop()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("hooks.restart: no server listens at %s %v after the command ended: %w", address, timeout, err)
		}
	}
}
