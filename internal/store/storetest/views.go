package storetest

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

// views are what people query by the names of the source documents. They show what is
// stored, and nothing can be written through them.
func views(t *testing.T, s *store.Store) {
	ctx := t.Context()
	err := s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		for _, insert := range []struct {
			query string
			args  []any
		}{
			{
				`INSERT INTO tool_catalog (capability_id, name, display_name, description, category, kind, server, original, is_enabled, provider, source,
				schema, risk, definition_hash, accepted_hash, held_hash, state, flagged, actor, reason, first_seen, changed_at)
				VALUES ('cap_v', ?, 'Read', 'Reads', 'io', 'tool', 's', ?, ?, 'mcp', 'discovery', ?, '', '', '', '', 'active', '[]', 'op', '', 1000000000, 2000000000)`,
				[]any{[]byte("s__read"), []byte("read"), true, []byte(`{"type":"object"}`)},
			},
			{`INSERT INTO tenant_tool_flags VALUES ('acme', 'cap_v', ?, 'op', '', 1000000000)`, []any{true}},
		} {
			if _, err := tx.Exec(ctx, insert.query, insert.args...); err != nil {
				return err
			}
		}
		return nil
	})
	must(t, err)
	must(t, s.Restrictions().Allow(ctx, "bot", by, "cap_v"))
	must(t, s.Dynamic().Tools().Put(ctx, &store.DynamicTool{
		Name: "s__read", Owner: store.Owner{Tenant: "acme", Principal: "p"}, Persona: "bot", Template: "tools__look", Change: by,
	}, 1))
	_, err = s.Dynamic().Add(ctx, store.DynamicRecord{Server: "git", Owner: store.Owner{Tenant: "acme", Principal: "p"}, Persona: "bot", Entry: "forge", Change: by}, 1)
	must(t, err)
	for query, want := range map[string]string{
		"SELECT id || ' ' || name || ' ' || display_name || ' ' || category || ' ' || provider FROM capability_view WHERE is_enabled":                                                             "cap_v s__read Read io mcp",
		"SELECT name || ' ' || description || ' ' || params || ' ' || source FROM tool_catalog_view WHERE enabled":                                                                                `s__read Reads {"type":"object"} mcp`,
		"SELECT tenant_id || ' ' || tool_name FROM tenant_tool_flags_view WHERE enabled":                                                                                                          "acme s__read",
		"SELECT persona_id || ' ' || tool_name || ' ' || reason FROM persona_tool_restrictions_view WHERE allowed":                                                                                "bot s__read " + by.Reason,
		"SELECT CAST(COUNT(*) AS TEXT) FROM tool_execution_log_view WHERE success AND duration_ms >= 0 AND error_message = ''":                                                                    "0",
		"SELECT name || ' ' || registered_by_tenant || ' ' || registered_by_persona || ' ' || source_url || ' ' || input_schema FROM dynamic_tools_view WHERE enabled AND source_type = 'custom'": `s__read acme bot tools__look {"type":"object"}`,
		"SELECT name || ' ' || registered_by_persona || ' ' || source_url || ' ' || input_schema FROM dynamic_tools_view WHERE enabled AND source_type = 'mcp'":                                   "git bot forge {}",
	} {
		got := ""
		err := s.View(ctx, func(ctx context.Context, tx *store.Tx) error {
			rows, err := tx.Query(ctx, query)
			if err != nil {
				return err
			}
			defer rows.Close()
			for rows.Next() {
				if err := rows.Scan(&got); err != nil {
					return err
				}
			}
			return rows.Err()
		})
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", query, err, diff)
		}
	}
	for _, write := range []string{
		"DELETE FROM capability_view", "UPDATE tool_catalog_view SET description = ''", "DELETE FROM tenant_tool_flags_view",
		"UPDATE persona_tool_restrictions_view SET reason = ''", "DELETE FROM tool_execution_log_view", "DELETE FROM dynamic_tools_view",
	} {
		err := s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
			_, err := tx.Exec(ctx, write)
			return err
		})
		if err == nil {
			t.Errorf("%s is allowed", write)
		}
	}
}
