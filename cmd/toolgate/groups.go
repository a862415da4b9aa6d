package main

// The groups of tools that are shipped. Each is entered while its package is
// initialised, in a process that was started for it; to import it is all there is
// to do.
import (
	_ "github.com/toolgate/toolgate/native/plugins/code"
	_ "github.com/toolgate/toolgate/native/plugins/fs"
	_ "github.com/toolgate/toolgate/native/plugins/system"
	_ "github.com/toolgate/toolgate/native/plugins/text"
	_ "github.com/toolgate/toolgate/native/plugins/web"
)
