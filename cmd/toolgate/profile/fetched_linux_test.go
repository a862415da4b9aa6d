//go:build amd64 || arm64

package profile_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolgate/toolgate/upstream"
)

// registry serves one package of npm: a server that needs nothing else.
func registry(t *testing.T) (url string) {
	t.Helper()
	var text bytes.Buffer
	zipped := gzip.NewWriter(&text)
	files := tar.NewWriter(zipped)
	script := strings.NewReplacer("const { name } = require('helper')", "const name = 'fetched'", "require('fs').readFileSync(process.env.TITLE, 'utf8').trim()", "'A title'").Replace(node)
	manifest := map[string]any{"name": "fetched-server", "version": "1.0.0", "bin": map[string]string{"fetched-server": "index.js"}}
	about, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"package.json": string(about), "index.js": "#!/usr/bin/env node\n" + script} {
		if err := files.WriteHeader(&tar.Header{Name: "package/" + name, Mode: 0o755, Size: int64(len(text))}); err != nil {
			t.Fatal(err)
		}
		if _, err := files.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := files.Close(); err != nil {
		t.Fatal(err)
	}
	if err := zipped.Close(); err != nil {
		t.Fatal(err)
	}
	sum := sha512.Sum512(text.Bytes())
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	manifest["dist"] = map[string]string{"tarball": server.URL + "/fetched-server.tgz", "integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:])}
	mux.HandleFunc("/fetched-server", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{"name": "fetched-server", "dist-tags": map[string]string{"latest": "1.0.0"}, "versions": map[string]any{"1.0.0": manifest}})
	})
	mux.HandleFunc("/fetched-server.tgz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(text.Bytes()) })
	return server.URL
}

// A server that npx downloads at its start is confined with the network, and may run what
// it has downloaded.
func TestServerThatIsFetched(t *testing.T) {
	program(t, "npx")
	p := newPlace(t)
	found, _, err := propose(t, p, fmt.Sprintf("{ command: npx, args: [-y, fetched-server], env: { npm_config_registry: %q, npm_config_update_notifier: \"false\" } }", registry(t)))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(upstream.Sandbox{Network: "full", RunOwn: true}, found.Sandbox, cmpopts.EquateEmpty()); diff != "" || found.Tools != 1 {
		t.Errorf("%d tools, (-want +got):\n%s", found.Tools, diff)
	}
	if text := found.YAML("srv"); !strings.Contains(text, "run_own: true") || !strings.Contains(text, "network: full") {
		t.Errorf("to be written:\n%s", text)
	}
}

// A launcher that has what it runs needs no network: it only runs what it has put into the
// private folder.
func TestServerThatIsUnpacked(t *testing.T) {
	program(t, "node")
	p := newPlace(t)
	script := strings.NewReplacer("const { name } = require('helper')", "const name = 'unpacked'", "require('fs').readFileSync(process.env.TITLE, 'utf8').trim()", "'A title'").Replace(node)
	launcher := p.write(t, "work/bin/uvx", "#!/bin/sh\ncat >$HOME/server <<'END'\n#!/usr/bin/env node\n"+script+"\nEND\nchmod +x $HOME/server\nexec $HOME/server\n")
	if err := os.Chmod(launcher, 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	found, _, err := propose(t, p, fmt.Sprintf("{ command: %q, args: [some-server] }", launcher))
	if err != nil {
		t.Fatal(err)
	}
	if !found.Sandbox.RunOwn || found.Sandbox.Network != "none" || found.Tools != 1 {
		t.Errorf("%+v", found)
	}
}
