package tree

import "testing"

func TestNearest(t *testing.T) {
	words := []string{"listen", "limits", "servers", "auth"}
	for text, want := range map[string]string{"listn": "listen", "lisetn": "listen", "LISTEN": "listen", "server": "servers", "quite-different": "", "": "", "x": ""} {
		if got := Nearest(text, words); got != want {
			t.Errorf("nearest(%q) = %q, want %q", text, got, want)
		}
	}
}
