package audit_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/audit"
)

// What OCSF 1.3.0 requires of an event of the class API Activity is there for every
// kind of entry, each enumeration has a value that it knows, and its caption fits.
func TestOCSF(t *testing.T) {
	refused := audit.Entry{Outcome: audit.OutcomeDenied, Method: "tools/call", CallID: "c"} // a name that nobody knows
	for name, c := range map[string]struct {
		entry audit.Entry
		want  []any // action, action_id, disposition_id, status, status_id, operation
	}{
		"allowed":   {audit.Entry{Outcome: audit.OutcomeOK, Method: "tools/call", OriginalName: "read", CallID: "c"}, []any{"Allowed", 1.0, 1.0, "Success", 1.0, "read"}},
		"failed":    {audit.Entry{Outcome: audit.OutcomeToolError, Method: "tools/call", OriginalName: "read", CallID: "c"}, []any{"Allowed", 1.0, 1.0, "Failure", 2.0, "read"}},
		"refused":   {refused, []any{"Denied", 2.0, 2.0, "Failure", 2.0, "tools/call"}},
		"unknown":   {audit.Entry{Outcome: audit.OutcomeUnknown, Method: "ping", CallID: "c"}, []any{"Allowed", 1.0, 1.0, "Unknown", 0.0, "ping"}},
		"beginning": {audit.Entry{Event: audit.EventBegin, Method: "ping", CallID: "c"}, []any{"Allowed", 1.0, 1.0, "Unknown", 0.0, "ping"}},
		"a change":  {audit.Entry{Event: audit.EventChange, Outcome: audit.OutcomeOK, Method: "toolgate/mode"}, []any{nil, nil, nil, "Success", 1.0, "toolgate/mode"}},
	} {
		var b bytes.Buffer
		write, end, err := audit.NewExporter(&b, "ocsf", "1")
		if err != nil {
			t.Fatal(err)
		}
		if err := write(&audit.Record{Entry: c.entry}); err != nil || end() != nil {
			t.Fatal(err)
		}
		var got map[string]any
		if err := json.Unmarshal(b.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		for _, required := range []string{"activity_id", "actor", "api", "category_uid", "class_uid", "metadata", "severity_id", "src_endpoint", "time", "type_uid"} {
			if got[required] == nil {
				t.Errorf("%s: there is no %s", name, required)
			}
		}
		at := func(object, key string) any { return got[object].(map[string]any)[key] }
		if got["type_uid"] != 600399.0 || at("src_endpoint", "name") == "" || at("metadata", "version") != "1.3.0" {
			t.Errorf("%s: %s", name, b.Bytes())
		}
		if diff := cmp.Diff([]any{"security_control"}, at("metadata", "profiles")); diff != "" {
			t.Errorf("%s: profiles (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(c.want, []any{got["action"], got["action_id"], got["disposition_id"], got["status"], got["status_id"], at("api", "operation")}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
