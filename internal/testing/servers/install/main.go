// Command install installs all servers that the tests start. Without it, each test installs the servers that it
// needs. It does nothing if all of them are installed.
package main

import (
	"fmt"
	"os"

	"github.com/retrysafe/retrysafe/internal/testing/servers"
)

func main() {
	if err := servers.Install(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
