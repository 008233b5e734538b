package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
)

// npm writes packages for npm's registry into dist: one with the program for each target, and that of clients/node,
// which has them as optional dependencies. npm installs the one whose os and cpu fit, so that "npx retrysafe" runs the
// program, and no script downloads anything at installation.
func (p *packager) npm(ctx context.Context, dist string, binaries map[target][]byte) error {
	library, err := os.MkdirTemp("", "retrysafe-npm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(library)
	if err := os.CopyFS(library, os.DirFS(filepath.Join(p.tree, "clients/node"))); err != nil {
		return err
	}
	license, err := os.ReadFile(filepath.Join(p.tree, "LICENSE"))
	if err != nil {
		return err
	}
	number := strings.TrimPrefix(p.version, "v")
	set := []string{"pkg", "set", "version=" + number}
	for _, t := range targets {
		binary, ok := binaries[t]
		if !ok {
			continue // in a test
		}
		platform := strings.NewReplacer("windows", "win32", "amd64", "x64").Replace(t.os + "-" + t.arch)
		system, processor, _ := strings.Cut(platform, "-")
		set = append(set, "optionalDependencies[@retrysafe/"+platform+"]="+number)
		manifest, err := json.MarshalIndent(map[string]any{
			"name": "@retrysafe/" + platform, "version": number, "description": "The command retrysafe for this platform",
			"license": "Apache-2.0", "homepage": homepage,
			"repository": map[string]string{"type": "git", "url": "git+" + homepage + ".git"},
			"os":         []string{system}, "cpu": []string{processor},
			"preferUnplugged": true, // Yarn then does not keep the program in a zip file
		}, "", "  ")
		if err != nil {
			return err
		}
		archive, err := p.tarball("package", []installed{
			{"/package.json", 0o644, manifest, 0},
			{"/LICENSE", 0o644, license, 0},
			{"/bin/retrysafe" + t.suffix(), 0o755, binary, 0},
		})
		if err != nil {
			return err
		}
		name := filepath.Join(dist, "retrysafe-"+platform+"-"+number+".tgz")
		if err := writeFile(name, compress(archive)); err != nil {
			return err
		}
	}
	env := append(os.Environ(), "npm_config_offline=true", "npm_config_update_notifier=false")
	if _, err := command(ctx, library, env, "npm", set...); err != nil {
		return err
	}
	if dist, err = filepath.Abs(dist); err != nil {
		return err
	}
	_, err = command(ctx, library, env, "npm", "pack", "--pack-destination", dist)
	return err
}
