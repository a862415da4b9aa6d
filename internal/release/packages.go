package main

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb" // registers the format
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm" // registers the format
)

//go:embed packaging
var scripts embed.FS

// formats are those of the packages for Linux.
var formats = []string{"deb", "rpm"}

// writePackage writes a package of a format. dir holds its files while it is made.
func writePackage(w io.Writer, format string, s source, p program, x extras, dir string) error {
	info := nfpm.WithDefaults(&nfpm.Info{ // 1.0.0-rc.1 becomes 1.0.0~rc.1, which is older than 1.0.0
		Name: "toolgate", Arch: p.platform.arch, Platform: p.platform.os,
		Version: s.version, Section: "net", Priority: "optional",
		Maintainer: "The toolgate authors <" + identity + ">", Vendor: "toolgate", Homepage: website, License: license,
		Description: about + "\nIt reads a client's own configuration file, runs every server in it, and\noffers all of them behind one URL or one process.",
		MTime:       s.time, DisableGlobbing: true,
	})
	info.Overridables.RPM.BuildHost = "localhost"
	info.Overridables.RPM.Summary = about
	info.Overridables.Umask = 0o022
	// Servers reach the world with the certificate authorities of the system.
	info.Overridables.Recommends = []string{"ca-certificates"}

	contents, err := packageFiles(p, x)
	if err != nil {
		return err
	}
	for i, f := range contents {
		path := filepath.Join(dir, fmt.Sprint(i))
		if f.name == "/usr/bin/toolgate" {
			path = p.path
		} else if err := os.WriteFile(path, f.data, 0o644); err != nil {
			return err
		}
		info.Overridables.Contents = append(info.Overridables.Contents, &files.Content{
			Source: path, Destination: f.name,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: os.FileMode(f.permissions()), MTime: s.time},
		})
	}
	for name, to := range map[string]*string{
		"postinstall.sh": &info.Overridables.Scripts.PostInstall,
		"preremove.sh":   &info.Overridables.Scripts.PreRemove,
		"postremove.sh":  &info.Overridables.Scripts.PostRemove,
	} {
		text, err := scripts.ReadFile("packaging/" + name)
		if err != nil {
			return err
		}
		*to = filepath.Join(dir, name)
		if err := os.WriteFile(*to, text, 0o755); err != nil {
			return err
		}
	}
	packager, err := nfpm.Get(format)
	if err != nil {
		return err
	}
	if err := nfpm.PrepareForPackager(info, format); err != nil {
		return err
	}
	return packager.Package(info, w)
}

// packageFiles returns what a package puts where. The program's data is read from its
// file.
func packageFiles(p program, x extras) ([]file, error) {
	unit := bytes.ReplaceAll(x.unit, []byte("/usr/local/bin/"), []byte("/usr/bin/"))
	all := []file{
		{name: "/usr/bin/toolgate", mode: 0o755},
		{name: "/usr/lib/systemd/system/toolgate.service", data: unit},
		{name: "/usr/share/bash-completion/completions/toolgate", data: x.completions["bash"]},
		{name: "/usr/share/zsh/site-functions/_toolgate", data: x.completions["zsh"]},
		{name: "/usr/share/fish/vendor_completions.d/toolgate.fish", data: x.completions["fish"]},
		{name: "/usr/share/doc/toolgate/THIRD-PARTY-LICENSES.txt", data: x.notices},
	}
	for _, d := range x.documents {
		name := d.name
		if name == "LICENSE" {
			name = "copyright" // where Debian looks
		}
		all = append(all, file{name: "/usr/share/doc/toolgate/" + name, data: d.data})
	}
	for _, page := range x.manual {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := z.Write(page.data); err != nil {
			return nil, err
		}
		if err := z.Close(); err != nil {
			return nil, err
		}
		all = append(all, file{name: "/usr/share/man/man1/" + page.name + ".gz", data: b.Bytes()})
	}
	return all, nil
}
