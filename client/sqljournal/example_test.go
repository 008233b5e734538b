package sqljournal_test

import (
	"fmt"
	"strings"

	"github.com/retrysafe/retrysafe/client/sqljournal"
)

func ExampleSchema() {
	schema, err := sqljournal.Schema(sqljournal.PostgreSQL)
	fmt.Println(strings.HasPrefix(schema, "CREATE TABLE IF NOT EXISTS retrysafe_journal"), err)
	// Output: true <nil>
}
