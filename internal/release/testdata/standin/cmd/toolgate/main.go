// Command toolgate stands in for the real one, where a release is made in a test.
package main

import (
	"os"

	"github.com/toolgate/toolgate/internal/version"
)

func main() {
	switch os.Args[1] {
	case "--version":
		os.Stdout.WriteString("toolgate " + version.Version + "\n")
	case "man":
		if os.Mkdir(os.Args[2], 0o755) != nil || os.WriteFile(os.Args[2]+"/toolgate.1", []byte(".TH toolgate 1\n"), 0o644) != nil {
			os.Exit(1)
		}
	case "completion":
		os.Stdout.WriteString("complete " + os.Args[2] + "\n")
	default:
		os.Exit(2)
	}
}
