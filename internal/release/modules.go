package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/mod/modfile"
)

// private lists the folders of the modules that are not released, because they are used only in this repository.
// Every other module of go.work is public.
var private = []string{"bench", "examples", "integration", "integration/judges", "internal/testing/crosscheck", "internal/release"}

// mod is a module of the repository.
type mod struct {
	folder string // path in the repository, with slashes; "." is the root
	file   *modfile.File
}

func (m *mod) path() string { return m.file.Module.Mod.Path }

// publicModules reads the modules in the go.work of dir and returns the public ones, each after the modules that it
// requires. The error lists every fault that would make a release unusable.
func publicModules(dir string) ([]*mod, error) {
	all, err := readModules(dir)
	if err != nil {
		return nil, err
	}
	var faults []error
	var public []*mod
	for _, m := range all {
		if !slices.Contains(private, m.folder) {
			public = append(public, m)
		}
	}
	for _, m := range public {
		faults = append(faults, m.faults(public)...)
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return inOrder(public), nil
}

func readModules(dir string) ([]*mod, error) {
	name := filepath.Join(dir, "go.work")
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	work, err := modfile.ParseWork(name, data, nil)
	if err != nil {
		return nil, err
	}
	var all []*mod
	var faults []error
	for _, use := range work.Use {
		name := filepath.Join(dir, use.Path, "go.mod")
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		file, err := modfile.Parse(name, data, nil)
		if err != nil {
			return nil, err
		}
		m := &mod{folder: path.Clean(use.Path), file: file}
		if file.Go.Version != work.Go.Version {
			faults = append(faults, fmt.Errorf("%s/go.mod says go %s, go.work says go %s: all modules need the same version",
				m.folder, file.Go.Version, work.Go.Version))
		}
		all = append(all, m)
	}
	return all, errors.Join(faults...)
}

// faults returns the faults of the module's go.mod that prevent a release.
func (m *mod) faults(public []*mod) []error {
	var faults []error
	root := root(public).path()
	isPublic := func(modPath string) bool {
		return slices.ContainsFunc(public, func(p *mod) bool { return p.path() == modPath })
	}
	if want := path.Join(root, m.folder); m.path() != want {
		faults = append(faults, fmt.Errorf("%s/go.mod names the module %s; in its folder it must be %s", m.folder,
			m.path(), want))
	}
	for _, r := range m.file.Require {
		if ours(root, r.Mod.Path) && !isPublic(r.Mod.Path) {
			faults = append(faults, fmt.Errorf("%s/go.mod requires %s, which is not released", m.folder, r.Mod.Path))
		}
	}
	for _, r := range m.file.Replace {
		if !isPublic(r.Old.Path) {
			faults = append(faults, fmt.Errorf("%s/go.mod replaces %s: users of the module would get the original",
				m.folder, r.Old.Path))
		}
	}
	return faults
}

// root returns the root module of the repository.
func root(modules []*mod) *mod {
	return modules[slices.IndexFunc(modules, func(m *mod) bool { return m.folder == "." })]
}

// ours reports whether a module path belongs to the repository with this root module.
func ours(root, modPath string) bool {
	return modPath == root || len(modPath) > len(root) && modPath[:len(root)+1] == root+"/"
}

// inOrder returns the modules, each after those that it requires.
func inOrder(modules []*mod) []*mod {
	var ordered []*mod
	var add func(m *mod)
	add = func(m *mod) {
		if slices.Contains(ordered, m) {
			return
		}
		for _, required := range m.siblings(modules) {
			add(required)
		}
		ordered = append(ordered, m)
	}
	for _, m := range modules {
		add(m)
	}
	return ordered
}

// siblings returns the modules in the list that m requires.
func (m *mod) siblings(modules []*mod) []*mod {
	var required []*mod
	for _, sibling := range modules {
		if slices.ContainsFunc(m.file.Require, func(r *modfile.Require) bool { return r.Mod.Path == sibling.path() }) {
			required = append(required, sibling)
		}
	}
	return required
}
