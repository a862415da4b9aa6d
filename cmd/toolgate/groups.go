package main

// The groups of tools that come with toolgate. Each registers itself while its package is
// initialised, in a process that was started for it. The import is all that is needed.
import (
	_ "github.com/toolgate/toolgate/native/plugins/code"
	_ "github.com/toolgate/toolgate/native/plugins/fs"
	_ "github.com/toolgate/toolgate/native/plugins/system"
	_ "github.com/toolgate/toolgate/native/plugins/text"
	_ "github.com/toolgate/toolgate/native/plugins/web"
)
