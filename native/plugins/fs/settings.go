package fs

import (
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are the section native.fs: it serves files of some folders.
type Settings struct {
	// Roots are the folders whose files are served. Required.
	Roots []string `config:"roots" required:"true" format:"path"`
	// Write are the folders, roots or in roots, in which files may be written and deleted. Absent: none.
	Write []string `config:"write" format:"path"`
	// Forbidden are globs of paths that are not served, whatever the roots; one without a slash holds in every folder.
	// The gateway's own files always are among them. Absent: those alone.
	Forbidden []string `config:"forbidden"`
	// MaxBytes is how much of a file one call reads or writes. Absent: 10MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"1GiB"`
	// HardLinks serves files that have further names, which may be outside of the roots. Absent: false.
	HardLinks bool `config:"hard_links"`
	group.Confined
}

// Check implements [decode.Checker].
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	if len(s.Roots) == 0 && !n.Get("roots").IsNull() {
		p.At(n.Get("roots"), tree.Join(path, "roots"), "write the folders whose files are served", "is required and empty")
	}
	group.CheckInside(p, n.Get("write"), tree.Join(path, "write"), s.Write, s.Roots)
}

// Child implements [group.Settings].
func (s *Settings) Child(g *group.Gateway) group.Child {
	child := group.Child{Policy: s.Policy(), Config: Config{
		Roots: s.Roots, Write: s.Write, Own: g.Own, Fixed: g.Started(), Forbidden: s.Forbidden, HardLinks: s.HardLinks, MaxBytes: int64(s.MaxBytes),
	}}
	child.Policy.Read, child.Policy.Write = s.Roots, s.Write
	return child
}
