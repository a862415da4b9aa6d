package config

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
)

// maxNamespace is the longest namespace, in bytes.
const maxNamespace = 20

// ErrNamespace is that two servers have one namespace.
var ErrNamespace = errors.New("two servers have one namespace")

// Namespace derives a server's namespace from its key: lower case, every other
// character a dash. A key that does not begin with a letter gets an "s" before
// it. One that is too long or has no letter or digit at all ends in five
// characters of its hash, so that similar long keys stay apart without knowing
// of each other.
func Namespace(key string) string {
	var b strings.Builder
	solid := false
	for _, r := range strings.ToLower(key) {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			b.WriteRune(r)
			solid = true
		} else {
			b.WriteByte('-')
		}
	}
	ns := strings.TrimLeft(b.String(), "-")
	if ns == "" || ns[0] < 'a' {
		ns = "s" + ns
	}
	if solid && len(ns) <= maxNamespace {
		return ns
	}
	sum := sha256.Sum256([]byte(key))
	tail := "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:])[:5])
	return strings.TrimRight(ns[:min(len(ns), maxNamespace-len(tail))], "-") + tail
}

// checkNamespaces reports namespaces that two servers share. Disabled and
// refused servers count, because a file that becomes wrong by fixing a server
// would be a trap.
func checkNamespaces(p *tree.Problems, servers []Server, settings *tree.Node) {
	byLine := slices.Clone(servers)
	slices.SortStableFunc(byLine, func(a, b Server) int { return cmp.Compare(a.Line, b.Line) })
	first := map[string]Server{}
	for _, s := range byLine {
		if s.Namespace == reservedNamespace || s.Key == reservedNamespace {
			own := &tree.Problems{File: cmp.Or(s.File, p.File)}
			own.At(&tree.Node{Line: s.Line}, "servers."+s.Key, "give the server another name", "the name %s is that of toolgate's own tools", reservedNamespace)
			p.List = append(p.List, own.List...)
		}
		other, taken := first[s.Namespace]
		if !taken {
			first[s.Namespace] = s
			continue
		}
		at, file := &tree.Node{Line: s.Line, Column: 1}, s.File
		if n := settings.Get(s.Key).Get("namespace"); n != nil {
			at, file = n, p.File
		}
		own := &tree.Problems{File: cmp.Or(file, p.File)}
		own.At(at, "servers."+s.Key+".namespace", "set another one in toolgate.servers."+s.Key+".namespace",
			"the servers %q (%s) and %q (%s) both have the namespace %q", other.Key, placeIn(own.File, other.File, other.Line), s.Key, placeIn(own.File, s.File, s.Line), s.Namespace)
		own.Because(ErrNamespace)
		p.List = append(p.List, own.List...)
	}
}
