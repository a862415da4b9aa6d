package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// writeBOM writes what a program is made of, in CycloneDX: what the Go linker recorded
// in the program itself, so that it is neither more nor less than what is in it.
func writeBOM(w io.Writer, s source, p program) error {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return err
	}
	digest := sha256.Sum256(binary)
	root := &cyclonedx.Component{
		BOMRef: purl(module, "v"+s.version), Type: cyclonedx.ComponentTypeApplication,
		Name: "toolgate", Version: s.version, Description: about, PackageURL: purl(module, "v"+s.version),
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: license}}},
		Hashes:   &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(digest[:])}},
		ExternalReferences: &[]cyclonedx.ExternalReference{
			{Type: cyclonedx.ERTypeVCS, URL: website, Comment: "commit " + s.revision},
		},
	}
	var properties []cyclonedx.Property
	for _, setting := range p.info.Settings {
		properties = append(properties, cyclonedx.Property{Name: "go:build:" + strings.TrimLeft(setting.Key, "-"), Value: setting.Value})
	}
	root.Properties = &properties

	toolchain, _, _ := strings.Cut(strings.TrimPrefix(p.info.GoVersion, "go"), " ")
	components := []cyclonedx.Component{{
		BOMRef: purl("std", toolchain), Type: cyclonedx.ComponentTypeLibrary,
		Name: "std", Version: toolchain, PackageURL: purl("std", toolchain),
	}}
	for _, m := range p.info.Deps {
		c, err := component(m)
		if err != nil {
			return err
		}
		components = append(components, c)
	}
	slices.SortFunc(components, func(a, b cyclonedx.Component) int { return cmp.Compare(a.BOMRef, b.BOMRef) })
	var refs []string
	for _, c := range components {
		refs = append(refs, c.BOMRef)
	}

	bom := cyclonedx.NewBOM()
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, digest[:]).URN()
	bom.Metadata = &cyclonedx.Metadata{Timestamp: s.time.Format(time.RFC3339), Component: root}
	bom.Components = &components
	bom.Dependencies = &[]cyclonedx.Dependency{{Ref: root.BOMRef, Dependencies: &refs}}
	return cyclonedx.NewBOMEncoder(w, cyclonedx.BOMFileFormatJSON).SetPretty(true).SetEscapeHTML(false).Encode(bom)
}

// component describes a module. Its hash is the one of go.sum, as a SHA-256.
func component(m *debug.Module) (cyclonedx.Component, error) {
	if m.Replace != nil {
		m = m.Replace
	}
	sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:"))
	if err != nil || len(sum) != sha256.Size {
		return cyclonedx.Component{}, fmt.Errorf("the module %s %s has the checksum %q: a release is made from published modules only", m.Path, m.Version, m.Sum)
	}
	return cyclonedx.Component{
		BOMRef: purl(m.Path, m.Version), Type: cyclonedx.ComponentTypeLibrary,
		Name: m.Path, Version: m.Version, PackageURL: purl(m.Path, m.Version),
		Hashes: &[]cyclonedx.Hash{{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}},
	}, nil
}

// purl returns the package URL of a Go module (purl-spec, type golang).
func purl(path, version string) string {
	return "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
}
