package fs

import (
	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/native/group"
)

// Settings are the section native.fs: it serves files of some folders.
type Settings struct {
	// Folders whose files are served. Required.
	Roots []string `config:"roots" required:"true" format:"path"`
	// Folders in which files may be written and deleted; each is a root or inside one. Default: none.
	Write []string `config:"write" format:"path"`
	// Globs of paths that are never served; a glob without a slash applies in every folder. The gateway's own files are
	// always forbidden. Default: none.
	Forbidden []string `config:"forbidden"`
	// How much of a file one call reads or writes. Default: 10MiB.
	MaxBytes units.Size `config:"max_bytes" min:"1KiB" max:"1GiB"`
	// Serves files with several names (hard links), even though another name may be outside the roots. Default: false.
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
