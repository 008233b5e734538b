package main

import (
	"bytes"
	"crypto/md5" // which the format asks for
	"fmt"
	"strings"
	"time"
)

// deb returns the Debian package of the binary, and its file name. The format is an archive of two tar files, for which
// nfpm would bring some forty modules, go-git among them.
func (p *packager) deb(binary []byte, arch string) (name string, data []byte, err error) {
	files, err := p.files(binary, "/usr/share/zsh/vendor-completions")
	if err != nil {
		return "", nil, err
	}
	copyright, err := p.read("copyright")
	if err != nil {
		return "", nil, err
	}
	changelog := fmt.Sprintf("retrysafe (%s) stable; urgency=medium\n\n  * %s/blob/%s/CHANGELOG.md\n\n -- %s  %s\n",
		p.number(), homepage, p.version, maintainer, p.time.Format(time.RFC1123Z))
	files = append(files,
		installed{"/usr/share/doc/retrysafe/copyright", 0o644, copyright, 0},
		installed{"/usr/share/doc/retrysafe/changelog.gz", 0o644, compress([]byte(changelog)), 0},
		// A program that is linked statically runs on every release of the distribution.
		installed{"/usr/share/lintian/overrides/retrysafe", 0o644, []byte("retrysafe: statically-linked-binary\n"), 0},
	)
	var sums, configs strings.Builder
	size := 0
	for _, f := range files {
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name[1:])
		if f.isConfig() {
			fmt.Fprintln(&configs, f.name)
		}
		size += len(f.data)/1024 + 1
	}
	control := []installed{
		{"/control", 0o644, []byte(fmt.Sprintf("Package: retrysafe\nVersion: %s\nArchitecture: %s\nMaintainer: %s\n"+
			"Installed-Size: %d\nDepends: adduser\nRecommends: ca-certificates\nSection: net\nPriority: optional\n"+
			"Homepage: %s\nDescription: %s\n %s\n", p.number(), arch, maintainer, size, homepage, summary,
			strings.ReplaceAll(description, "\n", "\n "))), 0},
		{"/md5sums", 0o644, []byte(sums.String()), 0},
		{"/conffiles", 0o644, []byte(configs.String()), 0},
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		text, err := p.read("deb." + script)
		if err != nil {
			return "", nil, err
		}
		control = append(control, installed{"/" + script, 0o755, text, 0})
	}
	controlTar, err := p.tarball(".", control)
	if err != nil {
		return "", nil, err
	}
	dataTar, err := p.tarball(".", files)
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, member := range []struct {
		name string
		data []byte
	}{{"debian-binary", []byte("2.0\n")}, {"control.tar.gz", compress(controlTar)}, {"data.tar.gz", compress(dataTar)}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", member.name, p.time.Unix(), 0, 0, "100644", len(member.data))
		b.Write(member.data)
		if len(member.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return fmt.Sprintf("retrysafe_%s_%s.deb", p.number(), arch), b.Bytes(), nil
}
