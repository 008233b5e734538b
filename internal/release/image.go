package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	imagetar "github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// imageUser is the user and the group of the image, who have no name in it.
const imageUser = 65532

// image returns a container image of the binary, as docker load and podman load read it, and its file name. It has
// nothing but the program, a folder for keys, and the certificates of public authorities: the proxy calls APIs,
// identity providers and DynamoDB by TLS, and a container without certificates could call none of them.
func (p *packager) image(binary []byte, arch string) (file string, data []byte, err error) {
	var roots bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue // a file cannot express what the authority is not trusted for
		}
		if err := pem.Encode(&roots, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return "", nil, err
		}
	}
	files, err := p.tarball("", []installed{
		{"/etc/ssl/certs/ca-certificates.crt", 0o644, roots.Bytes(), 0},
		{"/tmp/", 0o1777, nil, 0},
		{"/usr/bin/retrysafe", 0o755, binary, 0},
		{"/var/lib/retrysafe/", 0o700, nil, imageUser},
	})
	if err != nil {
		return "", nil, err
	}
	compressed := compress(files)
	layer, err := imagetar.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(compressed)), nil
	})
	if err != nil {
		return "", nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer: layer, History: v1.History{Created: v1.Time{Time: p.time}, CreatedBy: "make release"},
	})
	if err != nil {
		return "", nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return "", nil, err
	}
	config.Created, config.OS, config.Architecture = v1.Time{Time: p.time}, "linux", arch
	config.Config = v1.Config{
		User: fmt.Sprintf("%[1]d:%[1]d", imageUser), WorkingDir: "/var/lib/retrysafe",
		Entrypoint: []string{"/usr/bin/retrysafe"}, Cmd: []string{"--help"},
		Volumes: map[string]struct{}{"/var/lib/retrysafe": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "retrysafe", "org.opencontainers.image.version": p.version,
			"org.opencontainers.image.source": homepage, "org.opencontainers.image.licenses": "Apache-2.0",
		},
	}
	if image, err = mutate.ConfigFile(image, config); err != nil {
		return "", nil, err
	}
	tag, err := name.NewTag("retrysafe:" + p.version[1:])
	if err != nil {
		return "", nil, err
	}
	var b bytes.Buffer
	if err := imagetar.Write(tag, image, &b); err != nil {
		return "", nil, err
	}
	return (target{"linux", arch}).file(p.version) + ".image.tar", b.Bytes(), nil
}
