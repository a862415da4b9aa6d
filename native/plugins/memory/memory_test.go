package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/native"
	"github.com/toolgate/toolgate/native/inside"
	"github.com/toolgate/toolgate/native/plugins/memory"
)

// shelf keeps texts in memory: at most three of a kind, of at most 40 bytes.
type shelf struct {
	texts []kept
	next  int
	err   error
}

type kept struct {
	principal string
	kind      memory.Kind
	memory.Record
}

func (s *shelf) Save(_ context.Context, principal string, kind memory.Kind, r memory.Record) (memory.Record, error) {
	if len(r.Body) > 40 {
		return r, memory.ErrLarge
	}
	s.next++
	r.ID, r.SavedAt = fmt.Sprint("mem_", s.next), time.Unix(int64(s.next), 0).UTC()
	n := 0
	for i, k := range s.texts {
		if k.principal != principal || k.kind != kind {
			continue
		}
		if n++; r.Name != "" && k.Name == r.Name {
			r.ID = k.ID
			s.texts[i].Record = r
			return r, s.err
		}
	}
	if n == 3 {
		return r, memory.ErrFull
	}
	s.texts = append(s.texts, kept{principal, kind, r})
	return r, s.err
}

func (s *shelf) List(_ context.Context, principal string, kind memory.Kind) (out []memory.Record, err error) {
	for _, k := range slices.Backward(s.texts) {
		if k.principal == principal && k.kind == kind {
			out = append(out, k.Record)
		}
	}
	return out, s.err
}

func (s *shelf) Delete(_ context.Context, principal string, ids ...string) (removed []string, err error) {
	s.texts = slices.DeleteFunc(s.texts, func(k kept) bool {
		if k.principal != principal || !slices.Contains(ids, k.ID) {
			return false
		}
		removed = append(removed, k.ID)
		return true
	})
	return removed, s.err
}

func group(t *testing.T, s *shelf) *inside.Backend {
	t.Helper()
	b, err := inside.New(native.Spec{Key: memory.Name, Shipped: true}, memory.Plugin(memory.Options{
		Keeper: s, MostTexts: 3, MostBytes: 40,
		Redact: func(text string) (string, error) {
			if strings.Contains(text, "slow") {
				return "", errors.New("it takes too long")
			}
			return strings.ReplaceAll(text, "hunter2", "[redacted]"), nil
		},
	}), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// call makes a call of a principal and returns the structured result, or the text of the
// problem.
func call(t *testing.T, b *inside.Backend, who, tool, args string) string {
	t.Helper()
	got, err := b.Call(t.Context(), &mcp.Call{
		Method: mcp.MethodToolsCall, Principal: who, Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, args),
	})
	if err != nil {
		return err.Error()
	}
	if structured := mcp.Lookup(got.Result, "structuredContent"); structured != nil {
		return string(structured)
	}
	return string(got.Result)
}

func TestTools(t *testing.T) {
	b := group(t, &shelf{})
	for _, step := range []struct{ who, tool, args, want string }{
		{"ann", "load", `{}`, `{"memories":[],"more":0}`},
		{"ann", "save", `{"text":"the door code is hunter2","name":"door"}`, `"redacted":true`},
		{"ann", "save", `{"text":"the garage is open"}`, `{"id":"mem_2","expires_at":`},
		{"ann", "load", `{"query":"door"}`, `"name":"door","text":"the door code is [redacted]","score":1,`},
		{"ann", "load", `{"query":"open door"}`, `"score":0.5`},
		{"ann", "load", `{"query":"open door","threshold":0.6}`, `{"memories":[],"more":0}`},
		{"ann", "load", `{"query":"the","limit":1}`, `"more":1}`},
		{"ann", "load", `{"name":"door"}`, `"mem_1"`},
		{"ann", "load", `{"limit":1}`, `"text":"the garage is open"`}, // the latest
		{"ann", "load", `{"threshold":2,"query":"x"}`, `threshold is from 0 to 1`},
		{"ann", "load", `{"limit":51}`, `limit is from 1 to 50`},
		{"ann", "save", `{"text":"new","name":"door"}`, `{"id":"mem_1"`},
		{"ann", "save", `{"text":" "}`, `The text is empty`},
		{"ann", "save", `{"text":"a","days":366}`, `days is from 1 to 365`},
		{"ann", "save", `{"text":"a","days":-1}`, `days is from 1 to 365`},
		{"ann", "save", `{"text":"a\u0000"}`, `NUL`},
		{"ann", "save", `{"text":"` + strings.Repeat("x", 41) + `"}`, `at most 40 bytes`},
		{"ann", "save", `{"text":"slow"}`, `The tool save failed`},
		{"ann", "save", `{"text":"third"}`, `"id":`},
		{"ann", "save", `{"text":"fourth"}`, `You keep 3 texts`},

		{"eve", "load", `{"query":"door open new"}`, `{"memories":[],"more":0}`},
		{"eve", "load", `{"name":"door"}`, `{"memories":[],"more":0}`},
		{"eve", "delete", `{"ids":"mem_1,mem_2"}`, `{"deleted":[]}`},
		{"eve", "forget", `{"query":"new"}`, `{"deleted":[]}`},

		{"ann", "remember", `{"note":"needs a full path","tool":"fs__read_file"}`, `"id":`},
		{"ann", "remember", `{"note":"make proto comes first"}`, `"id":`},
		{"ann", "remember", `{"note":"","tool":"x"}`, `The note is empty`},
		{"ann", "remember", `{"note":"a","tool":"x\ny"}`, `name of a tool`},
		{"ann", "recall", `{"query":"path"}`, `"tool":"fs__read_file","note":"needs a full path","score":1,`},
		{"ann", "recall", `{"tool":"fs__read_file"}`, `"more":0}`},
		{"ann", "recall", `{"tool":"other"}`, `{"notes":[],"more":0}`},
		{"ann", "recall", `{"query":"fs read file"}`, `"note":"needs a full path","score":1`},
		{"ann", "recall", `{"limit":1}`, `"note":"make proto comes first","score":1,`},
		{"ann", "load", `{"query":"proto"}`, `{"memories":[],"more":0}`}, // which is a note
		{"eve", "recall", `{}`, `{"notes":[],"more":0}`},

		{"ann", "forget", `{"query":"?"}`, `The query has no word`},
		{"ann", "forget", `{"query":"the garage was shut"}`, `{"deleted":[]}`}, // half of the words
		{"ann", "forget", `{"query":"the garage was shut","threshold":0.5}`, `{"deleted":["mem_2"]}`},
		{"ann", "delete", `{"ids":"mem_1, mem_9"}`, `{"deleted":["mem_1"]}`},
		{"ann", "delete", `{"ids":" , "}`, `Say which to delete`},
		{"ann", "delete", `{"ids":"` + strings.Repeat("x,", 51) + `"}`, `At most 50`},
	} {
		if got := call(t, b, step.who, step.tool, step.args); !strings.Contains(got, step.want) {
			t.Errorf("%s: %s %s: %s, want %s", step.who, step.tool, step.args, got, step.want)
		}
	}
}

// Whatever is wrong in the store is told to nobody.
func TestStoreFails(t *testing.T) {
	b := group(t, &shelf{err: errors.New("the disk is full")})
	for tool, args := range map[string]string{"save": `{"text":"a"}`, "load": `{}`, "delete": `{"ids":"a"}`, "forget": `{"query":"a"}`, "remember": `{"note":"a"}`, "recall": `{}`} {
		if got := call(t, b, "ann", tool, args); !strings.Contains(got, "failed") || strings.Contains(got, "disk") {
			t.Errorf("%s: %s", tool, got)
		}
	}
}

// What the tools say of themselves decides in which modes they may be called.
func TestClasses(t *testing.T) {
	b := group(t, &shelf{})
	for _, tool := range b.Tools() {
		facts, _ := b.Facts(tool)
		reads, deletes := tool == "load" || tool == "recall", tool == "delete" || tool == "forget"
		if facts.ReadOnly != reads || facts.Destructive != deletes || facts.Risk != "low" || facts.Category != "memory" || facts.RatePerHour == 0 {
			t.Errorf("%s: %+v", tool, facts)
		}
	}
	if n := len(b.Tools()); n != 6 {
		t.Errorf("%d tools", n)
	}
}
