package mysqlstore

import (
	"fmt"
	"strings"
)

// Grants returns the statements that give an account what a Store needs, and no more: it can use the tables, but not
// make or drop any. role is the name of an account or a role, with the host behind an @ if it has one: "app",
// "app@10.0.0.%". Execute them again after each migration; doing so twice changes nothing. It returns an error if
// database or role cannot be a name.
//
// A Store with such an account sweeps records, and leaves the partitions of past days to a sweep by one that may
// alter and drop tables.
func Grants(database, role string) (string, error) {
	if !databaseName.MatchString(database) {
		return "", fmt.Errorf("mysqlstore: %q cannot be the name of a database", database)
	}
	name, err := roleName(role)
	if err != nil {
		return "", err
	}
	return strings.ReplaceAll(inDatabase(sqlFile("grants"), database), "{{role}}", name) + "\n", nil
}

// roleName quotes the name of an account. Without a host it is that of a role, or of an account for any host.
func roleName(role string) (string, error) {
	name, host, hasHost := strings.Cut(role, "@")
	if name == "" || len(name) > 80 || len(host) > 255 || strings.ContainsAny(role, "'`\"\\\x00\r\n") ||
		hasHost && host == "" || strings.EqualFold(name, "public") {
		return "", fmt.Errorf("mysqlstore: %q cannot be the name of an account or a role", role)
	}
	if hasHost {
		return "'" + name + "'@'" + host + "'", nil
	}
	return "'" + name + "'", nil
}
