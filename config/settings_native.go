package config

import "encoding/json"

// Native is the built-in and plug-in tools.
type Native struct {
	// FS serves files. Absent: off.
	FS map[string]json.RawMessage `config:"fs"`
	// System serves facts about this machine. Absent: off.
	System map[string]json.RawMessage `config:"system"`
	// Web fetches pages. Absent: off.
	Web map[string]json.RawMessage `config:"web"`
	// Util serves text tools. Absent: off.
	Util map[string]json.RawMessage `config:"util"`
	// Plugins are further programs, by name. Absent: none.
	Plugins map[string]Plugin `config:"plugins"`
}

// Plugin is one program that serves tools.
type Plugin struct {
	// Path of the program. Required.
	Path string `config:"path" required:"true" format:"path"`
	// SHA256 of the program in hex. Required.
	SHA256 string `config:"sha256" required:"true" format:"sha256"`
}

// DeclaredTool is a tool declared in the file.
type DeclaredTool struct {
	// Name of the tool. Required.
	Name string `config:"name" required:"true"`
	// Type is what calling it does. Required.
	Type string `config:"type" required:"true" enum:"http|command"`
	// Method of the request. Absent: GET.
	Method string `config:"method"`
	// URL of the request. Required for http.
	URL string `config:"url"`
	// InputSchema is the JSON Schema of its arguments. Absent: none.
	InputSchema json.RawMessage `config:"input_schema"`
}
