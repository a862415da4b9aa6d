package find

// Terms returns the words of a query as the search compares them: as stems, without stop
// words, and with values such as paths replaced by what they are. It reads as much of the
// query as a search does. A word that is repeated is returned as often.
func Terms(query string) []string {
	left := maxWords
	var out []string
	for _, t := range tokens(plain(query[:min(len(query), maxQuery)]), &left) {
		if !t.stop {
			out = append(out, t.stem)
		}
	}
	return out
}
