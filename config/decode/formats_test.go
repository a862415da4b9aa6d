package decode

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
			if _, _, err := Format(form, whole, ""); (err == nil) != good {
				t.Errorf("%s %s: %v", form, whole, err)
			}
		}
	}
}

func TestFormatStore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"sqlite:": "sqlite:", "sqlite:x.db": "sqlite:/d/x.db",
		"postgres://u:p@h/d":               "postgres://u:p@h/d",
		"postgresql://h:5432/d?sslmode=on": "postgresql://h:5432/d?sslmode=on",
		"postgres:///d?host=/run/postgres": "postgres:///d?host=/run/postgres",
		"postgres://h?dbname=d":            "postgres://h?dbname=d",
	} {
		if got, _, err := Format("store", text, "/d"); got != want || err != nil {
			t.Errorf("%s: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "x", "mysql://u:secret@h/d", "postgres:", "postgres:secret", "postgres://u:secret@h", "postgres:///secret", "postgres://u:sec ret%@h/d"} {
		_, hint, err := Format("store", text, "/d")
		if err == nil || hint == "" || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; %s", text, err, hint)
		}
	}
}
