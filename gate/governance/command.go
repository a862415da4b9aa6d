package governance

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// Commands limit arguments that are command lines: a string as for a shell, or an
// array of strings as for a program. An entry is the name of a program, or a name
// followed by arguments ("git push"). Each word may be a glob.
//
// An allowed command line must begin with an entry. A string may use none of the
// shell's operators (; | & < > $( ` and line breaks). An entry without a slash allows
// only the bare word, which the PATH resolves: "git" is neither ./git, which a caller
// may have written, nor /elsewhere/git. An entry with a slash allows exactly that
// path.
//
// A denied command line contains an entry anywhere. There, a name without a slash
// matches that program in any folder, with or without quotes. Deny cannot find every
// command that a shell would run in a text, so prefer Allow.
type Commands struct {
	// JSON Pointers of these arguments. Required.
	In []string `config:"in" required:"true"`
	// Beginnings of permitted commands; [] permits none. Default: all commands.
	Allow []string `config:"allow"`
	// Text that no command may contain. Default: none.
	Deny []string `config:"deny"`
}

type commandRule struct {
	in          []pointer
	limited     bool
	allow, deny [][]string
}

func (c Commands) compile() (made commandRule, err error) {
	made.limited = c.Allow != nil
	if made.in, err = parsePointers("commands", c.In); err != nil {
		return made, err
	}
	if len(c.In) == 0 {
		return made, errors.New("commands: they need the pointers of the arguments")
	}
	for _, entries := range []struct {
		texts []string
		into  *[][]string
	}{{c.Allow, &made.allow}, {c.Deny, &made.deny}} {
		for _, text := range entries.texts {
			parts := strings.Fields(text)
			if len(parts) == 0 {
				return made, errors.New("commands: an entry names a program")
			}
			for _, part := range parts {
				if _, err := path.Match(part, ""); err != nil {
					return made, errors.New("commands: a bracket is not closed in " + text)
				}
			}
			*entries.into = append(*entries.into, parts)
		}
	}
	return made, nil
}

// operators are the characters by which a shell runs several commands or substitutes
// text.
const operators = ";|&<>`\n\r\x00"

// shellSyntax tells whether a command line uses shell operators.
func shellSyntax(line string) bool {
	return strings.ContainsAny(line, operators) || strings.Contains(line, "$(") || strings.Contains(line, "${")
}

// allows tells whether a command begins with an entry.
func (c commandRule) allows(argv []string) bool {
	for _, entry := range c.allow {
		if len(argv) < len(entry) || !allowed(entry[0], argv[0]) {
			continue
		}
		ok := true
		for i, part := range entry[1:] {
			matched, err := path.Match(part, argv[i+1])
			ok = ok && matched && err == nil
		}
		if ok {
			return true
		}
	}
	return false
}

// denies returns the index of the first entry that a command contains, -1 when it
// contains none.
func (c commandRule) denies(argv []string) int {
	readings := [][]string{split(argv, false), split(argv, true)}
	return slices.IndexFunc(c.deny, func(entry []string) bool {
		return slices.ContainsFunc(readings, func(all []string) bool { return holds(all, entry) })
	})
}

// holds tells whether the words of an entry occur among others, in order.
func holds(all, entry []string) bool {
	for i := range all {
		if !program(entry[0], all[i]) {
			continue
		}
		rest := entry[1:]
		for _, word := range all[i+1:] {
			if len(rest) == 0 {
				break
			}
			if ok, _ := path.Match(foldCase(rest[0]), foldCase(word)); ok {
				rest = rest[1:]
			}
		}
		if len(rest) == 0 {
			return true
		}
	}
	return false
}

// allowed tells whether a word names the program of an entry exactly as written. A
// path does not match a bare name, and another spelling of a path may lead elsewhere.
func allowed(entry, word string) bool {
	word = strings.ReplaceAll(word, `\`, "/")
	if strings.Contains(entry, "/") {
		ok, _ := path.Match(entry, word)
		return ok
	}
	return !strings.Contains(word, "/") && named(entry, word)
}

// program tells whether a word names the program of an entry, in any folder and in any
// spelling.
func program(entry, word string) bool {
	entry, word = foldCase(entry), foldCase(strings.ReplaceAll(word, `\`, "/"))
	if strings.Contains(entry, "/") {
		ok, _ := path.Match(entry, path.Clean(word))
		return ok
	}
	return named(entry, path.Base(word))
}

// named tells whether a name, with or without a program's file extension, matches an
// entry.
func named(entry, base string) bool {
	plain := base
	for _, extension := range []string{".exe", ".EXE", ".cmd", ".CMD", ".bat", ".BAT", ".com", ".COM"} {
		plain = strings.TrimSuffix(plain, extension)
	}
	whole, _ := path.Match(entry, base)
	short, _ := path.Match(entry, plain)
	return whole || short
}

// split splits a command into words: without quotes, as a shell reads it (unquoted),
// and also at the quotes.
func split(argv []string, unquoted bool) []string {
	var all []string
	for _, arg := range argv {
		if unquoted {
			arg = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(arg)
		}
		all = append(all, strings.FieldsFunc(arg, func(r rune) bool {
			return r <= ' ' || strings.ContainsRune(";|&<>`(){}$'\"=,", r) || r == '\u00A0' || r == '\u3000'
		})...)
	}
	return all
}
