package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Grants returns the statements that give a role what a Store needs, and no more: it can use the tables, but not make
// or drop any. Execute them again after each migration; doing so twice changes nothing. An empty schema is
// "retrysafe". It returns an error if schema or role cannot be a name.
//
// A Store with such a role sweeps records, and leaves the partitions of past days to a sweep by the owner of the
// tables or a member of it.
func Grants(schema, role string) (string, error) {
	schema, err := checkSchema(schema)
	if err != nil {
		return "", err
	}
	name, err := roleName(role)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(inSchema(sqlFile("grants"), schema), "{{role}}", name), nil
}

// maxName is how long PostgreSQL lets a name be, in bytes. It cuts off what is more.
const maxName = 63

// roleName quotes a role's name. Even in quotes public means all roles, and none means no role.
func roleName(role string) (string, error) {
	if role == "" || len(role) > maxName || strings.ContainsAny(role, "\x00\r\n") || role == "public" || role == "none" {
		return "", fmt.Errorf("pgstore: %q cannot be the name of a role", role)
	}
	return pgx.Identifier{role}.Sanitize(), nil
}
