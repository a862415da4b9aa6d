package config

import (
	"strings"
	"testing"
)

// A port that there is not is refused in every address.
func TestPorts(t *testing.T) {
	for form, text := range map[string]string{
		"url": "http://127.0.0.1:PORT/mcp", "origin": "http://localhost:PORT", "host": "gate.example:PORT", "target": "spicedb.example:PORT",
		"redis": "redis://127.0.0.1:PORT/0", "store": "postgres://u:p@127.0.0.1:PORT/db",
	} {
		for port, good := range map[string]bool{"1": true, "65535": true, "0": false, "65536": false, "99999": false} {
			whole := strings.ReplaceAll(text, "PORT", port)
			if _, _, err := formats[form](whole, ""); (err == nil) != good {
				t.Errorf("%s %s: %v", form, whole, err)
			}
		}
	}
}
