package store_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// schema returns the definitions of everything in the store, one per
// paragraph, without comments and layout.
func schema(t *testing.T, s *store.Store) string {
	t.Helper()
	var b strings.Builder
	err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, "SELECT type, name, sql FROM sqlite_schema WHERE sql IS NOT NULL ORDER BY type, name")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var kind, name, text string
			if err := rows.Scan(&kind, &name, &text); err != nil {
				return err
			}
			fmt.Fprintf(&b, "%s %s\n", kind, name)
			for line := range strings.Lines(text) {
				line, _, _ = strings.Cut(line, "--")
				if line = strings.Join(strings.Fields(line), " "); line != "" {
					fmt.Fprintf(&b, "\t%s\n", line)
				}
			}
		}
		return rows.Err()
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// migrated returns the path of a store that every migration was applied to.
func migrated(t *testing.T) string {
	t.Helper()
	names, err := store.Migrations("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := store.MigrateTo(t.Context(), path, len(names))
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// An empty file gets its tables by one text. It holds what the migrations make, in the
// order in which they make it.
func TestSchemaIsWhatMigrationsMake(t *testing.T) {
	var b strings.Builder
	b.WriteString("-- What the migrations make of an empty file. It is written by a test: go test -run SchemaIsWhat -update\n")
	s := open(t, store.Options{Path: migrated(t)})
	if err := s.View(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		rows, err := tx.Query(ctx, "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' ORDER BY rowid")
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				return err
			}
			fmt.Fprintf(&b, "\n%s;\n", text)
		}
		return rows.Err()
	}); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("schema", "sqlite.sql")
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("schema of an empty file (-want +got):\n%s", diff)
	}
}

func TestSchemaIsWhatIsWrittenDown(t *testing.T) {
	got := schema(t, open(t, store.Options{Path: migrated(t)}))
	golden := filepath.Join("testdata", "schema.golden")
	if *update {
		if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
}

func TestEveryEarlierVersionIsMigrated(t *testing.T) {
	names, err := store.Migrations("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	want := schema(t, open(t, store.Options{}))
	// What each version may already hold, and must still hold afterwards.
	content := []string{
		"INSERT INTO meta VALUES ('k', 'v', 1)",
		"INSERT INTO capability VALUES ('cap_x', 'files', 'tool', 'read', 1)",
		"INSERT INTO catalog VALUES ('files', '', 'spec', 'body', 'mac', 9000000000000000000)",
		"INSERT INTO round VALUES ('call-1', 1, 9000000000000000000)",
		"INSERT INTO generation VALUES ('mode', 7)",
		"INSERT INTO tenant_tool_flags VALUES ('acme', 'cap_x', 1, 'op', 'because', 1)",
		"INSERT INTO dynamic_servers (server, tenant, principal, entry, arguments, promoted, actor, reason, created_at, changed_at) VALUES ('git', 't', 'p', 'e', x'', 0, 'op', '', 1, 1)",
		"INSERT INTO operating_mode (mode, actor, reason, at) VALUES ('ALERT', 'op', '', 1)",
		"INSERT INTO approvals (id, principal, capability_id, args_hash, state, asked_at, expires_at, decided_by, reason, decided_at, closed_at) VALUES ('apr_x', 'p', 'c', 'h', 'pending', 1, 9000000000000000000, '', '', 0, 0)",
		"UPDATE approvals SET details = 'd' WHERE id = 'apr_x'",
		"INSERT INTO budget_window VALUES ('b', 'calls/hour', 'o', 1, 9, 5)",
		"INSERT INTO audit_anchor VALUES ('r', 'run', 'c', 7, 'mac', 1)",
		"INSERT INTO credential VALUES ('id', 'linear', x'61', 'https://as', 'https://r', 'read', x'00', 3, '', 0, 1)",
		"INSERT INTO declared_tools VALUES ('tools__a', x'00', 'op', '', 1)",
		"INSERT INTO memories VALUES ('p', 'm', 'note', '', 'body', 1, 9000000000000000000)",
		"INSERT INTO dynamic_tools (name, registered_by_tenant, principal, template, body, actor, reason, created_at, changed_at) VALUES ('dynamic-x__a', 't', 'p', 'tools__a', x'00', 'op', '', 1, 1)",
		"INSERT INTO schedules VALUES ('sch_x', 'p', '', '', 't', x'7b7d', 'planned', 9000000000000000000, 1, '', 0, 0, '', x'')",
		"INSERT INTO persona_tool_restrictions VALUES ('bot', 'cap_x', 'op', '', 1, 1)",
		"INSERT INTO tool_definitions VALUES ('cap_x', 'h', x'7b7d', 1, 'op', '')",
		"INSERT INTO tool_execution_log (id, at, call_id, server, tool, tenant, persona_id, session_id, success, error_class, duration_us, upstream_us, request_size, response_size, args_hash, principal) VALUES (1, 1, 'call', 's', 't', 'default', '', '', 1, '', 1, 1, 1, 1, '', 'h')",
		"INSERT INTO tool_execution_log VALUES (2, 1, 'call', 's', 't', 'default', '', '', 1, '', 1, 1, 1, 1, '', 'h', 9)",
		"INSERT INTO vector VALUES ('m', 't', x'01', 9000000000000000000)",
		"INSERT INTO search_models (tenant, model, trained_at) VALUES ('t', x'00', 1)",
		"INSERT INTO search_forgotten VALUES ('t', 9000000000000000000)",
		"INSERT INTO runs VALUES ('run_x', x'70', '', 1, '', 'a', 'limit', 0, x'00', x'00', 0, '', 0, 1, 9000000000000000000)",
		"INSERT INTO members (id, address, version, wire, draining, sessions, calls, started_at, lease) VALUES ('m', '127.0.0.1:1', '1', 1, 0, 0, 0, 1, 9000000000000000000)",
		"INSERT INTO session_states VALUES ('s', x'00', 9000000000000)",
		"INSERT INTO server_claims VALUES ('s', 'm')",
		"INSERT INTO members VALUES ('n', '127.0.0.1:2', '1', 1, 0, 0, 0, 1, 9000000000000000000, 1, 1)",
		"INSERT INTO runs VALUES ('run_y', x'70', '', 1, '', 'a', 'running', 0, x'00', x'00', 0, '', 0, 2, 9000000000000000000)",
		"UPDATE dynamic_tools SET registered_by_persona = 'bot'",
	}
	if len(content) != len(names) {
		t.Fatalf("%d migrations and %d contents: say what migration %s can hold", len(names), len(content), names[len(names)-1])
	}
	for n := range len(names) + 1 {
		t.Run(fmt.Sprintf("from %d", n), func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "store.db")
			db, err := store.MigrateTo(t.Context(), path, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range content[:n] {
				if _, err := db.Exec(text); err != nil {
					t.Fatal(err)
				}
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			s := open(t, store.Options{Path: path})
			if diff := cmp.Diff(want, schema(t, s)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
			requireContent(t, s, n)
		})
	}
}

// requireContent checks that the first n contents can be read through their
// handles.
func requireContent(t *testing.T, s *store.Store, n int) {
	t.Helper()
	ctx := t.Context()
	_, meta, err := s.Meta().Get(ctx, "k")
	if err != nil {
		t.Fatal(err)
	}
	_, capability, err := s.Capabilities().Key(ctx, "cap_x")
	if err != nil {
		t.Fatal(err)
	}
	_, catalog, err := s.Catalogs().Load(ctx, "files", "", "spec")
	if err != nil {
		t.Fatal(err)
	}
	round, err := s.Rounds().Use(ctx, "call-1", 1, time.Now().Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	generation, err := s.Generation(ctx, store.TopicMode)
	if err != nil {
		t.Fatal(err)
	}
	flags, _, err := s.Flags().List(ctx, "acme")
	if err != nil {
		t.Fatal(err)
	}
	_, server, err := s.Dynamic().Get(ctx, "git")
	if err != nil {
		t.Fatal(err)
	}
	_, mode, err := s.Modes().Current(ctx)
	if err != nil {
		t.Fatal(err)
	}
	asked, approval, err := s.Approvals().Get(ctx, "apr_x")
	if err != nil {
		t.Fatal(err)
	}
	totals, err := s.Budgets().Totals(ctx, 1, "b", "o", 1)
	if err != nil {
		t.Fatal(err)
	}
	heads, err := s.Anchors().List(ctx, "r")
	if err != nil {
		t.Fatal(err)
	}
	credential, _, err := s.Credentials().Find(ctx, "linear", "a")
	if err != nil {
		t.Fatal(err)
	}
	declared, _, err := s.Declared().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	notes, err := store.NewMemories(s).List(ctx, "p", store.MemoryNote)
	if err != nil {
		t.Fatal(err)
	}
	registered, _, err := s.Dynamic().Tools().List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	planned, err := store.NewSchedules(s).List(ctx, "p")
	if err != nil {
		t.Fatal(err)
	}
	restrictions, _, err := s.Restrictions().List(ctx, "bot")
	if err != nil {
		t.Fatal(err)
	}
	history, err := s.Registry().History(ctx, "cap_x")
	if err != nil {
		t.Fatal(err)
	}
	var calls, saved int
	if err := s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
		return tx.QueryRow(ctx, "SELECT count(*), coalesce(sum(bytes_saved), 0) FROM tool_execution_log WHERE principal = 'h'").Scan(&calls, &saved)
	}); err != nil {
		t.Fatal(err)
	}
	vectors, err := store.NewVectors(s).Load(ctx, "m", []string{"t"})
	if err != nil {
		t.Fatal(err)
	}
	models, err := store.NewLearning(s).Models(ctx)
	if err != nil {
		t.Fatal(err)
	}
	searches := []store.SearchPair{{Tenant: "t", At: time.Now()}}
	if err := store.NewLearning(s).Add(ctx, searches); err != nil {
		t.Fatal(err)
	}
	learnable, err := store.NewLearning(s).Pairs(ctx, "t")
	if err != nil {
		t.Fatal(err)
	}
	got := []bool{
		meta, capability, catalog, !round, generation == 7, len(flags) == 1, server, mode, approval, asked.Details == "d", len(totals) == 1, len(heads) == 1, credential.Version == 3,
		len(declared) == 1, len(notes) == 1, len(registered) == 1, len(planned) == 1 && planned[0].Tool == "t", len(restrictions) == 1, len(history) == 1, calls > 0, saved == 9, len(vectors) == 1,
		len(models) == 1, len(learnable.Pairs) == 0,
	}
	want := make([]bool, len(got))
	for i := range want {
		want[i] = n > i
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("found what each version can hold (-want +got):\n%s", diff)
	}
}

// The same version means the same in every database.
func TestMigrationsHaveTheSameNames(t *testing.T) {
	sqlite, err := store.Migrations("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	postgres, err := store.Migrations("postgres")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sqlite, postgres); diff != "" {
		t.Errorf("migrations (-sqlite +postgres):\n%s", diff)
	}
}

func TestFailedMigrationLeavesTheVersionBefore(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := store.MigrateTo(t.Context(), path, 1)
	if err != nil {
		t.Fatal(err)
	}
	// A table that blocks the third migration; the second succeeds.
	if _, err := db.Exec("CREATE TABLE catalog (x)"); err != nil {
		t.Fatal(err)
	}
	if _, err := store.Open(t.Context(), store.Options{Path: path}); err == nil || !strings.Contains(err.Error(), "0003_catalogs") {
		t.Fatalf("error = %v, want one that names the migration", err)
	}
	var version int
	if err := db.QueryRow("PRAGMA user_version").Scan(&version); err != nil || version != 2 {
		t.Errorf("version = %d, %v; want 2", version, err)
	}
	if _, err := db.Exec("DROP TABLE catalog"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, store.Options{Path: path}) // goes on where it stopped
}

func TestNewerSchemaIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	names, err := store.Migrations("sqlite")
	if err != nil {
		t.Fatal(err)
	}
	db, err := store.MigrateTo(t.Context(), path, len(names))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(fmt.Sprintf("PRAGMA user_version=%d", len(names)+1)); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, readOnly := range []bool{false, true} {
		_, err := store.Open(t.Context(), store.Options{Path: path, ReadOnly: readOnly})
		if err == nil || !strings.Contains(err.Error(), "newer toolgate") || !strings.Contains(err.Error(), path) {
			t.Errorf("read-only %v: %v, want an error that names the file and says newer toolgate", readOnly, err)
		}
	}
}

func TestReaderDoesNotMigrate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	db, err := store.MigrateTo(t.Context(), path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = store.Open(t.Context(), store.Options{Path: path, ReadOnly: true})
	if err == nil || !strings.Contains(err.Error(), "start toolgate once") {
		t.Errorf("error = %v, want what to do", err)
	}
}
