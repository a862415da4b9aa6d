package find

import "strings"

// plain replaces the values in a query by what they are: the path of a file by "file"
// and its format, a URL by "url", an address by "email". Which words a value has says
// nothing about the tool that takes it.
func plain(text string) string {
	if !strings.ContainsAny(text, "/\\@.") {
		return text
	}
	var b strings.Builder
	last := 0
	for i := 0; i < len(text); {
		if isSpace(text[i]) {
			i++
			continue
		}
		end := i
		for end < len(text) && !isSpace(text[end]) {
			end++
		}
		if what, ok := valueOf(text[i:end]); ok {
			b.WriteString(text[last:i])
			b.WriteString(what)
			last = end
		}
		i = end
	}
	if last == 0 {
		return text
	}
	b.WriteString(text[last:])
	return b.String()
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// valueOf returns what stands for a value, with the punctuation at its end. ok is false
// for what is not a value.
func valueOf(token string) (what string, ok bool) {
	token = strings.TrimLeft(token, "\"'`(<[")
	value := strings.TrimRight(token, "\"'`)>],.;:!?")
	end := token[len(value):]
	if at := strings.IndexByte(value, '@'); at > 0 && strings.Contains(value[at:], ".") {
		return "email" + end, true
	}
	if strings.Contains(value, "://") || strings.HasPrefix(value, "www.") {
		return "url" + end, true
	}
	if !strings.ContainsAny(value, "/\\") && !extension(value) {
		return "", false
	}
	rooted := strings.HasPrefix(value, "/") || strings.HasPrefix(value, "~") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || len(value) > 2 && value[1:3] == ":\\"
	switch {
	case extension(value):
		return "file " + value[strings.LastIndexByte(value, '.')+1:] + end, true
	case rooted:
		return "folder path" + end, true
	}
	return "", false // "and/or"
}

// extension reports whether a value ends as the name of a file of a known format does.
func extension(value string) bool {
	i := strings.LastIndexByte(value, '.')
	return i > 0 && formats[strings.ToLower(value[i+1:])]
}

// formats are extensions of files.
var formats = wordSet(`txt md markdown rst log csv tsv json jsonl xml yaml yml toml ini env html htm css scss
	js mjs ts tsx jsx py ipynb go rs java kt c h cpp hpp cs rb php swift sh bash ps1 sql r scala lua
	pdf doc docx odt rtf tex xls xlsx ods ppt pptx odp epub png jpg jpeg gif svg webp bmp tiff ico heic
	mp3 wav flac ogg m4a mp4 mov avi mkv webm zip tar gz 7z rar parquet db sqlite bib eml ics drawio`)
