package declared

import (
	_ "embed"
	"encoding/json"
	"strings"

	"github.com/toolgate/toolgate/native/placeholder"
)

// callsFunction is a Python program that calls a function of a module with the arguments
// of a call.
//
//go:embed python.py
var callsFunction string

// Python returns the arguments of a Python interpreter with which it calls a function of a
// module in a folder, and what it then reads: the arguments of the call, as a JSON object.
// Nothing of the machine's or the user's own packages is imported, as by code__execute. No
// value is part of the program.
func Python(folder, module, function string) (args []string, stdin json.RawMessage) {
	args = []string{"-I", "-S", "-B", "-c", callsFunction, folder, module, function}
	braces := strings.NewReplacer("{", "{{", "}", "}}")
	for i := range args {
		args[i] = braces.Replace(args[i])
	}
	return args, json.RawMessage(`"{` + placeholder.Whole + `}"`)
}
