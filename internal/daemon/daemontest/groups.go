package daemontest

// The groups of tools that the program ships: gateways run the test binary as the program.
import (
	_ "github.com/toolgate/toolgate/native/plugins/code"
	_ "github.com/toolgate/toolgate/native/plugins/fs"
	_ "github.com/toolgate/toolgate/native/plugins/system"
	_ "github.com/toolgate/toolgate/native/plugins/text"
	_ "github.com/toolgate/toolgate/native/plugins/web"
)
