package servers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// fill makes the data directory of a new server: as a copy of one that initdb has made before, which takes a quarter of the
// time. The copies have one system identifier, which matters only to a standby, and that is a copy of its primary anyway.
func (p *Postgres) fill() error {
	args := []string{
		filepath.Join(p.bin, "initdb"), "-U", "postgres", "--auth=trust",
		"--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C",
	}
	template, err := templateDir(args)
	if err != nil {
		return err
	}
	lock, err := openLocked(template + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(template); err == nil {
		return copyTree(template, p.data)
	}
	if err := p.folder.run(append(args, "-D", p.data)...); err != nil {
		return err
	}
	unfinished := template + ".unfinished"
	return errors.Join(os.RemoveAll(unfinished), copyTree(p.data, unfinished), os.Rename(unfinished, template))
}

// templateDir is where the data directory that this very initdb makes is kept.
func templateDir(args []string) (string, error) {
	info, err := os.Stat(args[0])
	if err != nil {
		return "", err
	}
	dir, err := cacheDir()
	digest := sha256.Sum256(fmt.Append(nil, args, info.Size(), info.ModTime()))
	return filepath.Join(dir, "postgres-"+hex.EncodeToString(digest[:6])), err
}

// copyTree copies a folder, with the owners and the permissions of what is in it, and of itself.
func copyTree(from, to string) error {
	if out, err := exec.Command("cp", "-a", from+"/.", to).CombinedOutput(); err != nil {
		return fmt.Errorf("servers: cp: %w", explained(err, out))
	}
	return nil
}

// cacheDir is a folder of this user for what is made once on a machine.
func cacheDir() (string, error) {
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("servers: %w", err)
	}
	dir = filepath.Join(dir, "retrysafe")
	return dir, os.MkdirAll(dir, 0o755)
}
