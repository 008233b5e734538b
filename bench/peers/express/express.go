// Package express is the orders API of bench/compare on Express, behind express-idempotency.
package express

import (
	"context"
	"embed"
	"os"
	"os/exec"

	"github.com/retrysafe/retrysafe/bench/peers/npm"
)

//go:embed package.json package-lock.json server.js
var files embed.FS

// Install installs the pinned versions and the program into dir, and returns dir.
func Install(ctx context.Context, dir string) (string, error) {
	return dir, npm.Install(ctx, dir, files)
}

// Command prepares the program that Install has put into dir. It listens on a port of the loopback interface, and
// appends a line to the file effects for each order.
func Command(dir, home, port, effects string) *exec.Cmd {
	cmd := exec.Command("node", "server.js", port, effects)
	cmd.Dir = dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "NODE_ENV=production"}
	return cmd
}
