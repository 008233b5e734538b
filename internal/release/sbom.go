package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
)

// sbom returns what the program contains, as CycloneDX: the modules that the linker has recorded in it, and Go.
func (p *packager) sbom(binary []byte, name string) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(binary))
	if err != nil {
		return nil, err
	}
	component := func(kind cyclonedx.ComponentType, module, version string) cyclonedx.Component {
		purl := "pkg:golang/" + module + "@" + version
		return cyclonedx.Component{BOMRef: purl, Type: kind, Name: module, Version: version, PackageURL: purl}
	}
	sum := sha256.Sum256(binary)
	program := component(cyclonedx.ComponentTypeApplication, info.Main.Path, p.version)
	program.Description = name
	program.Hashes = &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum[:])}}
	program.Licenses = &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}}
	contained := []cyclonedx.Component{component(cyclonedx.ComponentTypeLibrary, "std", info.GoVersion)}
	for _, module := range info.Deps {
		for module.Replace != nil {
			module = module.Replace
		}
		contained = append(contained, component(cyclonedx.ComponentTypeLibrary, module.Path, module.Version))
	}
	var references []string
	for _, c := range contained {
		references = append(references, c.BOMRef)
	}
	bom := cyclonedx.NewBOM()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: p.time.Format(time.RFC3339), Component: &program}
	bom.Components = &contained
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: program.BOMRef, Dependencies: &references}}
	var b bytes.Buffer
	encoder := cyclonedx.NewBOMEncoder(&b, cyclonedx.BOMFileFormatJSON)
	if err := encoder.SetPretty(true).Encode(bom); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
