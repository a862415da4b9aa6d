package governance

import (
	"errors"
	"path"
	"slices"
	"strings"
)

// Commands limit arguments that are command lines: a string as for a shell, or
// an array of strings as for a program. An entry is the name of a program, or
// its name and the arguments that it is about ("git push"); each word may be a
// glob.
//
// An allowed command line must begin with an entry, and a string may use none
// of the shell's operators (; | & < > $( ` and line breaks). An entry without a slash
// allows the bare word alone, which the PATH resolves: "git" is not ./git, which a
// caller may have written, nor /elsewhere/git. One with a slash allows that very
// path. A denied command line holds an entry anywhere, where a name without a slash
// is that of a program in any folder, whatever is quoted; that a command is not found in a text
// does not mean that a shell would not run it, so prefer Allow.
type Commands struct {
	// In are the JSON Pointers of the arguments. Required.
	In []string `config:"in" required:"true"`
	// Allow are what a command has to begin with; [] allows none. Absent: anything.
	Allow []string `config:"allow"`
	// Deny are what no command may hold. Absent: nothing.
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

// operators are the characters by which a shell runs more than one command or
// puts something in.
const operators = ";|&<>`\n\r\x00"

// shellSyntax tells whether a command line uses them.
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

// denies returns the index of an entry that a command holds, -1 when it holds
// none.
func (c commandRule) denies(argv []string) int {
	readings := [][]string{split(argv, false), split(argv, true)}
	return slices.IndexFunc(c.deny, func(entry []string) bool {
		return slices.ContainsFunc(readings, func(all []string) bool { return holds(all, entry) })
	})
}

// holds tells whether the words of an entry are among others, in order.
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

// allowed tells whether a word names the program of an entry, as it is written: a
// path is no name, and another spelling of a path may lead elsewhere.
func allowed(entry, word string) bool {
	word = strings.ReplaceAll(word, `\`, "/")
	if strings.Contains(entry, "/") {
		ok, _ := path.Match(entry, word)
		return ok
	}
	return !strings.Contains(word, "/") && named(entry, word)
}

// program tells whether a word is the program of an entry, wherever that is and
// however it is written.
func program(entry, word string) bool {
	entry, word = foldCase(entry), foldCase(strings.ReplaceAll(word, `\`, "/"))
	if strings.Contains(entry, "/") {
		ok, _ := path.Match(entry, path.Clean(word))
		return ok
	}
	return named(entry, path.Base(word))
}

// named tells whether a name, with or without the extension of programs, is that of
// an entry.
func named(entry, base string) bool {
	plain := base
	for _, extension := range []string{".exe", ".EXE", ".cmd", ".CMD", ".bat", ".BAT", ".com", ".COM"} {
		plain = strings.TrimSuffix(plain, extension)
	}
	whole, _ := path.Match(entry, base)
	short, _ := path.Match(entry, plain)
	return whole || short
}

// split makes words of a command, as a shell would when it takes away the
// quotes (unquoted), and at the quotes.
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
