package storekit

import (
	"fmt"

	"github.com/retrysafe/retrysafe"
)

// MaxContent is how many bytes a result or a step may have. PostgreSQL and SQLite fail at about 1 GB for a row, and
// Redis at 512 MB for a value: more slowly, with an error that looks like a broken connection, and after the content has
// been sent.
const MaxContent = 1 << 28

// CheckSize returns an error that is retrysafe.ErrResultTooLarge if content of n bytes exceeds the limit.
func CheckSize(n, limit int) error {
	if n > limit {
		return fmt.Errorf("%w: %d bytes, the limit is %d", retrysafe.ErrResultTooLarge, n, limit)
	}
	return nil
}
