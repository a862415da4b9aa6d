package code

// Kept writes texts as an output and returns what is kept of it.
func Kept(most int, whole bool, texts ...string) (text string, lost int64) {
	k := &kept{most: most, whole: whole}
	for _, t := range texts {
		_, _ = k.Write([]byte(t))
	}
	text = k.text()
	return text, k.lost
}
