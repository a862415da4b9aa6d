package find

import "strings"

// plain replaces the values in a query by what they are: the path of a file by "file"
// and its format, a URL by "url" and its site, an address by "email". Which other words a
// value has says nothing about the tool that takes it.
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

// trimmed returns a word without the quotes and brackets around it, and the punctuation that
// ended it.
func trimmed(word string) (value, end string) {
	word = strings.TrimLeft(word, "\"'`(<[")
	value = strings.TrimRight(word, "\"'`)>],.;:!?")
	return value, word[len(value):]
}

// valueOf returns what stands for a value, with the punctuation at its end. ok is false
// for what is not a value.
func valueOf(token string) (what string, ok bool) {
	value, end := trimmed(token)
	if at := strings.IndexByte(value, '@'); at > 0 && strings.Contains(value[at:], ".") {
		return "email" + end, true
	}
	if _, address, ok := strings.Cut(value, "://"); ok {
		return withSite("url", address) + end, true
	}
	if strings.HasPrefix(value, "www.") {
		return withSite("url", value) + end, true
	}
	if domain(value) {
		return withSite("domain", value) + end, true
	}
	if !strings.ContainsAny(value, "/\\") && !extension(value) {
		return "", false
	}
	rooted := strings.HasPrefix(value, "/") || strings.HasPrefix(value, "~") || strings.HasPrefix(value, "./") || strings.HasPrefix(value, "../") || len(value) > 2 && value[1:3] == ":\\"
	switch {
	case extension(value):
		if format := formatOf(value); !textFormats[format] {
			return "file " + format + end, true
		}
		return "file" + end, true
	case rooted:
		return "folder" + end, true
	}
	return "", false // "and/or"
}

// domain reports whether a value is the name of a host under a common top-level domain.
func domain(value string) bool {
	i := strings.LastIndexByte(value, '.')
	return i > 0 && topLevels[strings.ToLower(value[i+1:])] && !strings.ContainsAny(value, "/\\")
}

// topLevels are top-level domains that end few other names, unlike that of ASP.NET.
var topLevels = wordSet("com org edu gov io dev app info biz")

// withSite adds to what a value is the site that the address begins with, such as youtube for
// www.youtube.com/watch: it often says which service is meant.
func withSite(what, address string) string {
	host := strings.ToLower(address)
	if i := strings.IndexAny(host, "/?#:"); i >= 0 {
		host = host[:i]
	}
	labels := strings.Split(host, ".")
	n := len(labels)
	if n < 2 {
		return what
	}
	site := labels[n-2]
	if n > 2 && len(site) < 4 && len(labels[n-1]) == 2 { // bbc.co.uk
		site = labels[n-3]
	}
	if site == "example" || strings.Trim(site, "abcdefghijklmnopqrstuvwxyz") != "" {
		return what
	}
	return what + " " + site
}

// extension reports whether a value ends as the name of a file of a known format does.
func extension(value string) bool {
	return strings.LastIndexByte(value, '.') > 0 && formats[formatOf(value)]
}

// formatOf is what follows the last dot of a name.
func formatOf(name string) string { return strings.ToLower(name[strings.LastIndexByte(name, '.')+1:]) }

// formats are extensions of files.
var formats = wordSet(`txt md markdown rst log csv tsv json jsonl xml yaml yml toml ini env html htm css scss
	js mjs ts tsx jsx py ipynb go rs java kt c h cpp hpp cs rb php swift sh bash ps1 sql r scala lua
	pdf doc docx odt rtf tex xls xlsx ods ppt pptx odp epub png jpg jpeg gif svg webp bmp tiff ico heic
	mp3 wav flac ogg m4a mp4 mov avi mkv webm zip tar gz 7z rar parquet db sqlite bib eml ics drawio`)

// textFormats are formats of plain text that need no tool of their own: what works with files
// works with these.
var textFormats = wordSet("txt md markdown rst")
