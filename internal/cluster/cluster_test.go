package cluster

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/replica"
)

// memory is a store in memory. Leases go by its clock.
type memory struct {
	mu    sync.Mutex
	all   map[string]Member
	until map[string]time.Time
	down  error
}

func newMemory() *memory { return &memory{all: map[string]Member{}, until: map[string]time.Time{}} }

func (r *memory) Renew(_ context.Context, m Member, lease time.Duration) (gone bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.down != nil {
		return false, r.down
	}
	gone = !time.Now().Before(r.until[m.ID]) // or it was not there
	r.all[m.ID], r.until[m.ID] = m, time.Now().Add(lease)
	return gone, nil
}

func (r *memory) Leave(_ context.Context, id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.all, id)
	return r.down
}

func (r *memory) List(context.Context) ([]Member, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Member
	for id, m := range r.all {
		if time.Now().Before(r.until[id]) {
			out = append(out, m)
		}
	}
	return out, r.down
}

func (r *memory) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.down = err
}

func keyring(t *testing.T, secrets ...string) *seal.Keyring {
	t.Helper()
	var keys []seal.Key
	for _, s := range secrets {
		keys = append(keys, seal.Key{ID: s, Secret: []byte(strings.Repeat(s, 32))[:32]})
	}
	ring, err := seal.NewKeyring(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

func member(t *testing.T, store Store, keys *seal.Keyring, address string) *Cluster {
	t.Helper()
	c, err := New(Options{
		Store: store, Keys: keys, Address: address, Version: "1", Log: slog.New(slog.DiscardHandler),
		Load:   func() Load { return Load{Sessions: 3, Calls: 2} },
		Verify: func([]*x509.Certificate) ([][]*x509.Certificate, error) { return nil, errors.New("nobody counts") }, Returned: func() {},
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// serving runs a member that serves h to the others, until the test ends.
func serving(t *testing.T, store Store, keys *seal.Keyring, h http.Handler) *Cluster {
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := member(t, store, keys, l.Addr().String())
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var all sync.WaitGroup
	all.Go(func() {
		if err := c.Serve(ctx, l, h, func() time.Duration { return time.Second }); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		stop()
		all.Wait()
		c.close()
	})
	return c
}

// know has members know one another.
func know(members ...*Cluster) {
	var all []Member
	for _, c := range members {
		all = append(all, c.self)
	}
	for _, c := range members {
		list := append([]Member(nil), all...)
		c.members.Store(&list)
	}
}

// pass sends a request of a client to a member, by another.
func pass(t *testing.T, from *Cluster, to string, r *http.Request, body string) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	err := from.Forward(w, r.WithContext(t.Context()), to, replica.Message{ID: "7", Body: []byte(body)})
	return w, err
}

func request(method, path string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, path, http.NoBody)
	r.RemoteAddr = "192.0.2.7:1234"
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// The others are known once they were read, however often that has failed before, or once the
// database has not answered for storeTime.
func TestKnown(t *testing.T) {
	for _, answers := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			store := newMemory()
			store.fail(errors.New("the database is away"))
			c := member(t, store, keyring(t, "a"), "127.0.0.1:1")
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() { _ = c.Run(ctx) })
			known := func() bool {
				synctest.Wait()
				select {
				case <-c.Known():
					return true
				default:
					return false
				}
			}
			if known() {
				t.Error("known after one failure")
			}
			time.Sleep(storeTime / 2)
			if known() {
				t.Error("known after some failures")
			}
			if answers {
				store.fail(nil)
				c.Changed()
				if !known() {
					t.Error("they were read, and are not known")
				}
			} else {
				time.Sleep(storeTime / 2)
				if !known() {
					t.Error("the database is away, and the gateway waits")
				}
			}
			stop()
			all.Wait()
		})
	}
}

// All members choose the same home for a key. Where one leaves, only its keys move. One that
// drains gets nothing new.
func TestHome(t *testing.T) {
	keys := keyring(t, "a")
	var all []*Cluster
	for range 5 {
		all = append(all, member(t, newMemory(), keys, "127.0.0.1:1"))
	}
	know(all...)
	home := func(c *Cluster, key string) string { return c.Home("nobody", key, false) }
	before, counts := map[string]string{}, map[string]int{}
	for i := range 2000 {
		key := fmt.Sprint("key", i)
		before[key] = home(all[0], key)
		counts[before[key]]++
		for _, c := range all {
			if home(c, key) != before[key] {
				t.Fatal("members choose differently")
			}
		}
	}
	for id, n := range counts {
		if n < 300 || n > 500 {
			t.Errorf("%s has %d of 2000 keys", id, n)
		}
	}
	leaving := all[4]
	know(all[:4]...)
	for key, at := range before {
		if now := home(all[0], key); (now != at) != (at == leaving.Self()) {
			t.Errorf("%s moves from %s to %s", key, at, now)
		}
	}
	list := all[0].Members()
	for i := range list {
		list[i].Draining = list[i].ID == all[1].Self()
	}
	all[0].members.Store(&list)
	if all[0].Home(all[1].Self(), "k", true) != all[1].Self() || all[0].Home(all[1].Self(), "k", false) == all[1].Self() {
		t.Error("one that drains gets what settles, and nothing new")
	}
	all[0].draining.Store(true)
	if all[0].Home(all[0].Self(), "k", true) != all[0].Self() || all[0].Home(all[0].Self(), "k", false) == all[0].Self() {
		t.Error("this one drains, and takes what is new")
	}
}

// A gateway starts without its database, keeps the members that it knew while that is away,
// forgets those whose lease has ended, and leaves at its end.
func TestRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := newMemory(), keyring(t, "a")
		a, b := member(t, store, keys, "127.0.0.1:1"), member(t, store, keys, "127.0.0.1:2")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		run := func(ctx context.Context, c *Cluster) { all.Go(func() { _ = c.Run(ctx) }) }
		store.fail(errors.New("down"))
		run(ctx, a)
		time.Sleep(time.Minute)
		if n := len(a.Members()); n != 1 {
			t.Errorf("%d members without a database, want this one", n)
		}
		store.fail(nil)
		short, kill := context.WithCancel(t.Context())
		run(short, b)
		time.Sleep(2 * renewEvery)
		if len(a.Members()) != 2 || len(b.Members()) != 2 || a.Members()[0].Sessions != 3 {
			t.Errorf("%+v, %+v", a.Members(), b.Members())
		}
		a.Drain()
		time.Sleep(2 * renewEvery)
		for _, m := range b.Members() {
			if m.Draining != (m.ID == a.Self()) {
				t.Errorf("%+v", m)
			}
		}
		store.fail(errors.New("down"))
		kill() // it cannot say that it leaves
		time.Sleep(time.Minute)
		if n := len(a.Members()); n != 2 {
			t.Errorf("%d members while the database is away, want those from before", n)
		}
		store.fail(nil)
		time.Sleep(2 * renewEvery)
		if n := len(a.Members()); n != 2 {
			t.Errorf("%d members, want those from before for as long as a lease", n)
		}
		time.Sleep(lease)
		if n := len(a.Members()); n != 1 {
			t.Errorf("%d members, want this one", n)
		}
		cancel()
		all.Wait()
		if len(store.all) != 0 {
			t.Errorf("left behind: %v", store.all)
		}
	})
}

// After a time without their database, gateways that are there do not count as gone for one
// another, whichever comes back first. Each is told that its lease had ended.
func TestStoreReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, keys := newMemory(), keyring(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		returned := map[string]int{}
		var mu sync.Mutex
		var members []*Cluster
		for i := range 3 {
			c := member(t, store, keys, fmt.Sprint("127.0.0.1:", i+1))
			c.o.Returned = func() {
				mu.Lock()
				defer mu.Unlock()
				returned[c.Self()]++
			}
			members = append(members, c)
			all.Go(func() { _ = c.Run(ctx) })
			time.Sleep(time.Second) // so that they do not come back together
		}
		time.Sleep(renewEvery)
		store.fail(errors.New("down"))
		time.Sleep(time.Minute)
		store.fail(nil)
		for range 200 {
			time.Sleep(50 * time.Millisecond)
			for _, c := range members {
				if n := len(c.Members()); n != 3 {
					t.Fatalf("%s knows %d members", c.self.Address, n)
				}
			}
		}
		mu.Lock()
		defer mu.Unlock()
		for _, c := range members {
			if returned[c.Self()] != 1 {
				t.Errorf("%s was told %d times", c.self.Address, returned[c.Self()])
			}
		}
		cancel()
		all.Wait()
	})
}

// A gateway of another version of the link shares the database, and gets nothing.
func TestOtherWire(t *testing.T) {
	store := newMemory()
	c := member(t, store, keyring(t, "a"), "127.0.0.1:1")
	var said bytes.Buffer
	c.o.Log = slog.New(slog.NewTextHandler(&said, nil))
	_, _ = store.Renew(t.Context(), Member{ID: "new", Address: "127.0.0.1:9", Wire: Wire + 1}, time.Hour)
	for range 3 {
		if err := c.refresh(t.Context(), true); err != nil {
			t.Fatal(err)
		}
	}
	if len(c.Members()) != 1 || c.Alive("new") || strings.Count(said.String(), "another version") != 1 {
		t.Errorf("%+v\n%s", c.Members(), said.String())
	}
}
