package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/retrysafe/retrysafe/bench/child"
	"github.com/retrysafe/retrysafe/bench/loopback"
	"github.com/retrysafe/retrysafe/probe"
)

// playGateway serves the API, which knows no keys, at two addresses, with a gateway in front of them that has the
// configuration in its folder.
func (r role) playGateway(ctx context.Context) error {
	api := r.api().Authenticated(r.api().Handler())
	words := []string{"{address}", r.address, "{dir}", r.dir}
	for _, name := range []string{"{upstream1}", "{upstream2}"} {
		at, end, err := loopback.Serve("", api)
		if err != nil {
			return err
		}
		defer func() { _ = end() }()
		words = append(words, name, at)
	}
	name := r.name + ".conf"
	text, err := folders.ReadFile("subjects/" + r.name + "/" + name)
	if err != nil {
		return err
	}
	config := filepath.Join(r.dir, name)
	if err := writeFile(config, strings.NewReplacer(words...).Replace(string(text))); err != nil {
		return err
	}
	program, err := exec.LookPath("/usr/sbin/" + r.name)
	if err != nil {
		return fmt.Errorf("%s is not installed; on Debian: apt-get install %s", r.name, r.name)
	}
	cmd := exec.Command(program, "-c", config, "-p", r.dir, "-e", "stderr")
	if r.name == "haproxy" {
		cmd = exec.Command(program, "-f", config)
	}
	cmd.Stderr = os.Stderr
	c, err := child.Start(cmd)
	if err != nil {
		return err
	}
	select {
	case <-c.Ended():
		return fmt.Errorf("%s has ended: see its log", r.name)
	case <-ctx.Done():
		return c.Stop()
	}
}

// gatewayRecipe has what only a gateway can lose.
func gatewayRecipe(r *probe.Recipe, _ string) {
	r.Variants.Unanswered = post("/orders/unanswered")
}
