// Command toolgate is a gateway between MCP clients and everything that they
// can call.
package main

import (
	"os"

	"github.com/toolgate/toolgate/cmd/toolgate/cli"
)

func main() { os.Exit(cli.Main()) }
