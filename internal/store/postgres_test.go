package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolgate/toolgate/internal/store"
	"github.com/toolgate/toolgate/internal/store/storetest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// pair opens two stores on one database, with their writers running.
func pair(t *testing.T) (a, b *store.Store) {
	t.Helper()
	url := shared.URL(t)
	a, b = open(t, store.Options{URL: url}), open(t, store.Options{URL: url})
	run(t, a)
	run(t, b)
	return a, b
}

func TestTwoGatewaysAgree(t *testing.T) {
	a, b := pair(t)
	ctx := context.Background()
	for i := range 5 {
		storetest.ApprovalRace(t, store.ApprovalKey{Principal: "p", CapabilityID: "c", ArgsHash: fmt.Sprint(i)}, a, b)
		until := time.Now().Add(time.Hour)
		if n := storetest.Race(t, 4, func(s *store.Store) (bool, error) { return s.Rounds().Use(ctx, "call", i, until) }, a, b); n != 1 {
			t.Errorf("round used %d times first, want 1", n)
		}
		if n := storetest.Race(t, 4, func(s *store.Store) (bool, error) {
			_, stored, err := s.Meta().PutIfAbsent(ctx, fmt.Sprint("k", i), []byte("v"))
			return stored, err
		}, a, b); n != 1 {
			t.Errorf("stored %d times, want 1", n)
		}
	}
	storetest.ClaimRace(t, a, b)
	keys := make([]store.CapabilityKey, 300)
	for i := range keys {
		keys[i] = store.CapabilityKey{Server: "s", Kind: "tool", Original: fmt.Sprint(i)}
	}
	var mu sync.Mutex
	var want []string
	storetest.Race(t, 3, func(s *store.Store) (bool, error) {
		ids, err := s.Capabilities().IDs(ctx, keys)
		mu.Lock()
		defer mu.Unlock()
		if want == nil {
			want = ids
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("ids (-first +other):\n%s", diff)
		}
		return true, err
	}, a, b)
}

// Two gateways read, decide and write at once: nothing is undone.
func TestTwoGatewaysDoNotUndoEachOther(t *testing.T) {
	a, b := pair(t)
	ctx := context.Background()
	counter := store.RegistryRecord{
		ID: "cap_n", Kind: "tool", Server: "s", Original: "o", Name: "n", Provider: store.ProviderMCP,
		Source: "discovery", State: store.StateActive, Change: store.Change{Actor: "op"},
	}
	storetest.Race(t, 25, func(s *store.Store) (bool, error) {
		return true, s.Registry().Update(ctx, []string{"cap_n"}, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
			r, ok := existing["cap_n"]
			if !ok {
				r = counter
			}
			r.Flagged = append(r.Flagged, "x")
			return []store.RegistryRecord{r}, nil
		})
	}, a, b)
	r, _, err := a.Registry().Get(ctx, "cap_n")
	if err != nil || len(r.Flagged) != 50 {
		t.Errorf("%d of 50 updates are left, %v", len(r.Flagged), err)
	}
	if g, err := b.Generation(ctx, store.TopicRegistry); err != nil || g == 0 || g > 50 {
		t.Errorf("generation %d, %v", g, err)
	}
}

// While one gateway decides by what it has read no other changes that.
func TestUpdateKeepsOthersOut(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	ctx := context.Background()
	r := store.RegistryRecord{
		ID: "cap_n", Kind: "tool", Server: "s", Original: "o", Name: "n", Provider: store.ProviderMCP,
		Source: "discovery", State: store.StateActive, Enabled: true, Change: store.Change{Actor: "discovery"},
	}
	if err := a.Registry().Upsert(ctx, []store.RegistryRecord{r}); err != nil {
		t.Fatal(err)
	}
	read, disabled := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(disabled)
		<-read
		if ok, err := b.Registry().SetEnabled(ctx, "cap_n", false, store.Change{Actor: "op"}); !ok || err != nil {
			t.Errorf("SetEnabled = %v, %v", ok, err)
		}
	})
	signal := sync.OnceFunc(func() { close(read) })
	err := a.Registry().Update(ctx, []string{"cap_n"}, func(existing map[string]store.RegistryRecord) ([]store.RegistryRecord, error) {
		signal()
		select {
		case <-disabled:
			t.Error("the other gateway was let in")
		case <-time.After(300 * time.Millisecond):
		}
		r := existing["cap_n"]
		r.Description = "new"
		return []store.RegistryRecord{r}, nil
	})
	if err != nil {
		t.Error(err)
	}
	all.Wait()
	if r, _, err := a.Registry().Get(ctx, "cap_n"); err != nil || r.Enabled || r.Description != "new" {
		t.Errorf("enabled %v, description %q, %v; want what both have written", r.Enabled, r.Description, err)
	}
}

// Two gateways that lock the same rows in opposite order are in a deadlock. The server
// ends it by refusing one, which is tried again.
func TestDeadlockIsTriedAgain(t *testing.T) {
	a, b := pair(t)
	ctx := context.Background()
	for _, k := range []string{"x", "y"} {
		if err := a.Meta().Put(ctx, k, []byte{0}); err != nil {
			t.Fatal(err)
		}
	}
	touch := func(ctx context.Context, tx *store.Tx, key string) error {
		_, err := tx.Exec(ctx, `UPDATE meta SET updated_at = updated_at + 1 WHERE key = ?`, key)
		return err
	}
	var met sync.WaitGroup
	met.Add(2)
	var attempts atomic.Int32
	var all sync.WaitGroup
	for _, w := range []struct {
		s             *store.Store
		first, second string
	}{{a, "x", "y"}, {b, "y", "x"}} {
		all.Go(func() {
			meet := sync.OnceFunc(func() { met.Done(); met.Wait() })
			err := w.s.Do(ctx, func(ctx context.Context, tx *store.Tx) error {
				attempts.Add(1)
				if err := touch(ctx, tx, w.first); err != nil {
					return err
				}
				meet()
				return touch(ctx, tx, w.second)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := attempts.Load(); n < 3 {
		t.Errorf("%d attempts: there was no deadlock to try this with", n)
	}
}

func TestOtherGatewayIsNotified(t *testing.T) {
	t.Parallel()
	a, b := pair(t)
	store.PollNever(b)
	reports := storetest.StartWatch(t, b)
	for i := range int64(5) {
		if err := a.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
			t.Fatal(err)
		}
		storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: i + 1})
	}
}

// Changes while the listening connection is down are reported when it is back.
func TestLostListenerCostsNoChange(t *testing.T) {
	t.Parallel()
	url := shared.URL(t)
	a, b := open(t, store.Options{URL: url}), open(t, store.Options{URL: url + "&application_name=watcher"})
	store.PollNever(b)
	reports := storetest.StartWatch(t, b)
	for i := range int64(3) {
		// All of b's connections, the one that listens among them.
		shared.Exec(t, "postgres", `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'watcher'`)
		if err := a.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
			t.Fatal(err)
		}
		storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: i + 1})
	}
}

// Without notifications, as behind a connection pooler, polling is enough.
func TestLostNotificationsCostNoChange(t *testing.T) {
	t.Parallel()
	url := shared.URL(t)
	a := open(t, store.Options{URL: url})
	reports := storetest.StartWatch(t, open(t, store.Options{URL: url}))
	for i := range int64(3) {
		err := a.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
			// A change without the notification.
			_, err := tx.Exec(ctx, `INSERT INTO generation (topic, generation) VALUES ('mode', 1)
				ON CONFLICT (topic) DO UPDATE SET generation = generation.generation + 1`)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: i + 1})
	}
}

// A server that crashes while gateways write loses nothing that was acknowledged, and
// is used again when it is back, without a restart of ours.
func TestServerMayCrash(t *testing.T) {
	server := storetest.StartPostgres(t)
	url := server.URL(t)
	a, b := open(t, store.Options{URL: url}), open(t, store.Options{URL: url})
	run(t, a)
	reports := storetest.StartWatch(t, b)
	ctx := context.Background()
	for crash := range 2 {
		var mu sync.Mutex
		var acknowledged []string
		var failed atomic.Int32
		var all sync.WaitGroup
		for g := range 4 {
			all.Go(func() {
				for i := 0; failed.Load() < 8; i++ {
					key := fmt.Sprintf("%d/%d/%d", crash, g, i)
					err := a.Meta().Put(ctx, key, []byte("v"))
					if err == nil {
						mu.Lock()
						acknowledged = append(acknowledged, key)
						mu.Unlock()
						continue
					}
					failed.Add(1)
					if !strings.Contains(err.Error(), "server") {
						t.Errorf("error %q does not speak of the server", err)
					}
				}
			})
		}
		testwait.Until(t, patience, "writes", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(acknowledged) > 100
		})
		server.Kill(t)
		all.Wait()
		if _, _, err := a.Meta().Get(ctx, "k"); err == nil || !strings.Contains(err.Error(), "cannot connect") {
			t.Errorf("a read without a server: %v", err)
		}
		server.Start(t)
		for _, key := range acknowledged {
			if _, ok, err := a.Meta().Get(ctx, key); !ok || err != nil {
				t.Fatalf("%s was acknowledged: found %v, %v", key, ok, err)
			}
		}
		if err := a.Modes().Set(ctx, "ALERT", store.Change{Actor: "op"}); err != nil {
			t.Errorf("the first write after the crash: %v", err)
		}
		storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: int64(crash) + 1})
	}
}

func TestGatewaysThatStartTogetherMigrateOnce(t *testing.T) {
	url := shared.URL(t)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			s, err := store.Open(context.Background(), store.Options{URL: url})
			if err != nil {
				t.Error(err)
				return
			}
			if err := errors.Join(s.Check(context.Background()), s.Close()); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
}

// An empty database gets in one transaction what the migrations make one after the
// other. A database that holds something else gets it in steps, with the same end.
func TestPostgresIsMadeAsMigrationsMakeIt(t *testing.T) {
	url := shared.URL(t)
	shared.Exec(t, database(url), `CREATE SCHEMA stepped; CREATE SCHEMA whole; CREATE SCHEMA used; CREATE TABLE used.theirs (x INT)`)
	db, err := store.MigratePostgres(t.Context(), url+"&search_path=stepped")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	definitions := func(schema string) (all []string) {
		t.Helper()
		const q = `SELECT 'column ' || table_name || '.' || concat_ws(' ', column_name, ordinal_position, data_type, collation_name, is_nullable, column_default, identity_generation) AS x
				FROM information_schema.columns WHERE table_schema = $1 AND table_name <> 'theirs'
			UNION ALL SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = $1
			UNION ALL SELECT 'view ' || viewname || ' ' || definition FROM pg_views WHERE schemaname = $1
			UNION ALL SELECT 'constraint ' || conrelid::regclass || ' ' || pg_get_constraintdef(oid) FROM pg_constraint WHERE connamespace = $1::regnamespace
			UNION ALL SELECT pg_get_functiondef(oid) FROM pg_proc WHERE pronamespace = $1::regnamespace
			ORDER BY x`
		rows, err := db.QueryContext(t.Context(), q, schema)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var text string
			if err := rows.Scan(&text); err != nil {
				t.Fatal(err)
			}
			all = append(all, strings.ReplaceAll(text, schema+".", ""))
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		slices.Sort(all)
		return all
	}
	want := definitions("stepped")
	if len(want) < 100 {
		t.Fatalf("the migrations made %d things", len(want))
	}
	for _, schema := range []string{"whole", "used"} {
		if err := open(t, store.Options{URL: url + "&search_path=" + schema}).Check(t.Context()); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, definitions(schema)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", schema, diff)
		}
	}
}

func TestTwoSchemasAreTwoStores(t *testing.T) {
	url := shared.URL(t)
	one := open(t, store.Options{URL: url})
	shared.Exec(t, database(url), `CREATE SCHEMA other`)
	two := open(t, store.Options{URL: url + "&search_path=other"})
	if err := one.Meta().Put(t.Context(), "k", []byte("v")); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := two.Meta().Get(t.Context(), "k"); ok || err != nil {
		t.Errorf("found %v, %v", ok, err)
	}
	_, err := store.Open(t.Context(), store.Options{URL: url + "&search_path=nowhere"})
	if err == nil || !strings.Contains(err.Error(), "names no schema") {
		t.Errorf("error = %v", err)
	}
}

// database returns the name in the address of a database.
func database(url string) string {
	_, rest, _ := strings.Cut(url, "@/")
	name, _, _ := strings.Cut(rest, "?")
	return name
}

func TestPostgresThatCannotBeUsedIsExplained(t *testing.T) {
	const secret = "s3cr-et_pass"
	url := shared.URL(t)
	name := database(url)
	role := "r" + name
	shared.Exec(t, name, `DO $$ BEGIN CREATE ROLE secret; EXCEPTION WHEN duplicate_object THEN NULL; END $$`)
	shared.Exec(t, name, `CREATE ROLE `+role+` LOGIN PASSWORD '`+secret+`' IN ROLE secret`)
	shared.Exec(t, name, `CREATE ROLE poor`+role+` LOGIN`)
	shared.Exec(t, "postgres", `CREATE DATABASE ascii`+name+` ENCODING 'SQL_ASCII' TEMPLATE template0`)
	current := shared.URL(t)
	open(t, store.Options{URL: current})
	newer, taken := shared.URL(t), shared.URL(t)
	open(t, store.Options{URL: newer})
	shared.Exec(t, database(newer), `UPDATE toolgate_schema SET version = version + 1`)
	shared.Exec(t, database(taken), `CREATE TABLE capability (x INT)`)
	empty := t.TempDir()
	for what, tc := range map[string]struct {
		options store.Options
		say     []string
	}{
		"no server":       {store.Options{URL: "postgres://u:" + secret + "@/db?host=" + empty}, []string{"cannot connect", "check that the server runs", "u@"}},
		"no port":         {store.Options{URL: "postgres://u:" + secret + "@127.0.0.1:1/db"}, []string{"cannot connect", "postgres://u@127.0.0.1:1/db"}},
		"wrong password":  {store.Options{URL: shared.Address(role, secret+"x", name)}, []string{"refuses the user or the password", role}},
		"no database":     {store.Options{URL: shared.Address(storetest.Superuser, secret, "none")}, []string{"the database does not exist"}},
		"no permission":   {store.Options{URL: shared.Address("poor"+role, secret, name)}, []string{"the user lacks a permission", "GRANT"}},
		"encoding":        {store.Options{URL: shared.Address(storetest.Superuser, secret, "ascii"+name)}, []string{"SQL_ASCII", "ENCODING 'UTF8'"}},
		"newer":           {store.Options{URL: newer}, []string{"newer toolgate", database(newer)}},
		"newer, reading":  {store.Options{URL: newer, ReadOnly: true}, []string{"newer toolgate"}},
		"reading nothing": {store.Options{URL: url, ReadOnly: true}, []string{"start toolgate once"}},
		"table in the way": {
			store.Options{URL: taken},
			[]string{"0002_capabilities", "did not make", "a schema of its own"},
		},
		"both":       {store.Options{URL: url, Path: "x"}, []string{"not both"}},
		"no address": {store.Options{URL: "mysql://u:" + secret + "@h/db"}, []string{"postgres://user:password@"}},
		"no scheme":  {store.Options{URL: "host=h password=" + secret}, []string{"postgres://user:password@"}},
		"at sign":    {store.Options{URL: "postgres://u:x@" + secret + "@h/db"}, []string{"cannot be read"}},
		"slash":      {store.Options{URL: "postgres://u:1/" + secret + "@h/db"}, []string{"cannot be read"}},
		"colon":      {store.Options{URL: "postgres://u:1:" + secret + "/db"}, []string{"cannot be read"}},
		"percent":    {store.Options{URL: "postgres://u:%zz" + secret + "@h/db"}, []string{"cannot be read"}},
	} {
		_, err := store.Open(t.Context(), tc.options)
		if err == nil {
			t.Errorf("%s: no error", what)
			continue
		}
		for _, say := range tc.say {
			if !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(say)) {
				t.Errorf("%s: error %q does not say %q", what, err, say)
			}
		}
		if strings.Contains(fmt.Sprintf("%v %+v", err, err), secret) {
			t.Errorf("%s: the error has the password: %v", what, err)
		}
		// With Await, a server that refuses is still an error.
		tc.options.Await = true
		switch s, err := store.Open(t.Context(), tc.options); {
		case what == "no server" || what == "no port":
			if err != nil {
				t.Errorf("%s, awaited: %v", what, err)
				continue
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		case err == nil:
			t.Errorf("%s: it is waited for", what)
		}
	}
	// The right password, which nothing prints.
	shared.Exec(t, name, `GRANT ALL ON SCHEMA public TO `+role)
	var log bytes.Buffer
	s := open(t, store.Options{URL: shared.Address(role, secret, name), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	for _, text := range []string{s.Path(), log.String(), fmt.Sprintf("%v %+v", s, s)} {
		if strings.Contains(text, secret) {
			t.Errorf("the password is printed: %.2000s", text)
		}
	}
}

func TestReaderOfPostgresCannotWrite(t *testing.T) {
	url := shared.URL(t)
	w := open(t, store.Options{URL: url})
	r := open(t, store.Options{URL: url, ReadOnly: true})
	reports := storetest.StartWatch(t, r)
	if err := w.Modes().Set(t.Context(), "ALERT", store.Change{Actor: "op"}); err != nil {
		t.Fatal(err)
	}
	storetest.Await(t, reports, storetest.Report{Topic: store.TopicMode, Generation: 1})
	if err := r.Modes().Set(t.Context(), "NORMAL", store.Change{Actor: "op"}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("a write of a reader = %v, want ErrReadOnly", err)
	}
}

func TestSlowStatementEnds(t *testing.T) {
	t.Parallel()
	url := shared.URL(t)
	open(t, store.Options{URL: url}) // makes the tables, which may take longer
	s := open(t, store.Options{URL: url + "&statement_timeout=500"})
	sleep := func(ctx context.Context, tx *store.Tx) error {
		_, err := tx.Query(ctx, "SELECT pg_sleep(60)")
		return err
	}
	for name, do := range map[string]func(context.Context, func(context.Context, *store.Tx) error) error{"Do": s.Do, "View": s.View} {
		if err := do(t.Context(), sleep); err == nil || !strings.Contains(err.Error(), "did not answer in time") {
			t.Errorf("%s = %v", name, err)
		}
	}
	patient := open(t, store.Options{URL: url})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := patient.View(ctx, sleep); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("View = %v, want the end of its context", err)
	}
	if err := patient.Meta().Put(t.Context(), "k", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// A write whose commit is not acknowledged is neither done nor not done.
func TestUnansweredCommitIsUncertain(t *testing.T) {
	url := shared.URL(t)
	open(t, store.Options{URL: url})
	var cut atomic.Bool
	s := open(t, store.Options{URL: through(t, url, &cut)})
	tries := 0
	cut.Store(true)
	err := s.Do(t.Context(), func(ctx context.Context, tx *store.Tx) error {
		tries++
		return put("k")(ctx, tx)
	})
	if !errors.Is(err, store.ErrUncertain) || tries != 1 {
		t.Errorf("Do = %v after %d tries, want ErrUncertain after 1", err, tries)
	}
	cut.Store(false)
	if err := s.Meta().Put(t.Context(), "other", nil); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// through returns the address of a way to the database of url that ends, while
// cut is set, when a commit has been passed on.
func through(t *testing.T, url string, cut *atomic.Bool) string {
	t.Helper()
	head, folder, _ := strings.Cut(url, "?host=")
	folder = strings.ReplaceAll(folder, "%2F", "/")
	dir, err := os.MkdirTemp("", "store") //nolint:usetesting // a path to a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
		os.RemoveAll(dir)
	})
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("unix", filepath.Join(folder, ".s.PGSQL.5432"))
			if err != nil {
				client.Close()
				continue
			}
			all.Go(func() { pass(server, client, cut) })
			all.Go(func() { pass(client, server, new(atomic.Bool)) })
		}
	})
	return head + "?host=" + dir
}

// pass copies from one connection to the other until either ends.
func pass(to, from net.Conn, cut *atomic.Bool) {
	defer to.Close()
	defer from.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		if n > 0 {
			commit := cut.Load() && bytes.Contains(b[:n], []byte("commit\x00"))
			if commit {
				from.Close() // before the answer can come
			}
			if _, err := to.Write(b[:n]); err != nil || commit {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
