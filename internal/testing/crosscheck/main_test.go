package crosscheck

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more examples than rapid's default, unless -rapid.checks sets the number.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "10000", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
