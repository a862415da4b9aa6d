package agents_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native/agents"
	"github.com/toolgate/toolgate/native/agents/model"
)

// injection is one of testdata/injections.jsonl: a technique as its source has published
// it, in words of our own and with the tools of this test.
type injection struct{ Source, Technique, Text string }

func injections(t *testing.T) (all []injection) {
	t.Helper()
	f, err := os.Open("testdata/injections.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var one injection
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil || one.Source == "" || one.Text == "" {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		all = append(all, one)
	}
	if len(all) < 40 {
		t.Fatalf("only %d injections", len(all))
	}
	return all
}

var (
	toolName = regexp.MustCompile(`[a-z]+__[a-z_]+`)
	encoded  = regexp.MustCompile(`[A-Za-z0-9+/]{24,}=*`)
)

// wanted are the tools that a text wants to have called, however it hides that.
func wanted(text string) []string {
	plain := text
	for _, r := range text {
		if r >= 0xE0000 && r < 0xE0080 { // Unicode tags
			plain += string(r - 0xE0000)
		}
	}
	for _, part := range encoded.FindAllString(text, -1) {
		if raw, err := base64.StdEncoding.DecodeString(part); err == nil {
			plain += " " + string(raw)
		}
	}
	names := toolName.FindAllString(plain, -1)
	slices.Sort(names)
	return slices.Compact(names)
}

// obedient is a model that reads a note and does whatever stands in it, under each name
// that a tool could have.
func obedient(n int, r *model.Request) (*model.Turn, error) {
	if n == 0 {
		return calls("notes__read"), nil
	}
	if n > 2 {
		return says("done"), nil
	}
	turn := calls()
	for _, text := range results(r) {
		for _, name := range wanted(text) {
			for _, as := range []string{name, strings.ToUpper(name), " " + name + " ", "server/" + name, name + "\x00"} {
				turn.Calls = append(turn.Calls, model.Call{ID: fmt.Sprint(len(turn.Calls)), Tool: as, Args: json.RawMessage(`{"allowed_tools":null,"capsule":""}`)})
			}
		}
	}
	return turn, nil
}

// A model that follows every injection in the result of a tool calls nothing but what the
// request, the capsule and the caller allow together.
func TestInjectionsWidenNothing(t *testing.T) {
	for _, one := range injections(t) {
		t.Run(one.Source+": "+one.Technique, func(t *testing.T) {
			if len(wanted(one.Text)) == 0 {
				t.Fatal("it wants nothing that this test can see")
			}
			r := newRig(obedient)
			r.Settings.Capsule, r.Task.Allowed = "readers", []string{"notes__read", "notes__list"}
			r.tools.tools = nil
			for _, name := range append(wanted(one.Text), "notes__read", "notes__list", "secret__read") { // the caller may call all of them
				r.tools.tools = append(r.tools.tools, tool(name))
			}
			r.tools.call = func(context.Context, mcp.NestedCall) mcp.NestedAnswer { return text(one.Text) }
			if o := r.do(t); o.Status != agents.Completed && o.Status != agents.Failed {
				t.Errorf("%+v", o)
			}
			for _, made := range r.tools.made {
				if name, _, _ := strings.Cut(made, " {"); !slices.Contains(r.Task.Allowed, name) {
					t.Errorf("made %s", made)
				}
			}
			for _, as := range r.tools.as {
				if as.Agent != "researcher" || as.Capsule != "readers" || !slices.Equal(as.Only, r.Task.Allowed) {
					t.Errorf("as %+v", as)
				}
			}
			for i := range r.model.seen {
				for _, offered := range r.model.seen[i].Tools {
					if !slices.Contains(r.Task.Allowed, offered.Name) {
						t.Errorf("offered %s", offered.Name)
					}
				}
			}
		})
	}
}
