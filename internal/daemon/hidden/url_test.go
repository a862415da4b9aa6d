package hidden

import "testing"

func TestURL(t *testing.T) {
	for raw, want := range map[string]string{
		"":                                 "",
		"https://x.example/mcp":            "https://x.example/mcp",
		"https://u:pw@x.example/mcp":       "https://[redacted]@x.example/mcp",
		"https://x.example/mcp?api_key=s":  "https://x.example/mcp?[redacted]",
		"https://u:p@s@x/m?a=b#f":          "https://[redacted]@x/m?[redacted]",
		"https://x.example/@me":            "https://x.example/@me",
		"https://${HOST}/mcp?k=${API_KEY}": "https://${HOST}/mcp?[redacted]",
	} {
		if got := URL(raw); got != want {
			t.Errorf("%s: %s, want %s", raw, got, want)
		}
	}
}
