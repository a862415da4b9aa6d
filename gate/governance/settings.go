package governance

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolgate/toolgate/config/tree"
	"github.com/toolgate/toolgate/config/units"
	"github.com/toolgate/toolgate/gate"
)

// Settings are the rules about calls and their arguments that an operator writes, and the
// operating mode that they begin with.
type Settings struct {
	// Operating mode at the first start; later the store keeps it. Default: NORMAL.
	Mode Mode `config:"mode" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// Whether path arguments may lead to the gateway's own files: configuration, policies, store, audit log, keys.
	// Default: forbid, with and without authentication.
	OwnFiles string `config:"own_files" enum:"forbid|allow"`
	// Rules by exposed name or glob. Default: none.
	Tools map[string]Tool `config:"tools"`
	// Rules by category, for all tools of it, whoever says that they are in it. They only restrict: a class here can only
	// make that of a tool stricter. Default: none.
	Categories map[string]Tool `config:"categories"`
}

// Tool is a rule about the calls of some tools. All rules that match a tool have to
// let a call pass, and the highest of their risks is the tool's.
type Tool struct {
	// Risk of a call. Default: unknown, which LOCKDOWN refuses.
	Risk Risk `config:"risk" enum:"low|medium|high"`
	// What the tool does. Hints of its server can only make the class stricter. Default: destructive, unless the
	// annotations of the tool under servers say otherwise.
	Class string `config:"class" enum:"read_only|write|destructive"`
	// A word to group tools by. Default: none.
	Category string `config:"category"`
	// Marks an expensive tool, which mode DEGRADED refuses. Default: false.
	HighCost bool `config:"high_cost"`
	// JSON Pointers of the arguments that are paths; the token * matches any key or index. [] is an error. Default:
	// every string argument whose name or format contains path, file, dir, root, source, destination or uri, and every
	// member name that is a path itself.
	PathsIn []string `config:"paths_in"`
	// Globs, one of which every path must match. Relative globs start at the folder of the file, and [] allows no path.
	// Default: any path.
	AllowedPaths []string `config:"allowed_paths"`
	// Globs that no path may match or be below. ./name starts at the folder of the file; a bare name matches anywhere.
	// Default: none.
	ForbiddenPaths []string `config:"forbidden_paths"`
	// How upper and lower case in paths are compared. Default: fold for forbidden paths, exact for allowed ones.
	Case Case `config:"case" enum:"exact|fold"`
	// Largest size of the arguments. Default: limits.body.
	MaxBytes units.Size `config:"max_bytes"`
	// Rules for arguments that are command lines. Default: none.
	Commands []Commands `config:"commands"`
	// Rules for the text of arguments. Default: none.
	Patterns []Pattern `config:"patterns"`
	// Whether a person must approve every call. Default: false.
	RequiresApproval bool `config:"requires_approval"`
	// Modes in which a person must approve the call. Default: none.
	RequiresApprovalInModes []Mode `config:"requires_approval_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// Modes in which the tool cannot be called. Default: none.
	ForbiddenInModes []Mode `config:"forbidden_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
	// Modes in which the tool can be called, besides those in which a person must approve the call. Default: all.
	AllowedInModes []Mode `config:"allowed_in_modes" enum:"NORMAL|ALERT|DEGRADED|LOCKDOWN|RECOVERY"`
}

// Synonym implements [decode.Synonyms] for the words of other governance files.
func (t *Tool) Synonym(key string, value *tree.Node) (setting string, as *tree.Node, hint string) {
	const elsewhere = " under servers.NAME.tools.TOOL, or in the declaration of the tool"
	switch key {
	case "risk_level":
		return "risk", value, ""
	case "allowed_modes":
		return "allowed_in_modes", value, ""
	case "max_file_size_mb":
		size := *value
		if size.Kind == tree.KindNumber {
			size.Kind, size.Value = tree.KindString, value.Value+"MB"
		}
		return "max_bytes", &size, ""
	case "timeout_seconds":
		return "", nil, "write timeout: " + value.Value + "s" + elsewhere
	case "rate_limit_per_hour":
		return "", nil, "write it" + elsewhere
	case "requires_sandbox":
		return "", nil, "write sandbox: required in the declaration of the tool, or under native and plugins"
	}
	return "", nil, ""
}

// Check implements [decode.Checker]: it refuses rules that leave their own arguments
// unread.
func (s *Settings) Check(p *tree.Problems, n *tree.Node, path string) {
	for key, rules := range map[string]map[string]Tool{"tools": s.Tools, "categories": s.Categories} {
		written := n.Get(key).ByKey()
		for _, match := range slices.Sorted(maps.Keys(rules)) {
			own, at := rules[match], tree.Join(path, key+"."+match)
			if own.PathsIn != nil && len(own.PathsIn) == 0 {
				p.At(written[match].Value.Get("paths_in"), at+".paths_in",
					"leave it out, so that paths are found by their names, or take allowed_paths and forbidden_paths away", "an empty list leaves all paths unread")
			}
			if key == "categories" && own.Category != "" {
				p.At(written[match].Value.Get("category"), at+".category", "remove it", "these rules are for the category %s already", match)
			}
		}
	}
}

// Rules returns the rules, sorted by what they match. Relative paths are resolved
// against a folder; an empty folder leaves them. at returns where the first value
// below a path of the section is written.
func (s *Settings) Rules(folder string, at func(path string) gate.Rule) []Rule {
	var rules []Rule
	add := func(r Rule) {
		r.AllowedPaths, r.ForbiddenPaths = inFolder(folder, r.AllowedPaths, false), inFolder(folder, r.ForbiddenPaths, true)
		rules = append(rules, r)
	}
	for _, match := range slices.Sorted(maps.Keys(s.Tools)) {
		add(Rule{Match: match, At: at("tools." + match), Tool: s.Tools[match]})
	}
	for _, category := range slices.Sorted(maps.Keys(s.Categories)) {
		add(Rule{InCategory: category, At: at("categories." + category), Tool: s.Categories[category]})
	}
	return rules
}

// inFolder resolves relative globs against a folder; nil stays nil. A forbidding glob
// that does not begin with a dot matches in any folder, and so does one that begins
// with **.
func inFolder(dir string, globs []string, forbid bool) []string {
	if globs == nil || dir == "" {
		return globs
	}
	out := make([]string, len(globs))
	for i, glob := range globs {
		slashed := strings.ReplaceAll(glob, `\`, "/")
		relative := strings.HasPrefix(slashed, "./") || strings.HasPrefix(slashed, "../") || slashed == "." || slashed == ".."
		relative = relative || !forbid && !anchored(slashed)
		out[i] = glob
		if relative {
			out[i] = filepath.ToSlash(Literal(resolved(dir, &slashed)))
			if slashed != "" {
				out[i] += "/" + slashed
			}
		}
	}
	return out
}

// resolved returns the folder of a relative glob, and leaves the rest in glob.
func resolved(dir string, glob *string) string {
	for {
		switch first, rest, _ := strings.Cut(*glob, "/"); first {
		case ".":
			*glob = rest
		case "..":
			dir, *glob = filepath.Dir(dir), rest
		default:
			return dir
		}
	}
}

// anchored tells whether a glob has its own starting point: a root, the home
// directory, a host, or anywhere.
func anchored(glob string) bool {
	for _, prefix := range []string{"/", "~", "$HOME", "${HOME}", "**"} {
		if strings.HasPrefix(glob, prefix) {
			return true
		}
	}
	return strings.Contains(glob, "://") || len(glob) > 1 && glob[1] == ':'
}

// Literal writes a path as a glob that matches only it.
func Literal(path string) string {
	return strings.NewReplacer("*", "[*]", "?", "[?]", "[", "[[]", "$", "[$]", "%", "[%]", "~", "[~]").Replace(path)
}
