package governance

import (
	"unicode"
	"unicode/utf8"
)

// word is the meaning of a word in a property name.
type word uint8

const (
	otherWord   word = iota
	pathWord         // it is a path
	contentWord      // at the end of a name: it is about a path and is something else
)

// longestWord bounds the bytes of a word that are read. It is longer than every word
// of wordKinds.
const longestWord = 16

var wordKinds = kindsOf(map[word][]string{
	pathWord: {
		"path", "paths", "pathname", "pathnames", "filepath", "filepaths", "file", "files", "filename", "filenames",
		"dir", "dirs", "directory", "directories", "folder", "folders", "dirname", "root", "roots", "rootdir", "basedir",
		"subdir", "workdir", "cwd", "outdir", "outfile", "infile", "logfile", "source", "sources", "src",
		"destination", "destinations", "dest", "dst", "uri", "uris",
	},
	contentWord: {
		"content", "contents", "text", "data", "body", "size", "count", "type", "types", "mode", "encoding", "hash",
		"format", "pattern", "patterns", "filter", "filters", "code", "extension", "extensions", "depth", "limit",
		"language", "lang", "permissions", "id", "ids", "description", "title", "line", "lines", "length",
	},
})

func kindsOf(lists map[word][]string) map[string]word {
	kinds := map[string]word{}
	for kind, list := range lists {
		for _, text := range list {
			kinds[text] = kind
		}
	}
	return kinds
}

// PathName tells whether the name of a property, or a format, indicates a path or a
// URI. One of its words must be path, file, dir, directory, folder, root, source,
// destination, uri or a common form of these. The last word must not indicate
// something else, as in file_content. Words end at punctuation, digits and changes of
// case.
func PathName(name string) bool {
	var found bool
	var last word
	var space [longestWord + utf8.UTFMax]byte // one word in lower case; on the stack, because every call uses it
	text := space[:0]
	end := func() {
		if len(text) > 0 {
			last = wordKinds[string(text)]
			found = found || last == pathWord
			text = text[:0]
		}
	}
	var before rune
	for i, r := range name {
		letter := unicode.IsLetter(r)
		if !letter || unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsUpper(before) && lowerNext(name[i:])) {
			end()
		}
		if letter && len(text) <= longestWord {
			text = utf8.AppendRune(text, unicode.ToLower(r))
		}
		before = r
	}
	end()
	return found && last != contentWord
}

// lowerNext tells whether the second letter of a text is lower case.
func lowerNext(text string) bool {
	_, size := utf8.DecodeRuneInString(text)
	next, _ := utf8.DecodeRuneInString(text[size:])
	return unicode.IsLower(next)
}
