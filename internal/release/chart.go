package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// chartVersions matches the two versions in Chart.yaml: that of the chart, and that of the image which it runs.
var chartVersions = regexp.MustCompile(`(?m)^(version|appVersion): \S+$`)

// chart returns the Helm chart with the version of the release, as "helm package" does, and its file name. Helm would
// call the file retrysafe-VERSION.tgz, which is the name of the package of clients/node.
func (p *packager) chart() (file string, data []byte, err error) {
	tree := os.DirFS(filepath.Join(p.tree, "deploy/helm/retrysafe"))
	var files []installed
	err = fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		if name == "Chart.yaml" {
			if found := chartVersions.FindAll(data, -1); len(found) != 2 {
				return fmt.Errorf("deploy/helm/retrysafe/Chart.yaml has %d lines with version or appVersion; want 2", len(found))
			}
			data = chartVersions.ReplaceAll(data, []byte("$1: "+strings.TrimPrefix(p.version, "v")))
		}
		files = append(files, installed{"/" + name, 0o644, data, 0})
		return nil
	})
	if err != nil {
		return "", nil, err
	}
	archive, err := p.tarball("retrysafe", files)
	if err != nil {
		return "", nil, err
	}
	return "retrysafe-chart-" + strings.TrimPrefix(p.version, "v") + ".tgz", compress(archive), nil
}
