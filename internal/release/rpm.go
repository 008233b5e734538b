package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/rpmpack"
)

// rpm returns the RPM package of the binary, and its file name.
func (p *packager) rpm(binary []byte, arch string) (name string, data []byte, err error) {
	files, err := p.files(binary, "/usr/share/zsh/site-functions")
	if err != nil {
		return "", nil, err
	}
	license, err := os.ReadFile(filepath.Join(p.tree, "LICENSE"))
	if err != nil {
		return "", nil, err
	}
	files = append(files, installed{"/usr/share/licenses/retrysafe/LICENSE", 0o644, license, 0})
	arch = map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]
	r, err := rpmpack.NewRPM(rpmpack.RPMMetaData{
		Name: "retrysafe", Version: p.number(), Release: "1", Arch: arch, OS: "linux", Summary: summary,
		Description: description, Licence: "Apache-2.0", URL: homepage, Packager: maintainer, BuildTime: p.time,
		BuildHost: "localhost", Compressor: "gzip:6",
	})
	if err != nil {
		return "", nil, err
	}
	for script, add := range map[string]func(string){
		"pre": r.AddPrein, "post": r.AddPostin, "preun": r.AddPreun, "postun": r.AddPostun,
	} {
		text, err := p.read("rpm." + script)
		if err != nil {
			return "", nil, err
		}
		add(string(text))
	}
	for _, f := range files {
		kind := rpmpack.GenericFile
		switch {
		case f.isConfig():
			kind = rpmpack.ConfigFile | rpmpack.NoReplaceFile
		case bytes.Equal(f.data, license):
			kind = rpmpack.LicenceFile
		}
		r.AddFile(rpmpack.RPMFile{
			Name: f.name, Body: f.data, Mode: uint(f.mode), Owner: "root", Group: "root", MTime: uint32(p.time.Unix()),
			Type: kind,
		})
	}
	var b bytes.Buffer
	if err := r.Write(&b); err != nil {
		return "", nil, err
	}
	return fmt.Sprintf("retrysafe-%s-1.%s.rpm", p.number(), arch), b.Bytes(), nil
}
