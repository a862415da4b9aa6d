package config

import (
	_ "embed"
	"slices"
)

//go:embed schema.json
var schema []byte

// Schema returns a JSON Schema (2020-12) of a toolgate file: strict under
// "toolgate", lenient about the clients' own keys. It is generated from the
// structs of this package by "go generate", and holds only what this version
// uses.
func Schema() []byte { return slices.Clone(schema) }
