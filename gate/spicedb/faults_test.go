package spicedb_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
	"github.com/toolgate/toolgate/internal/testwait"
)

// frozen takes connections and never answers, as a stopped process does.
func frozen(t *testing.T) (lis *net.TCPListener, thaw func()) {
	t.Helper()
	lis, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		var all []net.Conn
		defer func() {
			for _, c := range all {
				c.Close()
			}
		}()
		for {
			c, err := lis.Accept()
			if err != nil {
				return
			}
			all = append(all, c)
		}
	}()
	thaw = func() {
		_ = lis.SetDeadline(time.Unix(1, 0)) // ends Accept; the port stays ours
		<-done
		_ = lis.SetDeadline(time.Time{})
	}
	t.Cleanup(func() {
		lis.Close()
		<-done
	})
	return lis, thaw
}

// refusedFor checks that a decision denies for a reason, and how long it took.
func refusedFor(t *testing.T, p *spicedb.Phase, reason string, most time.Duration) {
	t.Helper()
	began := time.Now()
	d, err := p.Check(t.Context(), &search)
	if took := time.Since(began); took > most {
		t.Errorf("refused after %v, want at most %v", took, most)
	}
	failed, ok := errors.AsType[*spicedb.Error](err)
	if d.Effect != gate.Deny || d.Reason != reason || !ok || failed.Reason != reason {
		t.Errorf("%+v, %v: want %s", d, err, reason)
	}
	list, err := p.CheckAll(t.Context(), []gate.Request{search, search})
	if err == nil || list[0].Effect != gate.Deny || list[1].Reason != reason {
		t.Errorf("list: %+v, %v", list, err)
	}
}

// slack is what a loaded machine may add.
const slack = 2 * time.Second

func TestFrozenServer(t *testing.T) {
	t.Parallel()
	lis, thaw := frozen(t)
	p := open(t, spicedb.Options{Endpoint: lis.Addr().String()})
	began := time.Now()
	refusedFor(t, p, spicedb.ReasonUnavailable, 150*time.Millisecond+slack)
	for range 3 {
		_, _ = p.Check(t.Context(), &search)
	}
	if took := time.Since(began); took > 2*time.Second+slack {
		t.Errorf("the first five decisions took %v", took)
	}
	began = time.Now()
	for range 200 {
		d, err := p.Check(t.Context(), &search)
		if err == nil || d.Reason != spicedb.ReasonUnavailable {
			t.Fatal(d, err)
		}
	}
	if took := time.Since(began); took > 150*time.Millisecond+slack {
		t.Errorf("200 decisions about a server that is known to be stuck took %v", took)
	}
	if st := p.Status(); st.OK || st.Reason != spicedb.ReasonUnavailable || st.Since.IsZero() || st.Detail == "" {
		t.Errorf("status %+v", st)
	}
	thaw()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	s.Serve(t, lis)
	testwait.Until(t, spicedbtest.Soon, "the recovery", func() bool {
		d, err := p.Check(t.Context(), &search)
		return err == nil && d.Effect == gate.Allow
	})
	if st := p.Status(); !st.OK {
		t.Errorf("status after the recovery %+v", st)
	}
}

func TestKilledServer(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	changes := make(chan struct{}, 100)
	p := start(t, s, func(o *spicedb.Options) { o.OnChange = func() { changes <- struct{}{} } })
	if decide(t, p) != gate.Allow {
		t.Fatal("not allowed")
	}
	<-changes
	s.Stop()
	testwait.Until(t, spicedbtest.Soon, "the break", func() bool { return !p.Status().Watching })
	refusedFor(t, p, spicedb.ReasonUnavailable, slack)
	testwait.Until(t, spicedbtest.Soon, "the status", func() bool { return !p.Status().OK })
	s.Delete(t, grant)
	addr := s.Start(t)
	testwait.Until(t, spicedbtest.Soon, "the recovery", func() bool {
		d, err := p.Check(t.Context(), &search)
		if err == nil && d.Effect == gate.Allow {
			t.Errorf("allowed at %s after a revocation while the server was down", addr)
		}
		return err == nil
	})
	watching(t, p)
	<-changes // lists are looked at again
}

func TestHangingServer(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	p := open(t, spicedb.Options{Endpoint: s.Start(t)})
	testwait.Until(t, spicedbtest.Soon, "a connection", func() bool { _, err := p.Check(t.Context(), &search); return err == nil })
	if decide(t, p) != gate.Deny {
		t.Fatal("allowed")
	}
	s.Before(spicedbtest.Hang)
	refusedFor(t, p, spicedb.ReasonUnavailable, 150*time.Millisecond+slack)
	s.Before(spicedbtest.Unavailable)
	refusedFor(t, p, spicedb.ReasonUnavailable, slack)
	s.Before(spicedbtest.Slow(time.Millisecond))
	testwait.Until(t, spicedbtest.Soon, "the recovery", func() bool { _, err := p.Check(t.Context(), &search); return err == nil })
}

// Callers that leave say nothing about the server.
func TestCallersThatLeaveDoNotOpenTheBreaker(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant)
	p := open(t, patient(spicedb.Options{Endpoint: s.Start(t)}))
	if decide(t, p) != gate.Allow {
		t.Fatal("not allowed")
	}
	s.Before(spicedbtest.Hang)
	for range 20 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if d, err := p.Check(ctx, &search); err == nil || d.Effect != gate.Deny {
			t.Error(d, err)
		}
		cancel()
	}
	s.Before(nil)
	if decide(t, p) != gate.Allow {
		t.Error("not allowed at once")
	}
	if st := p.Status(); !st.OK {
		t.Errorf("status %+v", st)
	}
}

func TestMisconfiguredServer(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*spicedbtest.Server, *spicedb.Options)
		says   string
	}{
		{"token", func(s *spicedbtest.Server, o *spicedb.Options) { o.Token = "wrong" }, "set the token"},
		{"no token", func(s *spicedbtest.Server, o *spicedb.Options) { o.Token = "" }, "set the token"},
		{"type", func(s *spicedbtest.Server, o *spicedb.Options) { o.Mapping.Object = "gadget" }, "gadget"},
		{"permission", func(s *spicedbtest.Server, o *spicedb.Options) { o.Mapping.Permission = "perform" }, "perform"},
		{"no schema", func(s *spicedbtest.Server, o *spicedb.Options) { s.SetType("tool", nil) }, "toolgate doctor"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spicedbtest.NewServer()
			s.Token = "secret"
			o := patient(spicedb.Options{Endpoint: s.Start(t), Token: s.Token})
			tt.change(s, &o)
			p := open(t, o)
			run(t, p)
			d, err := p.Check(t.Context(), &search)
			if err == nil || d.Effect != gate.Deny || d.Reason != spicedb.ReasonMisconfigured || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("%+v, %v: want %q", d, err, tt.says)
			}
			testwait.Until(t, spicedbtest.Soon, "the status", func() bool {
				st := p.Status()
				return !st.OK && st.Reason == spicedb.ReasonMisconfigured && strings.Contains(st.Detail, tt.says)
			})
			for range 20 { // a server that answers is not left alone
				if d, _ := p.Check(t.Context(), &search); d.Reason != spicedb.ReasonMisconfigured {
					t.Fatalf("reason %q", d.Reason)
				}
			}
		})
	}
}

func TestOneBadPairDeniesItselfAlone(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	s.Write(t, grant, "tool:other#executor@user:alice")
	p := start(t, s, nil)
	s.FailPairs(func(object string) error {
		if object == "tool:search" {
			return status.Error(codes.Internal, "this one is told to fail")
		}
		return nil
	})
	list := []gate.Request{search, spicedbtest.Tool("other", "alice"), spicedbtest.Tool("none", "alice")}
	for range 2 {
		all, err := p.CheckAll(t.Context(), list)
		if err != nil {
			t.Fatal(err)
		}
		if all[0].Effect != gate.Deny || all[0].Err == nil || all[0].Reason != spicedb.ReasonUnavailable ||
			all[1].Effect != gate.Allow || all[2].Effect != gate.Deny || all[2].Err != nil {
			t.Errorf("%+v", all)
		}
	}
	s.FailPairs(nil)
	if all, err := p.CheckAll(t.Context(), list); err != nil || all[0].Effect != gate.Allow {
		t.Errorf("a failure is kept: %+v, %v", all, err)
	}
}

func TestSync(t *testing.T) {
	t.Parallel()
	s := spicedbtest.NewServer()
	p := open(t, spicedb.Options{Endpoint: s.Start(t)})
	s.Write(t, "tool:t3#server@server:gh", "tool:t4#server@server:files")
	var all []spicedb.Capability
	for i := range 1200 {
		r := spicedbtest.Tool(fmt.Sprint("t", i), "")
		all = append(all, spicedb.Capability{Kind: r.Kind, Server: r.Server, Original: r.Original, Exposed: r.Exposed})
	}
	all = append(all, all[0])
	report, err := p.Sync(t.Context(), all)
	if err != nil || len(report.Written) != 1199 || report.Kept != 1 || fmt.Sprint(report.Elsewhere) != "[tool:t4#server@server:files]" {
		t.Fatalf("%d written, %d kept, %v, %v", len(report.Written), report.Kept, report.Elsewhere, err)
	}
	writes := s.Calls("WriteRelationships")
	if report, err = p.Sync(t.Context(), all); err != nil || len(report.Written) != 0 || report.Kept != 1200 || report.Token != "" {
		t.Errorf("again: %d written, %d kept, %v", len(report.Written), report.Kept, err)
	}
	if n := s.Calls("WriteRelationships"); n != writes {
		t.Errorf("%d more writes of nothing", n-writes)
	}
	if _, err := p.Sync(t.Context(), []spicedb.Capability{{Kind: all[0].Kind, Server: "gh"}}); err == nil {
		t.Error("a capability without a name is synced")
	}
	s.SetType("tool", []string{"execute"})
	_, err = p.Sync(t.Context(), all)
	if failed, ok := errors.AsType[*spicedb.Error](err); !ok || failed.Reason != spicedb.ReasonMisconfigured {
		t.Errorf("a schema without the relation: %v", err)
	}
}

func TestDiagnose(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		change func(*spicedbtest.Server, *spicedb.Options)
		fatal  bool
		says   []string
	}{
		{"good", func(*spicedbtest.Server, *spicedb.Options) {}, false, nil},
		{"type", func(s *spicedbtest.Server, _ *spicedb.Options) { s.SetType("tool", nil) }, true, []string{"no type tool: add a definition tool with a permission execute"}},
		{"permission", func(s *spicedbtest.Server, _ *spicedb.Options) { s.SetType("tool", []string{"server", "use"}) }, true, []string{"the type tool has no permission execute", "it has use, server"}},
		{"subject", func(s *spicedbtest.Server, _ *spicedb.Options) { s.SetType("user", nil) }, true, []string{"definition user {}"}},
		{"prompts", func(s *spicedbtest.Server, _ *spicedb.Options) { s.SetType("prompt", nil) }, false, []string{"no type prompt"}},
		{"relation", func(s *spicedbtest.Server, _ *spicedb.Options) { s.SetType("tool", []string{"execute"}) }, false, []string{"no relation server"}},
		{"view", func(_ *spicedbtest.Server, o *spicedb.Options) { o.Mapping.ViewPermission = "view" }, true, []string{"tool has no permission view", "resource has no permission view"}},
		{"token", func(_ *spicedbtest.Server, o *spicedb.Options) { o.Token = "wrong" }, true, []string{"set the token"}},
		{"down", func(_ *spicedbtest.Server, o *spicedb.Options) { o.Endpoint = "127.0.0.1:1" }, true, []string{"see that the server runs"}},
		{"empty", func(s *spicedbtest.Server, _ *spicedb.Options) {
			for _, name := range []string{"user", "team", "tenant", "server", "tool", "prompt", "resource"} {
				s.SetType(name, nil)
			}
		}, true, []string{"no schema", "definition tool {"}},
		{"watch", func(s *spicedbtest.Server, _ *spicedb.Options) {
			s.Before(func(_ context.Context, method string) error {
				if method == "Watch" {
					return status.Error(codes.FailedPrecondition, "watch API disabled")
				}
				return nil
			})
		}, false, []string{"watch API disabled", "track_commit_timestamp"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := spicedbtest.NewServer()
			s.Token = "secret"
			o := spicedb.Options{Endpoint: s.Start(t), Token: s.Token}
			tt.change(s, &o)
			problems := open(t, o).Diagnose(t.Context())
			text, fatal := "", false
			for _, p := range problems {
				text += p.String() + "\n"
				fatal = fatal || !p.Warning
			}
			if fatal != tt.fatal || (len(problems) == 0) != (tt.says == nil) {
				t.Errorf("fatal %v, %d problems:\n%s", fatal, len(problems), text)
			}
			for _, want := range tt.says {
				if !strings.Contains(text, want) {
					t.Errorf("%q is not in:\n%s", want, text)
				}
			}
		})
	}
}

func BenchmarkCachedDecision(b *testing.B) {
	s := spicedbtest.NewServer()
	s.Write(b, grant)
	p := start(b, s, nil)
	if decide(b, p) != gate.Allow {
		b.Fatal("not allowed")
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, _ := p.Check(context.Background(), &search); d.Effect != gate.Allow {
			b.Fatal("not allowed")
		}
	}
}

func BenchmarkBuiltinDecision(b *testing.B) {
	p, err := spicedb.NewBuiltin(spicedb.Mapping{}, spicedb.Config{Relations: spicedb.Entries(grant)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if d, _ := p.Check(context.Background(), &search); d.Effect != gate.Allow {
			b.Fatal("not allowed")
		}
	}
}
