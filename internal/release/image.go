package main

import (
	"bytes"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

const (
	imageFile = "toolgate_oci.tar"
	imageName = "localhost/toolgate" // where it is loaded; a registry gives it another name
	imageUser = 65532                // the nonroot of distroless
)

// writeImage writes an image index with one image for each program, as the archive of an
// OCI layout (image-layout.md). dir holds the layout while it is made.
func writeImage(w io.Writer, s source, programs []program, x extras, dir string) error {
	base, err := baseLayer(s.time)
	if err != nil {
		return err
	}
	var index v1.ImageIndex = mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range programs {
		image, err := newImage(s, p, x, base)
		if err != nil {
			return fmt.Errorf("%s: %w", p.platform, err)
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add:        image,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: p.platform.os, Architecture: p.platform.arch}},
		})
	}
	written, err := layout.Write(dir, empty.Index)
	if err != nil {
		return err
	}
	if err := written.AppendIndex(index, layout.WithAnnotations(map[string]string{
		"org.opencontainers.image.ref.name": s.version,
		"io.containerd.image.name":          imageName + ":" + s.version,
	})); err != nil {
		return err
	}
	files, err := folder(dir)
	if err != nil {
		return err
	}
	return writeTar(w, files, s.time)
}

func newImage(s source, p program, x extras, base v1.Layer) (v1.Image, error) {
	binary, err := os.ReadFile(p.path)
	if err != nil {
		return nil, err
	}
	own, err := layer(s.time, []file{
		{name: "usr/"},
		{name: "usr/bin/"},
		{name: "usr/bin/toolgate", data: binary, mode: 0o755},
		{name: "usr/share/"},
		{name: "usr/share/doc/"},
		{name: "usr/share/doc/toolgate/"},
		{name: "usr/share/doc/toolgate/THIRD-PARTY-LICENSES.txt", data: x.notices},
		{name: "usr/share/doc/toolgate/LICENSE", data: x.documents[0].data},
	})
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(
		mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON),
		mutate.Addendum{Layer: base, History: v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "certificate authorities, users and folders"}},
		mutate.Addendum{Layer: own, History: v1.History{Created: v1.Time{Time: s.time}, CreatedBy: "toolgate " + s.version}},
	)
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.platform.os, p.platform.arch, v1.Time{Time: s.time}
	config.Config = v1.Config{
		User:         fmt.Sprintf("%d:%d", imageUser, imageUser),
		Env:          []string{"PATH=/usr/bin", "HOME=/home/nonroot", "TOOLGATE_STATE=/var/lib/toolgate", "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
		Entrypoint:   []string{"/usr/bin/toolgate"},
		Cmd:          []string{"up", "/etc/toolgate/toolgate.yaml"},
		WorkingDir:   "/home/nonroot",
		ExposedPorts: map[string]struct{}{"7777/tcp": {}, "7779/tcp": {}},
		Volumes:      map[string]struct{}{"/var/lib/toolgate": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title":       "toolgate",
			"org.opencontainers.image.description": about,
			"org.opencontainers.image.version":     s.version,
			"org.opencontainers.image.revision":    s.revision,
			"org.opencontainers.image.source":      website,
			"org.opencontainers.image.licenses":    license,
			"org.opencontainers.image.created":     s.time.Format(time.RFC3339),
		},
		// Docker alone knows this; Kubernetes asks /readyz instead.
		Healthcheck: &v1.HealthConfig{
			Test:     []string{"CMD", "/usr/bin/toolgate", "healthcheck", "http://127.0.0.1:7777"},
			Interval: 10 * time.Second, Timeout: 4 * time.Second, StartPeriod: 10 * time.Second,
		},
	}
	return mutate.ConfigFile(image, config)
}

// baseLayer is what a program expects of a system: certificate authorities, a user
// without rights, a folder for temporary files and one for its state.
func baseLayer(at time.Time) (v1.Layer, error) {
	roots, err := authorities()
	if err != nil {
		return nil, err
	}
	return layer(at, []file{
		{name: "dev/"}, // these three are what a runtime mounts on
		{name: "proc/", mode: 0o555},
		{name: "sys/", mode: 0o555},
		{name: "etc/"},
		{name: "etc/passwd", data: fmt.Appendf(nil, "root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:%d:%d:nonroot:/home/nonroot:/sbin/nologin\n", imageUser, imageUser)},
		{name: "etc/group", data: fmt.Appendf(nil, "root:x:0:\nnonroot:x:%d:\n", imageUser)},
		{name: "etc/ssl/"},
		{name: "etc/ssl/certs/"},
		{name: "etc/ssl/certs/ca-certificates.crt", data: roots},
		{name: "etc/toolgate/"},
		{name: "home/"},
		{name: "home/nonroot/", mode: 0o700, owner: imageUser},
		{name: "tmp/", mode: 0o1777},
		{name: "var/"},
		{name: "var/lib/"},
		{name: "var/lib/toolgate/", mode: 0o700, owner: imageUser},
	})
}

// authorities returns the certificate authorities that Mozilla trusts, without those
// that it trusts in part, which a file cannot say.
func authorities() ([]byte, error) {
	var b bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint != nil {
			continue
		}
		if err := pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

// layer returns a compressed layer with files.
func layer(at time.Time, files []file) (v1.Layer, error) {
	var b bytes.Buffer
	if err := writeTarGz(&b, files, at); err != nil {
		return nil, err
	}
	return tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(b.Bytes())), nil
	}, tarball.WithMediaType(types.OCILayer))
}

// folder reads all files of a folder.
func folder(dir string) ([]file, error) {
	var all []file
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		all = append(all, file{name: filepath.ToSlash(name), data: data})
		return err
	})
	return all, err
}
