// Command survey measures what well-known HTTP clients do when a POST with an idempotency key fails: which failures
// they retry, and whether they wait as long as Retry-After says. It prints the table of docs/clients.md.
//
// It needs Node 20 and npm, curl, and Python with urllib3 (Debian's python3-urllib3).
package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

//go:embed clients.mjs clients.py package.json package-lock.json
var scripts embed.FS

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "survey:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	folder, err := os.MkdirTemp("", "retrysafe-survey-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	if err := install(ctx, folder); err != nil {
		return err
	}
	s := &server{seen: map[string][]time.Time{}}
	listening := httptest.NewServer(s)
	defer listening.Close()

	var all sync.WaitGroup
	failures := make(chan error, 2)
	script := func(program, file string) {
		all.Go(func() {
			cmd := exec.CommandContext(ctx, program, append([]string{filepath.Join(folder, file), listening.URL}, names()...)...)
			if out, err := cmd.CombinedOutput(); err != nil {
				failures <- fmt.Errorf("%s %s: %w\n%s", program, file, err, out)
			}
		})
	}
	script("node", "clients.mjs")
	script("/usr/bin/python3", "clients.py")
	all.Go(func() { sendByCurl(ctx, listening.URL) })
	all.Go(func() { sendByGo(ctx, listening.URL) })
	all.Wait()
	close(failures)
	for err := range failures {
		return err
	}
	return s.print(os.Stdout)
}

// install has npm install what the lock file says.
func install(ctx context.Context, folder string) error {
	files, err := scripts.ReadDir(".")
	if err != nil {
		return err
	}
	for _, f := range files {
		text, err := scripts.ReadFile(f.Name())
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(folder, f.Name()), text, 0o600); err != nil {
			return err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = folder
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}

// sendByCurl runs curl once for each set-up and situation.
func sendByCurl(ctx context.Context, url string) {
	setups := map[string][]string{
		"curl": nil, "curl --retry": {"--retry", "3"},
		"curl --retry-all-errors": {"--retry", "3", "--retry-all-errors", "--fail"},
	}
	var all sync.WaitGroup
	for setup, options := range setups {
		for _, situation := range names() {
			all.Go(func() {
				args := append([]string{
					"--silent", "--max-time", "60", "--data", "amount=1700", "--header",
					"Idempotency-Key: " + key(setup, situation),
				}, options...)
				_ = exec.CommandContext(ctx, "curl", append(args, url+"/v1/charges")...).Run() // what it did is seen by the server
			})
		}
	}
	all.Wait()
}

// key names the set-up and the situation to the server, in the request's idempotency key.
func key(setup, situation string) string { return setup + "|" + situation }

func fromKey(key string) (setup, situation string, err error) {
	setup, situation, ok := strings.Cut(strings.Trim(key, `"`), "|")
	if !ok {
		return "", "", errors.New("no key of the survey: " + key)
	}
	return setup, situation, nil
}
