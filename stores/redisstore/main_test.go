package redisstore

import (
	"os"
	"testing"

	"github.com/retrysafe/retrysafe/internal/testing/torture"
)

func TestMain(m *testing.M) {
	torture.Main(tortured())
	os.Exit(m.Run())
}
