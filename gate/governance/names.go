package governance

import (
	"unicode"
	"unicode/utf8"
)

// word is what a word in the name of a property says of what it holds.
type word uint8

const (
	otherWord   word = iota
	pathWord         // it is a path
	contentWord      // at the end of a name: it is about a path and is something else
)

// longestWord is how many bytes of a word are looked at: more than any of
// wordKinds has.
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

// PathName tells whether the name of a property, or a format, says that a
// string is a path or a URI: whether one of its words is path, file, dir,
// directory, folder, root, source, destination, uri or a usual form of those,
// and the last one does not say that it is something else, as in file_content.
// Words end at signs, digits and changes of case.
func PathName(name string) bool {
	var found bool
	var last word
	var space [longestWord + utf8.UTFMax]byte // of one word, in small letters; asked at each call, so that nothing is allocated
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

// lowerNext tells whether the second letter of a text is a small one.
func lowerNext(text string) bool {
	_, size := utf8.DecodeRuneInString(text)
	next, _ := utf8.DecodeRuneInString(text[size:])
	return unicode.IsLower(next)
}
