package main

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed express/package.json
var packageJSON []byte

//go:embed express/package-lock.json
var packageLock []byte

//go:embed express/server.js
var expressServer []byte

// installExpress fetches the pinned versions into dir, beside the program, and returns dir.
func installExpress(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for name, content := range map[string][]byte{
		"package.json": packageJSON, "package-lock.json": packageLock, "server.js": expressServer,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			return "", err
		}
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	if out, err := npm.CombinedOutput(); err != nil {
		return "", fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return dir, nil
}

// expressCommand serves the role by node.
func expressCommand(r role) *exec.Cmd {
	_, port, _ := net.SplitHostPort(r.address)
	cmd := exec.Command("node", "server.js", port, string(r.api().effects))
	cmd.Dir = r.server
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.dir, "NODE_ENV=production"}
	return cmd
}
