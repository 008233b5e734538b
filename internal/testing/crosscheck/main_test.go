package crosscheck

import (
	"flag"
	"os"
	"testing"
)

// TestMain draws more examples than rapid does by itself, unless -rapid.checks says how many.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{"rapid.checks": "10000", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	flag.Parse()
	os.Exit(m.Run())
}
