package dashboard

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"strings"
)

// Role is what a user may do. Each role includes those before it.
type Role uint8

// The roles.
const (
	Look    Role = iota + 1 // see all pages, and answers on request
	Resolve                 // decide keys whose outcome is unknown
	Purge                   // delete stored answers, and have operations that have ended run again
)

var roleNames = []string{"none", "look", "resolve", "purge"}

// String returns the role as the file of users has it.
func (r Role) String() string { return roleNames[r] }

// user is a line of the file.
type user struct {
	name string
	role Role
	hash [sha256.Size]byte // of the token
}

// Limits of the file of users, and the shortest token, which was made by a program and not thought of.
const (
	maxUsersFile  = 256 << 10
	shortestToken = 20
)

// CheckUsers returns an error if the file of users cannot be used. An empty path is none.
func CheckUsers(path string) error {
	if path == "" {
		return nil
	}
	_, err := readUsers(path)
	return err
}

// readUsers reads the file. Errors name the line and do not show it, because some users write the token itself.
func readUsers(path string) ([]user, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the file of the dashboard's users: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxUsersFile+1))
	if err != nil {
		return nil, fmt.Errorf("the file of the dashboard's users: %w", err)
	}
	if len(text) > maxUsersFile {
		return nil, fmt.Errorf("%s is larger than %d bytes: it is no file of users", path, maxUsersFile)
	}
	return parseUsers(path, string(text))
}

func parseUsers(path, text string) (all []user, err error) {
	seen := map[string]bool{}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		wrong := func(why string) error { return fmt.Errorf("%s, line %d: %s", path, n, why) }
		if len(words) != 3 {
			return nil, wrong("write a name, a role and the hash of a token: alice resolve sha256:…")
		}
		u := user{name: words[0]}
		u.role, _ = ParseRole(words[1])
		hash, isHash := strings.CutPrefix(words[2], "sha256:")
		bytes, err := hex.DecodeString(hash)
		switch {
		case u.role == 0:
			return nil, wrong("the role must be look, resolve or purge")
		case !isHash || err != nil || len(bytes) != sha256.Size:
			return nil, wrong("the third word must be sha256: and the 64 hex digits that this prints: printf %s TOKEN | sha256sum")
		case seen[u.name]:
			return nil, wrong("this name is in an earlier line")
		}
		seen[u.name], u.hash = true, [sha256.Size]byte(bytes)
		all = append(all, u)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s has no user: write lines such as alice resolve sha256:…", path)
	}
	return all, nil
}

// userOf returns the user who has a token. It compares with each user in constant time.
func userOf(all []user, token string) (found user, ok bool) {
	hash := sha256.Sum256([]byte(token))
	for _, u := range all {
		if subtle.ConstantTimeCompare(u.hash[:], hash[:]) == 1 {
			found, ok = u, true
		}
	}
	return found, ok && len(token) >= shortestToken
}
