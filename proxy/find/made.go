package find

import (
	"slices"
	"strings"
)

// withFiles adds a step for each file that a step makes of something else: who asks for a
// report in notes.md needs what makes the report, and what writes a file.
func withFiles(steps []string) []string {
	all := slices.Clip(steps)
	for _, step := range steps {
		if len(all) < maxSteps && makesFile(step) {
			all = append(all, "write file")
		}
	}
	return all
}

// makesFile reports whether a step makes something and names the file that it is for. A step
// that is about writing asks for that itself, and formats that need a tool of their own lead
// to that tool.
func makesFile(step string) bool {
	makes, last, words := false, "", 0
	for w := range strings.FieldsSeq(step) {
		if makes && words > 1 && placing[last] && plainFile(w) {
			return true
		}
		last = strings.ToLower(w)
		makes = makes || making[last]
		if !stopWords[last] {
			words++
		}
	}
	return false
}

// plainFile reports whether a word is the name of a file that any tool for files can write.
func plainFile(word string) bool {
	value, _ := trimmed(word)
	return extension(value) && !ownTools[formatOf(value)]
}

var (
	// making are verbs of steps whose result may be kept in a file.
	making = wordSet("generate create make draw build render organize give compile prepare produce summarize summarise")
	// placing are the words before the file that something is put into.
	placing = wordSet("to at as in into on under")
	// ownTools are formats of files that need a tool of their own.
	ownTools = wordSet(`pdf doc docx odt rtf xls xlsx ods ppt pptx odp epub png jpg jpeg gif svg webp bmp tiff ico heic
		mp3 wav flac ogg m4a mp4 mov avi mkv webm zip tar gz 7z rar parquet db sqlite drawio`)
)
