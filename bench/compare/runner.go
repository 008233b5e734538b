package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/retrysafe/retrysafe/bench/peers/npm"
	"github.com/retrysafe/retrysafe/bench/peers/restate"
)

// runner says how the program of a subject is installed and started.
type runner struct {
	// install installs what the program needs into dir and returns what command gets as installed. May be nil.
	install func(ctx context.Context, s subject, dir string) (string, error)
	command func(r role) *exec.Cmd
}

// This program serves the subject itself. The subject is part of bench/go.mod.
var own = runner{command: ownCommand}

// restateServer is as own, beside the server that comes by npm.
var restateServer = runner{
	install: func(ctx context.Context, _ subject, dir string) (string, error) { return restate.Install(ctx, dir) },
	command: ownCommand,
}

// node runs server.cjs of the subject's folder, with the versions that package-lock.json pins.
var node = runner{
	install: installNode,
	command: func(r role) *exec.Cmd {
		cmd := exec.Command("node", "server.cjs")
		cmd.Dir, cmd.Env = r.server, r.environment()
		return cmd
	},
}

// golang runs main.go of the subject's folder, with the versions that subject.mod and subject.sum pin. That module is
// not part of the workspace, so that what subjects require does not change what the product is built of.
var golang = goProgram("main.go", func(role) []string { return nil })

// goTool runs the program of a Go package that the subject's folder pins, with these arguments.
func goTool(pkg string, args func(r role) []string) runner { return goProgram(pkg, args) }

func goProgram(pkg string, args func(r role) []string) runner {
	return runner{
		install: func(ctx context.Context, s subject, dir string) (string, error) { return installGo(ctx, s, dir, pkg) },
		command: func(r role) *exec.Cmd {
			cmd := exec.Command(r.server, args(r)...)
			cmd.Dir, cmd.Env = r.dir, r.environment()
			return cmd
		},
	}
}

//go:embed orders
var sources embed.FS

// copyFolder makes dir a copy of the subject's folder, with the orders API beside it.
func copyFolder(s subject, dir string) error {
	files, err := fs.Sub(folders, s.Folder())
	if err != nil {
		return err
	}
	return errors.Join(os.CopyFS(dir, files), os.CopyFS(dir, sources))
}

func installNode(ctx context.Context, s subject, dir string) (string, error) {
	if err := copyFolder(s, dir); err != nil {
		return "", err
	}
	return dir, npm.Install(ctx, dir)
}

// installGo builds a package in a module of its own: a copy of the subject's folder and of package orders.
func installGo(ctx context.Context, s subject, dir, pkg string) (string, error) {
	err := errors.Join(copyFolder(s, dir),
		os.Rename(filepath.Join(dir, "subject.mod"), filepath.Join(dir, "go.mod")),
		os.Rename(filepath.Join(dir, "subject.sum"), filepath.Join(dir, "go.sum")))
	if err != nil {
		return "", err
	}
	program := filepath.Join(dir, "program")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, pkg)
	build.Dir, build.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return program, nil
}
