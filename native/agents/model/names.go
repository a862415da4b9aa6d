package model

import (
	"crypto/sha256"
	"encoding/base32"
	"slices"
	"strconv"
	"strings"
)

// Names are the names under which an endpoint knows the tools of a request. Endpoints take
// letters, digits, "_" and "-" alone, up to a length. A name that fits stays as it is. Any
// other is made to fit, and ends in a hash of the whole name. It is the same in each
// request, unless another tool has this very name.
type Names struct {
	most         int
	wire, origin map[string]string // of the names that do not fit; nil where all do
}

// NewNames returns the names of some tools. most is how long a name may be, and is at
// least 32.
func NewNames(tools []Tool, most int) *Names {
	n := &Names{most: max(most, hashLength*2)}
	var others []string
	for i := range tools {
		if name := tools[i].Name; !n.fits(name) {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return n
	}
	n.wire, n.origin = map[string]string{}, map[string]string{}
	taken := make(map[string]bool, len(tools))
	for i := range tools {
		taken[tools[i].Name] = true
	}
	slices.Sort(others)
	for _, name := range slices.Compact(others) {
		wire := n.fit(name, 0)
		for i := 1; taken[wire]; i++ {
			wire = n.fit(name, i)
		}
		taken[wire] = true
		n.wire[name], n.origin[wire] = wire, name
	}
	return n
}

// Wire returns the name of a tool on the wire. Tools that the request does not have, of
// earlier turns, get one as well.
func (n *Names) Wire(name string) string {
	if wire, ok := n.wire[name]; ok {
		return wire
	}
	if n.fits(name) {
		return name
	}
	return n.fit(name, 0)
}

// Tool returns the tool that a model has called by a name. A name that stands for no tool
// is returned as it is.
func (n *Names) Tool(wire string) string {
	if name, ok := n.origin[wire]; ok {
		return name
	}
	return wire
}

func (n *Names) fits(name string) bool {
	return name != "" && len(name) <= n.most && !strings.ContainsFunc(name, foreign)
}

func foreign(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
}

const hashLength = 16 // characters, of five bits each

// fit returns a name that fits, the same for the same name and number.
func (n *Names) fit(name string, number int) string {
	sum := sha256.Sum256([]byte(strconv.Itoa(number) + " " + name))
	hash := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
	var b strings.Builder
	for _, r := range name {
		if b.Len() == n.most-1-hashLength {
			break
		}
		if foreign(r) {
			r = '_'
		}
		b.WriteRune(r)
	}
	return b.String() + "_" + hash
}
