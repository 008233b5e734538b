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
func Grants(schema, role string) (string, error) { return grantsIn("grants", schema, role) }

// ServiceGrants returns the statements that give a role what a service needs that calls the SQL functions, such as
// retrysafe.complete: it can claim keys whose scope and ID it knows, and end the attempts whose lease tokens it has. It
// can read and write no table, and so no answer of another service: rights to the tables that the role has been given are
// taken back, unless it owns them. Execute them again after each migration; doing so
// twice changes nothing. An empty schema is "retrysafe". It returns an error if schema or role cannot be a name.
func ServiceGrants(schema, role string) (string, error) {
	return grantsIn("service_grants", schema, role)
}

// grantsIn fills a schema and a role into a file of grants.
func grantsIn(file, schema, role string) (string, error) {
	schema, err := checkSchema(schema)
	if err != nil {
		return "", err
	}
	name, err := roleName(role)
	if err != nil {
		return "", err
	}
	return strings.NewReplacer("{{role}}", name, "{{role_text}}", literal(role)).Replace(inSchema(sqlFile(file), schema)), nil
}

// allGrants returns the Grants of a role and the ServiceGrants of another one. Roles that are empty get nothing.
func allGrants(schema, role, serviceRole string) (all string, err error) {
	if role != "" {
		if all, err = Grants(schema, role); err != nil {
			return "", err
		}
	}
	if serviceRole == "" {
		return all, nil
	}
	more, err := ServiceGrants(schema, serviceRole)
	return all + more, err
}

// literal quotes a text.
func literal(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }

// maxName is how long PostgreSQL lets a name be, in bytes. It cuts off what is more.
const maxName = 63

// roleName quotes a role's name. Even in quotes public means all roles, and none means no role.
func roleName(role string) (string, error) {
	if role == "" || len(role) > maxName || strings.ContainsAny(role, "\x00\r\n") || role == "public" || role == "none" {
		return "", fmt.Errorf("pgstore: %q cannot be the name of a role", role)
	}
	return pgx.Identifier{role}.Sanitize(), nil
}
