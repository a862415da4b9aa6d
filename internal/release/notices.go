package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

var isLicense = regexp.MustCompile(`(?i)^(licen[cs]es?|copying|copyright|notice|patents)([.-].*)?$`)

// notices returns the licences and notices of everything that is compiled into the
// programs, each text once. A module without one is an error: nobody may pass it on.
func notices(ctx context.Context, s source, programs []program) ([]byte, error) {
	modules := map[string]bool{}
	for _, p := range programs {
		for _, m := range p.info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path+"@"+m.Version] = true
		}
	}
	names := slices.Sorted(maps.Keys(modules))
	goroot, err := run(ctx, s.root, nil, "go", "env", "GOROOT")
	if err != nil {
		return nil, err
	}
	folders := map[string]string{"the Go standard library": strings.TrimSpace(goroot)}
	if len(names) > 0 {
		listed, err := run(ctx, s.root, nil, "go", append([]string{"mod", "download", "-json"}, names...)...)
		if err != nil {
			return nil, err
		}
		for d := json.NewDecoder(strings.NewReader(listed)); ; {
			var m struct{ Path, Version, Dir string }
			if err := d.Decode(&m); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				return nil, err
			}
			folders[m.Path+" "+m.Version] = m.Dir
		}
	}
	return joinNotices(folders)
}

// joinNotices joins the licences in folders, by the name of what is in each.
func joinNotices(folders map[string]string) ([]byte, error) {
	users := map[string][]string{} // by text
	var order []string
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folders[name])
		if err != nil {
			return nil, err
		}
		found := false
		for _, e := range entries {
			if e.IsDir() || !isLicense.MatchString(e.Name()) || strings.HasSuffix(e.Name(), ".go") {
				continue
			}
			data, err := os.ReadFile(filepath.Join(folders[name], e.Name()))
			if err != nil {
				return nil, err
			}
			text := string(bytes.TrimSpace(bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))))
			if users[text] == nil {
				order = append(order, text)
			}
			users[text] = append(users[text], name)
			found = true
		}
		if !found {
			return nil, fmt.Errorf("%s has no licence in %s: ask its authors, or do without it", name, folders[name])
		}
	}
	var b bytes.Buffer
	b.WriteString("toolgate contains the following software under the following terms.\n")
	for _, text := range order {
		fmt.Fprintf(&b, "\n%s\n%s\n\n%s\n", strings.Repeat("=", 78), strings.Join(users[text], "\n"), text)
	}
	return b.Bytes(), nil
}
