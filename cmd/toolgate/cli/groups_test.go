package cli

// The groups of tools that the program ships: tests run this test binary as the program.
import (
	_ "github.com/toolgate/toolgate/native/plugins/code"
	_ "github.com/toolgate/toolgate/native/plugins/fs"
	_ "github.com/toolgate/toolgate/native/plugins/system"
	_ "github.com/toolgate/toolgate/native/plugins/text"
	_ "github.com/toolgate/toolgate/native/plugins/web"
)
