package store

import (
	"testing"

	"github.com/retrysafe/retrysafe/cmd/retrysafe/internal/clitest"
)

func TestMain(m *testing.M) { clitest.Main(m) }
