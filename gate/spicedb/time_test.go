package spicedb_test

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/test/bufconn"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/spicedb"
	"github.com/toolgate/toolgate/gate/spicedb/spicedbtest"
)

// bubble runs a test with a phase and a server in memory, on a clock of its
// own that only moves while all of them wait.
func bubble(t *testing.T, test func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := spicedbtest.NewServer()
		lis := bufconn.Listen(1 << 20)
		s.Serve(t, lis)
		p := open(t, spicedb.Options{
			Endpoint: "passthrough:memory",
			Dial:     func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) },
		})
		run(t, p)
		watching(t, p)
		test(t, s, p)
	})
}

// A relationship that ends by itself is announced by nobody.
func TestKeptAllowsEnd(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		s.WriteUntil(t, time.Now().Add(2*time.Second), grant)
		time.Sleep(time.Second)
		began := time.Now()
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed")
		}
		for decide(t, p) == gate.Allow {
			if time.Since(began) > 30*time.Second {
				t.Fatal("allowed 30 s after the question")
			}
			time.Sleep(100 * time.Millisecond)
		}
		if time.Since(began) < 20*time.Second {
			t.Error("nothing was kept: the test proves nothing")
		}
	})
}

// A stream that stands and delivers nothing is found out.
func TestSilentStream(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		s.Write(t, grant)
		time.Sleep(time.Second)
		for range 5 {
			if decide(t, p) != gate.Allow {
				t.Fatal("not allowed")
			}
			s.Mute(true)
			s.Delete(t, grant)
			began := time.Now()
			for decide(t, p) == gate.Allow {
				if time.Since(began) > 13*time.Second {
					t.Fatal("allowed 13 s after the revocation")
				}
				time.Sleep(100 * time.Millisecond)
			}
			if time.Since(began) < time.Second {
				t.Error("nothing was kept: the test proves nothing")
			}
			s.Mute(false)
			s.Write(t, grant)
			time.Sleep(20 * time.Second)
		}
		if n := s.Calls("Watch"); n != 1 {
			t.Errorf("%d streams: one that lags now and then was given up", n)
		}
		s.Mute(true)
		for range 3 {
			s.Write(t, grant)
			time.Sleep(5 * time.Second)
		}
		if n := s.Calls("Watch"); n < 2 {
			t.Error("a silent stream was not opened anew")
		}
	})
}

// A server that stops answering leaves no allow behind after 13 s.
func TestSilentServer(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		s.Write(t, grant)
		time.Sleep(3 * time.Second)
		if decide(t, p) != gate.Allow {
			t.Fatal("not allowed")
		}
		s.Before(spicedbtest.Hang)
		began := time.Now()
		for {
			d, err := p.Check(t.Context(), &search)
			if err != nil {
				if d.Reason != spicedb.ReasonUnavailable {
					t.Errorf("reason %q", d.Reason)
				}
				break
			}
			if time.Since(began) > 13*time.Second+time.Millisecond {
				t.Fatal("allowed 13 s after the last sign of the server")
			}
			time.Sleep(50 * time.Millisecond)
		}
		for range 20 {
			before := time.Now()
			if _, err := p.Check(t.Context(), &search); err == nil {
				t.Error("allowed by a server that does not answer")
			}
			if took := time.Since(before); took > 150*time.Millisecond {
				t.Errorf("refused after %v", took)
			}
		}
		if p.Status().OK {
			t.Error("the status is OK")
		}
		s.Before(nil)
		time.Sleep(2 * time.Second)
		if decide(t, p) != gate.Allow {
			t.Error("not allowed 2 s after the server came back")
		}
	})
}

// A frozen server costs its deadline a few times, and then once a second.
func TestBreaker(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		s.Before(spicedbtest.Hang)
		began := time.Now()
		slow := 0
		for range 100 {
			before := time.Now()
			if _, err := p.Check(t.Context(), &search); err == nil {
				t.Fatal("no error")
			}
			if time.Since(before) > 0 {
				slow++
			}
		}
		if took := time.Since(began); slow != 5 || took != 5*150*time.Millisecond {
			t.Errorf("%d slow decisions in %v, want 5", slow, took)
		}
		time.Sleep(1100 * time.Millisecond)
		slow = 0
		for range 10 {
			before := time.Now()
			_, _ = p.Check(t.Context(), &search)
			if time.Since(before) > 0 {
				slow++
			}
		}
		if slow != 1 {
			t.Errorf("%d slow decisions a second later, want 1", slow)
		}
	})
}

// An idle server is asked now and then, and its stream stays.
func TestIdle(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		s.Write(t, grant)
		time.Sleep(time.Second)
		probes := s.Calls("CheckBulkPermissions")
		time.Sleep(10 * time.Minute)
		if n := s.Calls("CheckBulkPermissions") - probes; n != 150 {
			t.Errorf("%d probes in ten minutes, want 150", n)
		}
		if n := s.Calls("Watch"); n != 1 {
			t.Errorf("%d streams, want 1", n)
		}
		for range 2 {
			if decide(t, p) != gate.Allow {
				t.Error("not allowed")
			}
		}
		if n := s.Calls("CheckPermission"); n != 1 {
			t.Errorf("%d questions: nothing is kept", n)
		}
	})
}

// The class of a caller ends with everything that may make its views others: a
// change, a second, and the stream that would tell of one.
func TestViewClassEnds(t *testing.T) {
	bubble(t, func(t *testing.T, s *spicedbtest.Server, p *spicedb.Phase) {
		class := func(subject, persona string) string {
			class, cacheable := p.ViewClass(gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: subject}, Persona: persona}))
			if !cacheable {
				t.Errorf("decisions for %s are not cacheable while the stream stands", subject)
			}
			return class
		}
		s.Write(t, grant)
		time.Sleep(1500 * time.Millisecond)
		before := class("alice", "")
		if class("alice", "") != before {
			t.Error("one caller is in two classes at one time")
		}
		if class("bob", "") == before || class("alice", "bot") == before {
			t.Error("callers share a class that a caveat tells apart")
		}
		s.Delete(t, grant)
		synctest.Wait()
		after := class("alice", "")
		if after == before {
			t.Error("a change left the class as it was")
		}
		time.Sleep(time.Second)
		if class("alice", "") == after {
			t.Error("a class outlives its second")
		}
	})
	idle := open(t, spicedb.Options{Endpoint: "127.0.0.1:1"}) // hears of no change
	alice := gate.NewIdentity(gate.Identity{Principal: gate.Principal{Subject: "alice"}})
	if _, cacheable := idle.ViewClass(alice); cacheable {
		t.Error("decisions are cacheable although nobody would tell of a change")
	}
}
