package pgstore

import (
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5"
)

// Grants returns the statements that give a role what a Store needs, and no more: it can use the tables, but neither make
// nor drop any. Apply them again after each migration; doing so twice changes nothing.
//
// A Store that works under such a role sweeps records, and leaves the partitions of past days to a sweep by the owner of
// the tables or a member of it.
func Grants(schema, role string) (string, error) {
	if schema == "" {
		schema = defaultSchema
	}
	if err := checkSchema(schema); err != nil {
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

// roleName quotes a role's name. Two words mean something else even in quotes: everybody, and nobody.
func roleName(role string) (string, error) {
	if role == "" || len(role) > maxName || strings.ContainsAny(role, "\x00\r\n") || role == "public" || role == "none" {
		return "", fmt.Errorf("pgstore: %q is no name of a role", role)
	}
	return pgx.Identifier{role}.Sanitize(), nil
}

// sqlFile is a text of the folder sql, which is embedded.
func sqlFile(name string) string {
	text, err := sqlFiles.ReadFile("sql/" + name + ".sql")
	if err != nil {
		panic(err)
	}
	return string(text)
}
