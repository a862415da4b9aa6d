package declared

import "time"

// File is a document of declared tools.
type File struct {
	// The declared tools. Required.
	Tools []Settings `config:"tools" required:"true"`
}

// Address is where a document of declared tools is fetched from.
type Address struct {
	// URL of the document: https, unless it is on this machine or sha256 is set. Required.
	URL string `config:"url" required:"true" format:"url"`
	// SHA-256 of the document; any other document is refused. Default: none; a changed document then waits for a reload,
	// and commands in it are refused.
	SHA256 string `config:"sha256" format:"sha256"`
	// How often the document is fetched. Default: at start and at each reload.
	Refresh time.Duration `config:"refresh" min:"1s" max:"30d"`
}
