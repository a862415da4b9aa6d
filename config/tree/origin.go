package tree

import "fmt"

// OriginKind says which layer of the configuration gave a value.
type OriginKind uint8

// The layers, weakest first: a value of a later one wins.
const (
	OriginDefault OriginKind = iota + 1
	OriginFile
	OriginEnv
	OriginFlag
)

// Origin is where one value came from.
type Origin struct {
	Kind OriginKind
	// File and Line are set for OriginFile.
	File string
	Line int
	// Name is the variable or the flag for OriginEnv and OriginFlag.
	Name string
}

// String renders the origin as "config show --origin" prints it:
// "default", "toolgate.yaml:12", "env TOOLGATE_LISTEN_HTTP" or
// "flag listen.http".
func (o Origin) String() string {
	switch o.Kind {
	case OriginFile:
		return fmt.Sprintf("%s:%d", o.File, o.Line)
	case OriginEnv:
		return "env " + o.Name
	case OriginFlag:
		return "flag " + o.Name
	default:
		return "default"
	}
}

// OriginOf is the origin of a node of the named file.
func OriginOf(file string, n *Node) Origin {
	switch {
	case n == nil:
		return Origin{Kind: OriginDefault}
	case n.Origin != nil:
		return *n.Origin
	}
	return Origin{Kind: OriginFile, File: file, Line: n.Line}
}
