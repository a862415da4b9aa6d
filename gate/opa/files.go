package opa

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// File is a file of a policy: a policy, a data file, or the manifest of a bundle.
type File struct {
	Name string `json:"name"` // slash-separated, relative to the root of the policy
	Data []byte `json:"data"`
}

// IsModule tells whether a file is one with rules that decide, which tests are not.
func (f File) IsModule() bool {
	return path.Ext(f.Name) == ".rego" && !strings.HasSuffix(f.Name, testSuffix)
}

// ReadFiles returns the files of a policy in a directory, or in a bundle on disk.
func ReadFiles(path string) ([]File, error) {
	src, err := readPath(path)
	if err != nil {
		return nil, err
	}
	return src.list(), nil
}

// list returns the files of a source.
func (s *source) list() []File {
	files := make([]File, len(s.files))
	for i, f := range s.files {
		files[i] = File{Name: f.name, Data: f.data}
	}
	return files
}

// Loaded returns the files of the policy in force, in the order of their names, and the
// gateway's part of its data. ok is false where no policy is evaluated in this process.
// Nobody may change what is returned.
func (p *Phase) Loaded() (files []File, data Data, ok bool) {
	now := p.current.Load()
	if now == nil {
		return nil, Data{}, false
	}
	return now.source.list(), dataOf(now.gateway), true
}

// sourceOf makes a source of files that were handed in.
func sourceOf(files []File) (*source, error) {
	seen, size := map[string]bool{}, 0
	of := make([]sourceFile, len(files))
	for i, f := range files {
		wanted, err := isPolicyFile(f.Name)
		switch {
		case !fs.ValidPath(f.Name):
			return nil, fmt.Errorf("%q is not the name of a file of a policy; write one such as policy.rego", f.Name)
		case err != nil:
			return nil, err
		case !wanted:
			return nil, fmt.Errorf("%s is no file of a policy; its name ends in .rego, or is data.json", f.Name)
		case seen[f.Name]:
			return nil, fmt.Errorf("%s is there twice", f.Name)
		}
		if size += len(f.Data); len(files) > maxFiles || size > maxSource {
			return nil, errTooMuch
		}
		seen[f.Name] = true
		of[i] = sourceFile{name: f.Name, show: f.Name, data: f.Data}
	}
	return newSource(of, nil), nil
}

// MarshalJSON implements [json.Marshaler]: the data as policies see them.
func (d Data) MarshalJSON() ([]byte, error) { return json.Marshal(d.members()) }

// UnmarshalJSON implements [json.Unmarshaler], with exact numbers. Members that the
// gateway does not know are left out.
func (d *Data) UnmarshalJSON(raw []byte) error {
	v, err := decodeJSON(raw)
	if err != nil {
		return fmt.Errorf("data: %w", err)
	}
	m, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("data is %s and must be an object", kindOf(v))
	}
	if err := checkShapes(m, func(string) string { return "" }); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	*d = dataOf(m)
	return nil
}
