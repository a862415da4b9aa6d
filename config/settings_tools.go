package config

import (
	"time"

	"github.com/toolgate/toolgate/native/declared"
)

// ToolFile is a file of declared tools.
type ToolFile struct {
	// Tools are the tools. Required.
	Tools []declared.Settings `config:"tools" required:"true"`
}

// ToolURL is the address of a document of declared tools.
type ToolURL struct {
	// URL of the document; https, unless it is of this machine or has a hash. Required.
	URL string `config:"url" required:"true" format:"url"`
	// SHA256 is the hash of the document in hex, so that no other is taken. Absent: a document that has changed waits for a reload,
	// and none has commands.
	SHA256 string `config:"sha256" format:"sha256"`
	// Refresh is how often it is asked for. Absent: at a start and at a reload.
	Refresh time.Duration `config:"refresh" min:"1s" max:"30d"`
}
