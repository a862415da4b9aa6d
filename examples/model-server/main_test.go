package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/native/agents/model/modeltest"
)

func TestScripts(t *testing.T) {
	for script, want := range map[string]string{
		`{"turns": [{"txt": "hello"}]}`:                           `unknown field "txt"`,
		`{"turns": [{"fault": "fire"}]}`:                          `there is no fault "fire"`,
		`{"turns": [{"delay": "soon"}]}`:                          "invalid duration",
		`{"turns": [{"text": "hello", "delay": "10ms"}]} {"a":1}`: "more than one document",
	} {
		file := filepath.Join(t.TempDir(), "script.json")
		if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := run(t.Context(), []string{"127.0.0.1:0", file}, t.Output()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", script, err)
		}
	}
}

func TestLines(t *testing.T) {
	seen := modeltest.Seen{Format: "chat", Turn: &modeltest.Turn{Text: "I look.", Calls: []modeltest.Call{{Tool: "notes__list"}, {Tool: "notes__add"}}}}
	if got := line(seen); got != "chat: I look. [notes__list] [notes__add]" {
		t.Error(got)
	}
}
