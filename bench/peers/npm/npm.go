// Package npm installs the peers that are written in JavaScript, or come that way.
package npm

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// InstallFiles writes the files into dir, which it makes, and installs the versions that their package-lock.json pins.
func InstallFiles(ctx context.Context, dir string, files fs.FS) error {
	if err := os.CopyFS(dir, files); err != nil {
		return err
	}
	return Install(ctx, dir)
}

// Install installs the versions that package-lock.json in dir pins.
func Install(ctx context.Context, dir string) error {
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return nil
}
