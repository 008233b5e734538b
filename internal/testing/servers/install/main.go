// Command install installs the servers that tests start, all at once, where tests would install one after another as they
// need it. It is of use on a new machine, and does nothing on others.
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
