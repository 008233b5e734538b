package servers

import (
	"fmt"
	"os"
	"os/user"
	"strconv"
)

// account is the operating-system user that runs a server. The zero account is the current user.
type account struct {
	uid, gid uint32
	groups   []uint32
	other    bool // not the current user
}

// serverAccount returns the account for a server. Root runs servers as the named user, because many of them refuse to
// run as root; other users run them themselves.
func serverAccount(name string) (account, error) {
	if os.Getuid() != 0 {
		return account{}, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return account{}, fmt.Errorf("servers: root runs this server as the user %s: %w", name, err)
	}
	groups, err := u.GroupIds()
	if err != nil {
		return account{}, fmt.Errorf("servers: groups of %s: %w", name, err)
	}
	a := account{other: true}
	for _, id := range append([]string{u.Uid, u.Gid}, groups...) {
		n, err := strconv.ParseUint(id, 10, 32)
		if err != nil {
			return account{}, fmt.Errorf("servers: user %s: %w", name, err)
		}
		a.groups = append(a.groups, uint32(n))
	}
	a.uid, a.gid, a.groups = a.groups[0], a.groups[1], a.groups[2:]
	return a, nil
}

// own changes the owner of a file or folder to the account.
func (a account) own(path string) error {
	if !a.other {
		return nil
	}
	return os.Chown(path, int(a.uid), int(a.gid))
}

// write makes a file that only the account can read.
func (a account) write(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return a.own(path)
}
