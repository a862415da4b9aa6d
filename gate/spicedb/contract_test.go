package spicedb_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/testwait"
)

func TestMain(m *testing.M) {
	testwait.AtOnce(0, 24)
	goleak.VerifyTestMain(m)
}

func TestContractBuiltin(t *testing.T) {
	spicedbtest.Run(t, func(t *testing.T) spicedbtest.Backend {
		b, err := spicedb.NewBuiltin(spicedb.Mapping{}, spicedb.Config{})
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		replace := func(tb testing.TB) {
			tb.Helper()
			if err := b.Replace(spicedb.Config{Relations: spicedb.Entries(all...)}); err != nil {
				tb.Fatal(err)
			}
		}
		return spicedbtest.Backend{
			Phase: b,
			Write: func(tb testing.TB, relationships ...string) {
				tb.Helper()
				all = append(all, relationships...)
				replace(tb)
			},
			Delete: func(tb testing.TB, relationships ...string) {
				tb.Helper()
				all = slices.DeleteFunc(all, func(r string) bool { return slices.Contains(relationships, r) })
				replace(tb)
			},
		}
	})
}

func TestContractServer(t *testing.T) {
	for name, options := range map[string]func(*spicedb.Options){
		"watched": func(*spicedb.Options) {},
		"strict":  func(o *spicedb.Options) { o.Strict = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spicedbtest.Run(t, func(t *testing.T) spicedbtest.Backend {
				s := spicedbtest.NewServer()
				s.Token = "secret"
				s.Lag(1000) // as stale as a server may be
				p := start(t, s, options)
				return spicedbtest.Backend{
					Phase:   p,
					Write:   func(tb testing.TB, r ...string) { s.Write(tb, r...) },
					Delete:  func(tb testing.TB, r ...string) { s.Delete(tb, r...) },
					Caveats: true,
				}
			})
		})
	}
}

// A phase that does not run decides too.
func TestContractWithoutRun(t *testing.T) {
	t.Parallel()
	spicedbtest.Run(t, func(t *testing.T) spicedbtest.Backend {
		s := spicedbtest.NewServer()
		s.Lag(1000)
		p := open(t, patient(spicedb.Options{Endpoint: s.Start(t)}))
		return spicedbtest.Backend{
			Phase:   p,
			Write:   func(tb testing.TB, r ...string) { s.Write(tb, r...) },
			Delete:  func(tb testing.TB, r ...string) { s.Delete(tb, r...) },
			Caveats: true,
		}
	})
}

// open makes a phase that is closed with the test.
func open(t testing.TB, o spicedb.Options) *spicedb.Phase {
	t.Helper()
	p, err := spicedb.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// start makes a phase for a server, runs it until the test ends and waits
// until it watches.
func start(t testing.TB, s *spicedbtest.Server, change func(*spicedb.Options)) *spicedb.Phase {
	t.Helper()
	o := patient(spicedb.Options{Endpoint: s.Start(t), Token: s.Token})
	if change != nil {
		change(&o)
	}
	p := open(t, o)
	run(t, p)
	watching(t, p)
	// A stream counts as one that stands before the server has it.
	testwait.Until(t, spicedbtest.Soon, "the stream is open", func() bool { return s.Opened() > 0 })
	return p
}

// patient has more time than a gateway gives: a test that is not about time
// does not fail on a machine that is busy.
func patient(o spicedb.Options) spicedb.Options {
	o.CallTimeout, o.ListTimeout = spicedbtest.Soon, spicedbtest.Soon
	return o
}

// run runs a phase until the test ends.
func run(t testing.TB, p *spicedb.Phase) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background()) // it ends in the cleanup, before the server does
	ended := make(chan error, 1)
	go func() { ended <- p.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

func watching(t testing.TB, p *spicedb.Phase) {
	t.Helper()
	if !testwait.Within(spicedbtest.Soon, func() bool { return p.Status().Watching }) {
		t.Fatalf("it does not watch: %+v", p.Status())
	}
}

func TestNewRefuses(t *testing.T) {
	tests := []struct {
		name string
		o    spicedb.Options
		want string
	}{
		{"no endpoint", spicedb.Options{}, "endpoint is empty"},
		{"type", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{Object: "To ol"}}, `object "To ol"`},
		{"permission", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{Permission: "E"}}, `permission "E"`},
		{"part", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{ObjectID: "server/nome"}}, `no part "nome"`},
		{"brace", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{SubjectID: "{subject"}}, "not closed"},
		{"no separator", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{ObjectID: "{server}x{original}"}}, "nothing separates"},
		{"no part", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{SubjectID: "}"}}, `template "}"`},
		{"caller in an object", spicedb.Options{Endpoint: "x", Mapping: spicedb.Mapping{ObjectID: "{subject}"}}, "no part"},
		{"timeout", spicedb.Options{Endpoint: "x", CallTimeout: -1}, "negative"},
		{"cache", spicedb.Options{Endpoint: "x", CacheEntries: -1}, "negative"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := spicedb.New(tt.o)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q in it", err, tt.want)
			}
		})
	}
}
