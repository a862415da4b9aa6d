package retrieval

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// held is the rule by which a case of testdata/real is held out.
func held(id string) bool { return sha256.Sum256([]byte(id))[0]&1 == 1 }

// TestRealSet holds the format of the development set.
func TestRealSet(t *testing.T) {
	tools, err := ReadCatalog("testdata/real/tools.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	cases, err := ReadCases("testdata/real/queries.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for i := range tools {
		known[tools[i].Key()] = true
		if len(tools[i].InputSchema) == 0 {
			t.Errorf("%s has no schema", tools[i].Key())
		}
	}
	queries, kinds, out := map[string]bool{}, map[string]int{}, 0
	for i := range cases {
		c := &cases[i]
		if c.ID == "" || queries[c.Query] {
			t.Errorf("%q has no id, or is there twice", c.Query)
		}
		queries[c.Query] = true
		kinds[c.Kind]++
		if c.Held != held(c.ID) {
			t.Errorf("%s: held is %t, and its hash says %t", c.ID, c.Held, held(c.ID))
		}
		if c.Held {
			out++
		}
		var named []string
		for _, need := range c.AllNeeds() {
			named = append(named, need...)
		}
		slices.Sort(named)
		if named = slices.Compact(named); !slices.Equal(named, c.Relevant) {
			t.Errorf("%s: the needs name %v, and relevant are %v", c.ID, named, c.Relevant)
		}
		for _, name := range c.Relevant {
			if !known[name] {
				t.Errorf("%s: the catalog has no %s", c.ID, name)
			}
		}
	}
	for _, kind := range []string{"single", "step", "task"} {
		if kinds[kind] < 30 {
			t.Errorf("%d cases are of kind %s, want 30 or more", kinds[kind], kind)
		}
	}
	if len(kinds) != 3 || len(cases) < 150 || out < len(cases)*2/5 || out > len(cases)*3/5 {
		t.Errorf("%d cases, %d held out, kinds %v", len(cases), out, kinds)
	}
}

func TestReadCases(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"not JSON":         {"{", ":1: "},
		"no query":         {`{"relevant":["a"]}`, `"query" is missing`},
		"nothing relevant": {`{"query":"a"}`, `"relevant" must name`},
		"an empty need":    {`{"query":"a","needs":[[]]}`, `each of "needs"`},
		"an id twice":      {`{"id":"1","query":"a","relevant":["a"]}` + "\n\n" + `{"id":"1","query":"b","relevant":["a"]}`, `:3: the id "1"`},
		"no cases":         {"\n", "has no cases"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "cases.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadCases(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestReadCatalog(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"no server":    {`{"name":"a"}`, `must have a "server"`},
		"a tool twice": {`{"server":"s","name":"a"}` + "\n" + `{"server":"s","name":"a"}`, ":2: s/a is on an earlier line"},
		"empty":        {"", "has no tools"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tools.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := ReadCatalog(path); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
