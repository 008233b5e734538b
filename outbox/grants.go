package outbox

import (
	"fmt"
	"strings"
)

// SaveGrants returns the statement that lets a role call the functions which save messages through SQL. The role needs
// no rights on the table, and cannot read messages. Execute it as the owner of the table; doing so twice changes
// nothing. If the table is in a schema of its own, the role also needs USAGE on that schema.
//
// SaveGrants returns an error if role cannot be a name, or if the dialect has no such functions: PostgreSQL has.
func (b *Outbox) SaveGrants(role string) (string, error) {
	if b.sql.grants == "" {
		return "", fmt.Errorf("outbox: only %q has functions that save messages", PostgreSQL)
	}
	// Even in quotes public means all roles, and none means no role. PostgreSQL cuts off what is longer than 63 bytes.
	if role == "" || len(role) > 63 || strings.ContainsAny(role, "\x00\r\n") || role == "public" || role == "none" {
		return "", fmt.Errorf("outbox: %q cannot be the name of a role", role)
	}
	return strings.ReplaceAll(b.sql.grants, "$1", `"`+strings.ReplaceAll(role, `"`, `""`)+`"`), nil
}
