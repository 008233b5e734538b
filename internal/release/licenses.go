package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// commandFolder is the folder of the command's module, which is also released as binaries.
const commandFolder = "cmd/retrysafe"

// licensesFile holds the licenses of everything that the command's binaries contain. It is committed, because "go
// install" builds only from the module.
const licensesFile = commandFolder + "/licenses.txt"

// licenseName matches the names of files that must accompany a binary.
var licenseName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)`)

// holders maps the text of a license to the names of those that use it.
type holders map[string][]string

func (h holders) add(license, name string) {
	license = strings.TrimSpace(license)
	if !slices.Contains(h[license], name) {
		h[license] = append(h[license], name)
	}
}

// licenses returns the content of licensesFile for the working tree in dir: the licenses of this repository, of the
// standard library and of the modules that the command contains on any target, and that of the script of its dashboard.
func licenses(ctx context.Context, dir string) (string, error) {
	own, err := os.ReadFile(filepath.Join(dir, "LICENSE"))
	if err != nil {
		return "", err
	}
	found := holders{}
	for _, t := range targets {
		if err := found.addModules(ctx, filepath.Join(dir, commandFolder), t); err != nil {
			return "", err
		}
	}
	script, err := os.ReadFile(filepath.Join(dir, commandFolder, "internal/dashboard/assets/htmx.LICENSE"))
	if err != nil {
		return "", err
	}
	found.add(string(script), "htmx.org")
	text := "retrysafe contains the software below, each part under the license that follows its name.\n" +
		section([]string{"Retrysafe"}, strings.TrimSpace(string(own)))
	byName := slices.SortedFunc(maps.Keys(found), func(a, b string) int {
		slices.Sort(found[a])
		slices.Sort(found[b])
		return cmp.Or(slices.Compare(found[a], found[b]), strings.Compare(a, b)) // a name may have several licenses
	})
	for _, license := range byName {
		text += section(found[license], license)
	}
	return text, nil
}

func section(names []string, license string) string {
	rule := strings.Repeat("=", 80)
	return "\n" + rule + "\n" + strings.Join(names, "\n") + "\n" + rule + "\n\n" + license + "\n"
}

// addModules adds the third-party modules that the command in the folder contains on the target.
func (h holders) addModules(ctx context.Context, folder string, t target) error {
	env := append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0", "GOOS="+t.os, "GOARCH="+t.arch)
	packages, err := command(ctx, folder, env, "go", "list", "-deps",
		"-f", "{{with .Module}}{{if not (or .Main .Replace)}}{{.Path}} {{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", ".")
	if err != nil {
		return err
	}
	for _, line := range strings.Split(packages, "\n") {
		fields := strings.Split(line, "\t")
		if len(fields) != 3 {
			continue // in the standard library, or in this repository
		}
		texts, err := licensesBetween(fields[2], fields[1])
		if err != nil {
			return err
		}
		if len(texts) == 0 {
			return fmt.Errorf("%s has no license file: the command must not contain it", fields[0])
		}
		if err := checkLicenses(fields[0], texts); err != nil {
			return err
		}
		for _, text := range texts {
			h.add(text, fields[0])
			if strings.HasPrefix(fields[0], "golang.org/x/sys ") {
				h.add(text, "the Go standard library") // whose license is identical
			}
		}
	}
	return nil
}

// permissive matches the licenses that admit any use of a binary, if their texts accompany it.
var permissive = regexp.MustCompile(`(?i)Apache License|Permission is hereby granted, free of charge|` +
	`Redistribution and use in source and binary forms|Permission to use, copy, modify,? and(/or)? distribute`)

// copyleft matches the beginning of licenses that ask for more: for source code, for the same license, or for a fee.
var copyleft = regexp.MustCompile(`(?i)GNU (Lesser |Library |Affero )?General Public|Mozilla Public|Eclipse Public|` +
	`European Union Public|Common Development and Distribution|Server Side Public|Business Source|Commons Clause|` +
	`Elastic License|ShareAlike|NonCommercial`)

// fileCopyleft are modules under the Mozilla Public License, which asks for the source of its own files and of nothing
// else. It is public, and licensesFile names the module and the version that have it.
var fileCopyleft = []string{"github.com/go-sql-driver/mysql"}

// checkLicenses refuses a module, named with its version, whose license is not known to be permissive.
func checkLicenses(module string, texts []string) error {
	name, _, _ := strings.Cut(module, " ")
	known := slices.Contains(fileCopyleft, name)
	for _, text := range texts {
		text = strings.Join(strings.Fields(text), " ")
		if found := copyleft.FindString(text[:min(len(text), 400)]); found != "" && !slices.Contains(fileCopyleft, name) {
			return fmt.Errorf("%s is under a license of the %q kind: the command must not contain it", module, found)
		}
		known = known || permissive.MatchString(text)
	}
	if !known {
		return fmt.Errorf("%s is under a license that is not known to be permissive: read it, and add what it says to "+
			"permissive in internal/release/licenses.go, or do without the module", module)
	}
	return nil
}

// licensesBetween returns the licenses in the folder of a package and in its parent folders, up to its module's.
func licensesBetween(folder, module string) ([]string, error) {
	var texts []string
	for ; ; folder = filepath.Dir(folder) {
		entries, err := os.ReadDir(folder)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.IsDir() || !licenseName.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			text, err := os.ReadFile(filepath.Join(folder, e.Name()))
			if err != nil {
				return nil, err
			}
			texts = append(texts, string(text))
		}
		if folder == module {
			return texts, nil
		}
	}
}
