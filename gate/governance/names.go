package governance

import (
	"slices"
	"strings"
	"unicode"
)

var (
	// pathWords say of a property that it holds a path.
	pathWords = []string{
		"path", "paths", "pathname", "pathnames", "filepath", "filepaths", "file", "files", "filename", "filenames",
		"dir", "dirs", "directory", "directories", "folder", "folders", "dirname", "root", "roots", "rootdir", "basedir",
		"subdir", "workdir", "cwd", "outdir", "outfile", "infile", "logfile", "source", "sources", "src",
		"destination", "destinations", "dest", "dst", "uri", "uris",
	}
	// otherWords at the end of a name say that it is about a path and holds
	// something else.
	otherWords = []string{
		"content", "contents", "text", "data", "body", "size", "count", "type", "types", "mode", "encoding", "hash",
		"format", "pattern", "patterns", "filter", "filters", "code", "extension", "extensions", "depth", "limit",
		"language", "lang", "permissions", "id", "ids", "description", "title", "line", "lines", "length",
	}
)

// PathName tells whether the name of a property, or a format, says that a
// string is a path or a URI: whether one of its words is path, file, dir,
// directory, folder, root, source, destination, uri or a usual form of those,
// and the last one does not say that it is something else, as in file_content.
func PathName(name string) bool {
	all := words(name)
	if len(all) == 0 || slices.Contains(otherWords, all[len(all)-1]) {
		return false
	}
	return slices.ContainsFunc(all, func(word string) bool { return slices.Contains(pathWords, word) })
}

// words splits a name at signs, digits and changes of case.
func words(name string) []string {
	var all []string
	var word []rune
	end := func() {
		if len(word) > 0 {
			all = append(all, strings.ToLower(string(word)))
			word = word[:0]
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		switch {
		case !unicode.IsLetter(r):
			end()
			continue
		case unicode.IsUpper(r) && i > 0 && (unicode.IsLower(runes[i-1]) || unicode.IsUpper(runes[i-1]) && i+1 < len(runes) && unicode.IsLower(runes[i+1])):
			end()
		}
		word = append(word, r)
	}
	end()
	return all
}
