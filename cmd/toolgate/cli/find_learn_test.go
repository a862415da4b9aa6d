//go:build !windows

package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/retrieval"
)

// TestFindEvalLearned measures a catalog and a gateway with what was learned beside the
// words alone.
func TestFindEvalLearned(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("echo=Say a sentence again")}, nil)
	h.up(t)
	file := func(name string, lines ...string) string {
		t.Helper()
		path := filepath.Join(h.dir, name)
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	catalog := file("tools.jsonl", `{"server":"a","name":"echo","description":"Say a sentence again"}`, `{"server":"a","name":"pid","description":"Tell the process id"}`)
	var many, pairs []string
	for i := range 6 {
		many = append(many, fmt.Sprintf(`{"query":"congratulate grandmother %c","relevant":["a/echo"],"kind":"single"}`, 'a'+i))
		pairs = append(pairs, fmt.Sprintf(`{"query":"congratulate somebody","tool":"a__echo","caller":"c%d"}`, i%3))
	}
	pairs = append(pairs, `{"query":"tell","tool":"a__gone"}`)
	cases, past := file("cases.jsonl", many...), file("pairs.jsonl", pairs...)
	recalls := func(args ...string) (kinds map[string]float64) {
		t.Helper()
		var rows []retrieval.Row
		o := h.run(t, append([]string{"find", "eval", cases, "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || o.code != exitOK {
			t.Fatalf("%v: exit code %d, %v: %s%s", args, o.code, err, o.stdout, o.stderr)
		}
		kinds = map[string]float64{}
		for _, r := range rows {
			kinds[fmt.Sprintf("%s %d", r.Kind, r.N)] = r.Recall1
		}
		return kinds
	}
	for args, want := range map[string]map[string]float64{
		"--catalog " + catalog + " --past 3":                         {"single 3": 0, "single, learned 3": 100},
		"--catalog " + catalog + " --pairs " + past:                  {"single 6": 0, "single, learned 6": 100},
		"--catalog " + catalog + " --pairs " + past + " --callers 4": {"single 6": 0, "single, learned 6": 0},
		"--file " + h.file + " --learned":                            {"single 6": 0, "single, learned 6": 0},
	} {
		if got := recalls(strings.Fields(args)...); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", args, got, want)
		}
	}
	if o := h.run(t, "find", "eval", cases, "--catalog", catalog, "--pairs", past); !strings.Contains(o.stderr, "has no a__gone") ||
		!strings.Contains(o.stderr, "6 past searches of 3 callers for 1 tools count") {
		t.Errorf("the notes: %s", o.stderr)
	}
	for args, code := range map[string]int{
		"--learned --catalog " + catalog: exitUsage,
		"--past 3":                       exitUsage,
		"--catalog " + catalog + " --past 3 --pairs " + past:     exitUsage,
		"--catalog " + catalog + " --past -1":                    exitUsage,
		"--catalog " + catalog + " --pairs none.jsonl":           exitConfig,
		"--catalog " + catalog + " --pairs " + cases:             exitConfig,
		"--catalog " + catalog + " --pairs " + file("empty.txt"): exitConfig,
	} {
		if o := h.run(t, append([]string{"find", "eval", cases}, strings.Fields(args)...)...); o.code != code {
			t.Errorf("%s: exit code %d: %s", args, o.code, o.stderr)
		}
	}
	if o := h.run(t, "find", "train", "--file", h.file); o.code != exitOK || !strings.Contains(o.stdout, "find.learning must be record") {
		t.Errorf("train: exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
	if o := h.run(t, "find", "train", "--callers", "0", "--file", h.file); o.code == exitOK {
		t.Errorf("nobody has to have called a tool: %s", o.stdout)
	}
	if o := h.run(t, "find", "forget", "default", "--file", h.file); o.code != exitOK || !strings.Contains(o.stderr, "0 searches of default are forgotten") {
		t.Errorf("forget: exit code %d: %s%s", o.code, o.stdout, o.stderr)
	}
}
