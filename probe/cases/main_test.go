package cases_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain lets more tests run at the same time than there are processors: most of what they do is wait.
func TestMain(m *testing.M) {
	flag.Bool("update", false, "write what the cases say of broken servers into docs/defects.md")
	flag.Parse()
	_ = flag.Set("test.parallel", "12")
	os.Exit(m.Run())
}

// updates reports whether -update was given.
func updates() bool {
	f := flag.Lookup("update")
	return f != nil && f.Value.String() == "true"
}
