package mcp_test

import (
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/mcp"
)

func TestCapabilitiesSpeakTheProtocol(t *testing.T) {
	type words struct{ Name, List, ListKey, Member, Feature, Changed string }
	var got []words
	for _, c := range mcp.Kinds {
		got = append(got, words{c.String(), c.ListMethod(), c.ListKey(), c.KeyMember(), c.Feature(), c.Changed()})
	}
	want := []words{
		{"tool", "tools/list", "tools", "name", "tools", "notifications/tools/list_changed"},
		{"prompt", "prompts/list", "prompts", "name", "prompts", "notifications/prompts/list_changed"},
		{"resource", "resources/list", "resources", "uri", "resources", "notifications/resources/list_changed"},
		{"template", "resources/templates/list", "resourceTemplates", "uriTemplate", "resources", "notifications/resources/list_changed"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("words (-want +got):\n%s", diff)
	}
	for _, c := range []mcp.Kind{mcp.NoKind, 99} {
		if w := (words{c.String(), c.ListMethod(), c.ListKey(), c.KeyMember(), c.Feature(), c.Changed()}); w != (words{Name: "none"}) {
			t.Errorf("capability %d speaks %v", c, w)
		}
	}
}

func TestStatesAsText(t *testing.T) {
	want := []string{"starting", "ready", "reconnecting", "degraded", "stale", "needs_login", "failed", "disabled"}
	for n, name := range want {
		text, err := mcp.State(n).MarshalText()
		if string(text) != name || err != nil {
			t.Errorf("state %d is %s, %v", n, text, err)
		}
		got := mcp.Failed
		if err := got.UnmarshalText(text); err != nil || got != mcp.State(n) {
			t.Errorf("%s is state %d, %v", name, got, err)
		}
	}
	for _, text := range []string{"", "Ready", "unknown"} {
		got := mcp.Stale
		if err := got.UnmarshalText([]byte(text)); err == nil || got != mcp.Stale {
			t.Errorf("%q is state %v, %v", text, got, err)
		}
	}
	if s := mcp.State(99).String(); s != "unknown" {
		t.Errorf("state 99 is %s", s)
	}
}

func TestFailureReadsAsItsReason(t *testing.T) {
	f := &mcp.Failure{Kind: mcp.FailTimeout, Err: io.ErrUnexpectedEOF}
	if f.Error() != "upstream_timeout" || !errors.Is(f, io.ErrUnexpectedEOF) {
		t.Errorf("failure reads %q", f)
	}
	f.Reason = "no answer within 2 s"
	if f.Error() != "no answer within 2 s" {
		t.Errorf("failure reads %q", f)
	}
}
