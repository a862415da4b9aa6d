//go:build !windows

package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/retrieval"
	"github.com/toolgate/toolgate/internal/testwait"
)

// TestFind ranks the tools that a caller sees, with reasons. What the caller does not see
// changes nothing.
func TestFind(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	h.write(t, servers{"a": fake("echo=Say a sentence again"), "b": fake("echo=Say a sentence again")}, taking(oneIssuer))
	h.up(t)
	find := func(args ...string) (r admin.Ranking, raw string) {
		t.Helper()
		o := h.run(t, append([]string{"find", "--file", h.file, "-o", "json"}, args...)...)
		if o.code != exitOK {
			t.Fatalf("find %v: exit code %d: %s", args, o.code, o.stderr)
		}
		if err := json.Unmarshal([]byte(o.stdout), &r); err != nil {
			t.Fatal(err)
		}
		return r, o.stdout
	}
	var r admin.Ranking
	testwait.Until(t, patience, "the tools of a are in the index", func() bool {
		r, _ = find("say", "a", "sentence", "--as", "ci")
		return len(r.Tools) > 0
	})
	if len(r.Tools) != 1 || r.Tools[0].Name != "a__echo" || r.Tools[0].Server != "a" || r.Tools[0].Original != "echo" || r.Tokens == 0 {
		t.Fatalf("ci: %+v", r)
	}
	if reasons := r.Tools[0].Reasons; !slices.ContainsFunc(reasons, func(why admin.RankedReason) bool {
		return why.Word == "sentenc" && why.Field == "description" && why.Share > 0
	}) {
		t.Errorf("the reasons are %+v", reasons)
	}
	if r, _ := find("say", "a", "sentence", "--as", "alice", "--persona", "bot"); len(r.Tools) != 0 {
		t.Errorf("a caller who does not see the tool: %+v", r.Tools)
	}
	if r, _ := find("say", "--as", "ci", "--server", "b"); len(r.Tools) != 0 {
		t.Errorf("of a server that the caller does not see: %+v", r.Tools)
	}
	_, both := find("process", "id", "or", "picture", "--as", "ci")
	alone := newHome(t)
	alone.write(t, servers{"a": fake("echo=Say a sentence again")}, taking(oneIssuer))
	alone.up(t)
	one := ""
	testwait.Until(t, patience, "the tools of a are in the other index", func() bool {
		one = alone.ok(t, "find", "--file", alone.file, "-o", "json", "process", "id", "or", "picture", "--as", "ci")
		return strings.Contains(one, `"a__`)
	})
	if one != both {
		t.Errorf("a server that the caller does not see changes the ranking from %s to %s", one, both)
	}
	if o := h.run(t, "find", "say", "--file", h.file, "--as", "alice", "--groups", "none"); !strings.Contains(o.stdout, "no tool that alice sees matches") || !strings.Contains(o.stderr, "assumed: ") {
		t.Errorf("a caller who sees nothing: %s%s", o.stdout, o.stderr)
	}
	for _, args := range []string{"", "say --as ci --limit 0"} {
		if o := h.run(t, append([]string{"find", "--file", h.file}, strings.Fields(args)...)...); o.code == exitOK {
			t.Errorf("find %s: %s", args, o.stdout)
		}
	}
}

// TestFindEval measures a gateway and a catalog by the same cases.
func TestFindEval(t *testing.T) {
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
	cases := file("cases.jsonl",
		`{"query":"say a sentence","relevant":["a__echo"],"kind":"step"}`,
		`{"query":"which process is it","relevant":["a/pid"],"kind":"step"}`,
		`{"query":"process","relevant":["a/gone"],"kind":"step","held":true}`)
	catalog := file("tools.jsonl",
		`{"server":"a","name":"echo","description":"Say a sentence again","inputSchema":{"type":"object"}}`,
		`{"server":"a","name":"pid","description":"Tell the process id","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}`)
	for name, args := range map[string][]string{"gateway": {"--file", h.file}, "catalog": {"--catalog", catalog}} {
		var rows []retrieval.Row
		o := h.run(t, append([]string{"find", "eval", cases, "-o", "json"}, args...)...)
		if err := json.Unmarshal([]byte(o.stdout), &rows); err != nil || o.code != exitOK {
			t.Fatalf("%s: exit code %d, %v: %s%s", name, o.code, err, o.stdout, o.stderr)
		}
		if len(rows) != 2 || rows[0].Kind != "step" || rows[0].N != 2 || rows[0].Recall1 != 100 || rows[0].NDCG != 1 || rows[0].Tokens == 0 ||
			rows[1].Kind != "step, held out" || rows[1].N != 1 || rows[1].Recall8 != 0 {
			t.Errorf("%s: %+v", name, rows)
		}
	}
	if o := h.run(t, "find", "eval", cases, "--catalog", catalog); !strings.Contains(o.stdout, "NDCG@10") || !strings.Contains(o.stderr, "has no a/gone") {
		t.Errorf("the table: %s%s", o.stdout, o.stderr)
	}
	for name, c := range map[string]struct{ args, want string }{
		"no file":    {"none.jsonl", "none.jsonl"},
		"a bad case": {file("bad.jsonl", `{"query":""}`), `bad.jsonl:1: "query" is missing`},
		"no catalog": {cases + " --catalog none.jsonl", "none.jsonl"},
	} {
		if o := h.run(t, append([]string{"find", "eval"}, strings.Fields(c.args)...)...); o.code != exitConfig || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%s: exit code %d: %s", name, o.code, o.stderr)
		}
	}
}
