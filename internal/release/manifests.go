package main

import (
	"bytes"
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"text/template"
)

//go:embed templates
var templates embed.FS

// manifests are the files for package managers that fetch the archives of a release.
var manifests = []struct{ template, file string }{
	{"toolgate.rb", "homebrew/toolgate.rb"},
	{"version.yaml", "winget/toolgate.toolgate.yaml"},
	{"installer.yaml", "winget/toolgate.toolgate.installer.yaml"},
	{"locale.yaml", "winget/toolgate.toolgate.locale.en-US.yaml"},
}

// asset is an archive of a release.
type asset struct{ URL, SHA256 string }

// writeManifests writes the manifests for the archives whose hashes are given by name.
func writeManifests(dir string, s source, sums map[string]string) error {
	assets := map[string]asset{}
	for _, p := range platforms {
		if sum, ok := sums[p.archive()]; ok {
			assets[p.os+"_"+p.arch] = asset{website + "/releases/download/v" + s.version + "/" + p.archive(), sum}
		}
	}
	t, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{"upper": strings.ToUpper, "list": func(words ...string) []string { return words }}).ParseFS(templates, "templates/*")
	if err != nil {
		return err
	}
	for _, m := range manifests {
		var b bytes.Buffer
		if err := t.ExecuteTemplate(&b, m.template, map[string]any{
			"Version": s.version, "Date": s.time.Format("2006-01-02"), "Website": website, "About": about, "License": license, "Assets": assets,
		}); err != nil {
			return fmt.Errorf("%s: %w", m.file, err)
		}
		path := filepath.Join(dir, filepath.FromSlash(m.file))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			return err
		}
	}
	return nil
}
