package governance

import (
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// reading is one way in which a program may read a text as a path.
type reading struct {
	absolute bool
	segments []string // cleaned: none empty, no ".", ".." only in front
	folded   []string // the segments by [foldCase]
	// remote is set for URLs of other machines. Their first two segments are the scheme
	// with its colon and the host.
	remote bool
	// loose is set where separators, full-width characters and trailing dots were read
	// as on Windows.
	loose bool
	// weak is set for readings that hardly any program uses. A weak reading denies
	// where it is forbidden, but does not need to be allowed.
	weak bool
}

func (r reading) String() string {
	text := strings.Join(r.segments, "/")
	if r.remote {
		return strings.Replace(text, "/", "//", 1)
	}
	if r.absolute && !(len(r.segments) > 0 && isDrive(r.segments[0])) {
		text = "/" + text
	}
	return text
}

// climbs tells whether a reading leads out of its starting folder.
func (r reading) climbs() bool { return len(r.segments) > 0 && r.segments[0] == ".." }

var (
	scheme   = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+:`)
	drive    = regexp.MustCompile(`^[A-Za-z]:($|[/\\])`)
	variable = regexp.MustCompile(`\$[({]|^\$[A-Za-z_]|^%[A-Za-z_][A-Za-z0-9_()]*%|^~[A-Za-z_][A-Za-z0-9_-]*($|[/\\])` +
		// Elsewhere in a text, files have such names in lower case.
		`|\$([A-Z_][A-Z0-9_]*|(?i:HOME))($|[^A-Za-z0-9_])|%[A-Z_][A-Z0-9_()]*%`)
	unset    = regexp.MustCompile(`\$[A-Za-z_][A-Za-z0-9_]*`)
	homeName = regexp.MustCompile(`(?i)^(~|\$HOME|\$\{HOME\}|%HOME%|%USERPROFILE%|\$env:HOME|\$env:USERPROFILE|\$\{env:HOME\})($|[/\\])`)
)

// remotes are the schemes of remote resources.
var remotes = map[string]bool{"http": true, "https": true, "ws": true, "wss": true}

// maxSchemes is how many schemes are removed from one text, such as
// view-source:file:///x.
const maxSchemes = 4

// maxStages is how many texts decoding may produce from one.
const maxStages = 32

// readings returns all ways to read a text. The error says why it cannot be read.
func readings(text, home string) ([]reading, error) {
	decoded, err := stages(text)
	if err != nil {
		return nil, err
	}
	var all []reading
	for i := 0; i < len(decoded); i++ { // more may come
		if narrowed := narrow(decoded[i]); narrowed != decoded[i] {
			more, err := stages(narrowed)
			if err != nil {
				return nil, err
			}
			if decoded = append(decoded, more...); len(decoded) > maxStages {
				return nil, fmt.Errorf("can be read in more than %d ways", maxStages)
			}
		}
		for _, one := range braces(decoded[i]) {
			more, err := stages(one)
			if err != nil {
				return nil, err
			}
			if decoded = append(decoded, more...); len(decoded) > maxStages {
				return nil, fmt.Errorf("can be read in more than %d ways", maxStages)
			}
		}
		more, err := bodies(decoded[i], home)
		if err != nil {
			return nil, err
		}
		all = append(all, more...)
		for _, inner := range unwrapped(decoded[i]) {
			more, err := bodies(inner, home)
			if err != nil {
				return nil, err
			}
			all = append(all, weaken(more)...)
		}
	}
	for i, r := range all {
		all[i].folded = make([]string, len(r.segments))
		for j, segment := range r.segments {
			all[i].folded[j] = foldCase(segment)
		}
	}
	return all, nil
}

// bodies reads one stage: as a path, and as a URI where it is one.
func bodies(text, home string) ([]reading, error) {
	// Some programs trim their arguments, and some narrow them first.
	text = strings.TrimSpace(text)
	named := ""
	if strings.Contains(text, ":") {
		named = scheme.FindString(text)
	}
	if remotes[strings.ToLower(strings.TrimSuffix(named, ":"))] {
		r, err := remote(text)
		if err != nil {
			return nil, err
		}
		return append(leaving(text, named), r), nil
	}
	var all []reading
	if named != "" || strings.ContainsAny(text, "~$%") && homeName.MatchString(text) {
		all = weaken(local(text))
	}
	rest := []string{text}
	for i := 0; named != "" && i < maxSchemes; i++ {
		named := scheme.FindString(rest[0])
		if named == "" {
			break
		}
		rest = authority(rest[0][len(named):])
	}
	if named != "" && scheme.MatchString(rest[0]) {
		return nil, fmt.Errorf("has more than %d schemes", maxSchemes)
	}
	for _, body := range rest {
		expanded, err := expand(body, home)
		if err != nil {
			return nil, err
		}
		all = append(all, local(expanded)...)
		if without := unset.ReplaceAllString(expanded, ""); without != expanded { // as a shell has it
			all = append(all, weaken(local(without))...)
		}
	}
	return all, nil
}

// leaving handles URLs whose ".." lead out of the folder named by the scheme. It
// returns what programs that mistake the URL for a path make of it.
func leaving(text, scheme string) []reading {
	return slices.DeleteFunc(weaken(local(text)), func(r reading) bool {
		return len(r.segments) > 0 && strings.EqualFold(strings.TrimSuffix(r.segments[0], ":"), strings.TrimSuffix(scheme, ":"))
	})
}

func weaken(all []reading) []reading {
	for i := range all {
		all[i].weak = true
	}
	return all
}

// authority removes the host, query and fragment from the text after a scheme.
// Programs differ in how they read each, so all forms count.
func authority(rest string) []string {
	forms := []string{rest}
	if after, ok := strings.CutPrefix(strings.ReplaceAll(rest, `\`, "/"), "//"); ok {
		host, path, _ := strings.Cut(after, "/")
		forms = []string{"/" + path}
		switch strings.ToLower(host) {
		case "", "localhost", "127.0.0.1", "[::1]", ".", "?":
		default:
			forms = append(forms, "/"+after) // a forgotten slash, or another machine
		}
	}
	for _, form := range forms {
		if i := strings.IndexAny(form, "?#"); i >= 0 {
			forms = append(forms, form[:i])
		}
	}
	for i, form := range forms {
		if len(form) > 1 && drive.MatchString(form[1:]) {
			forms[i] = form[1:] // file:///C:/x
		}
	}
	return forms
}

// expand replaces the home directory.
func expand(text, home string) (string, error) {
	if !strings.ContainsAny(text, "~$%") {
		return text, nil
	}
	trimmed := strings.TrimLeft(text, " ")
	if m := homeName.FindStringSubmatchIndex(trimmed); m != nil {
		if home == "" {
			return "", fmt.Errorf("names the home directory, which is not known here")
		}
		trimmed = home + trimmed[m[3]:]
		text = trimmed
	}
	if name := variable.FindString(trimmed); name != "" {
		return "", fmt.Errorf("names a variable or a home directory (%s) that is not known here", name)
	}
	return text, nil
}

// remote reads a URL.
func remote(text string) (reading, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || strings.Contains(text, `\`):
		return reading{}, fmt.Errorf("is not a URL that is read in one way only")
	case u.User != nil:
		return reading{}, fmt.Errorf("is a URL with a user name")
	}
	path := clean(strings.Split(u.EscapedPath(), "/"), true)
	host := strings.TrimSuffix(strings.ToLower(u.Host), ".")
	return reading{absolute: true, remote: true, segments: append([]string{strings.ToLower(u.Scheme) + ":", host}, path...)}, nil
}

// local reads a path both ways: strictly as Unix does and loosely as Windows does.
func local(text string) []reading {
	windows := drive.MatchString(text) || strings.HasPrefix(text, `\\`)
	strict := reading{absolute: strings.HasPrefix(text, "/"), weak: windows}
	strict.segments = unalias(clean(strings.Split(text, "/"), strict.absolute), strict.absolute)
	all := []reading{strict, loosely(text)}
	if r, ok := followed(text); ok {
		all = append(all, r)
	}
	return all
}

// followed resolves "." and ".." as the kernel does where a path contains the kernel's
// own links, to a root or to an unknown folder. ok is false where it contains none.
func followed(text string) (r reading, ok bool) {
	r.absolute = strings.HasPrefix(text, "/")
	for segment := range strings.SplitSeq(text, "/") {
		r.segments = step(r.segments, segment, r.absolute)
		if root, link := kernelLink(r.segments); r.absolute && link {
			r, ok = reading{absolute: root}, true
		}
	}
	return r, ok
}

// kernelLink tells whether an absolute path is a kernel link to a folder, and whether
// that folder is a root.
func kernelLink(segments []string) (root, link bool) {
	n := len(segments)
	if n == 3 && segments[0] == "dev" && segments[1] == "fd" {
		return false, true
	}
	if n < 3 || segments[0] != "proc" {
		return false, false
	}
	of := segments[2:]
	if len(of) > 2 && of[0] == "task" {
		of = of[2:]
	}
	switch {
	case len(of) == 1 && of[0] == "root":
		return true, true
	case len(of) == 1 && of[0] == "cwd", len(of) == 2 && of[0] == "fd":
		return false, true
	}
	return false, false
}

func loosely(text string) reading {
	text = strings.ReplaceAll(narrow(strings.TrimSpace(text)), `\`, "/")
	for _, device := range []string{"//?/", "//./", "/??/"} {
		text = strings.TrimPrefix(text, device)
	}
	r := reading{absolute: strings.HasPrefix(text, "/"), loose: true}
	var volume []string
	if len(text) > 1 && text[1] == ':' && isDrive(text[:2]) {
		r.absolute = len(text) == 2 || text[2] == '/'
		if r.absolute {
			volume = []string{strings.ToUpper(text[:2])}
		}
		text = text[2:]
	}
	segments := strings.Split(text, "/")
	for i, segment := range segments {
		segments[i] = trim(segment)
	}
	r.segments = append(volume, unalias(clean(segments, r.absolute), r.absolute)...)
	return r
}

func isDrive(segment string) bool {
	return len(segment) == 2 && segment[1] == ':' && (segment[0]|0x20 >= 'a' && segment[0]|0x20 <= 'z')
}

// trim removes the characters that Windows ignores at the end of a name: spaces, dots
// and the name of a stream.
func trim(segment string) string {
	if i := strings.IndexByte(segment, ':'); i > 0 {
		segment = segment[:i]
	}
	segment = strings.TrimRight(segment, " ")
	if segment == "." || segment == ".." {
		return segment
	}
	if strings.Trim(segment, ".* ") == "" && strings.Contains(segment, "*") {
		return segment // a glob
	}
	return strings.TrimRight(segment, ". ")
}

// clean resolves "." and ".." textually.
func clean(segments []string, absolute bool) []string {
	out := make([]string, 0, len(segments))
	for _, segment := range segments {
		out = step(out, segment, absolute)
	}
	return out
}

// step appends one segment to cleaned ones.
func step(from []string, segment string, absolute bool) []string {
	switch {
	case segment == "" || segment == ".":
		return from
	case segment != "..":
		return append(from, segment)
	case len(from) > 0 && from[len(from)-1] != "..":
		return from[:len(from)-1]
	case !absolute:
		return append(from, segment)
	}
	return from
}

// unalias removes prefixes that lead to the same files under another name on Linux and
// macOS.
func unalias(segments []string, absolute bool) []string {
	for absolute {
		n := len(segments)
		switch {
		case n >= 3 && segments[0] == "proc" && segments[2] == "root":
			segments = segments[3:]
		case n >= 5 && segments[0] == "proc" && segments[2] == "task" && segments[4] == "root":
			segments = segments[5:]
		case n >= 2 && strings.EqualFold(segments[0], "private") && slices.Contains([]string{"etc", "tmp", "var"}, strings.ToLower(segments[1])):
			segments = segments[1:]
		case n >= 3 && strings.EqualFold(strings.Join(segments[:3], "/"), "System/Volumes/Data"):
			segments = segments[3:]
		default:
			return segments
		}
	}
	return segments
}

// cleanHome returns the cleaned home directory; empty when it is not absolute.
func cleanHome(home string) string {
	home = strings.TrimRight(home, `/\`)
	if strings.HasPrefix(home, "/") || drive.MatchString(home) || strings.HasPrefix(home, `\\`) {
		return home
	}
	return ""
}
