package upstream

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/testwait"
)

// varies makes a fake list one tool more to sessions that declare elicitation,
// and another one to the rest.
func (f *fakeHTTP) varies() {
	asks := make(map[string]bool) // sessions that can be asked; mu guards it
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		x.legacy(mcp.MethodInitialize)
		x.mu.Lock()
		defer x.mu.Unlock()
		asks[x.w.Header().Get(mcp.HeaderSession)] = mcp.Lookup(x.msg.Param("capabilities"), "elicitation") != nil
	})
	f.handle(mcp.MethodToolsList, func(x *exchange) {
		x.mu.Lock()
		session := x.r.Header.Get(mcp.HeaderSession)
		known, can, list := x.sessions[session], asks[session], slices.Clone(x.list)
		x.mu.Unlock()
		switch {
		case !known:
			x.status(http.StatusNotFound, "text/plain", "no such session")
		case can:
			x.result(toolList(append(list, "confirm")...))
		default:
			x.result(toolList(append(list, "fallback")...))
		}
	})
}

// withoutSpec is the configuration of a fake whose list without capabilities is looked at.
func (f *fakeHTTP) withoutSpec() Spec {
	spec := f.spec()
	spec.Transport, spec.Without, spec.Questions = Streamable, WithoutAuto, Questions{Elicitation: true}
	return spec
}

// withoutTools returns the tools of the list without capabilities; nil when there is none that
// differs.
func (r *running) withoutTools() []string {
	l, _ := r.Listing()
	if l == nil || l.WithoutCapabilities == nil {
		return nil
	}
	names := []string{}
	for _, item := range l.WithoutCapabilities.Items[mcp.Tool] {
		names = append(names, item.Key)
	}
	return names
}

// bothListed waits for two lists.
func (r *running) bothListed(full, plain string) {
	r.t.Helper()
	testwait.Until(r.t, patience, "the lists "+full+" and "+plain, func() bool {
		return strings.Join(r.tools(), " ") == full && strings.Join(r.withoutTools(), " ") == plain
	})
}

// looked waits until the list without capabilities was looked at on the connection of now.
func (r *running) looked() {
	r.t.Helper()
	testwait.Until(r.t, patience, "a look at the list without capabilities", func() bool {
		own := r.own()
		r.catalog.mu.Lock()
		defer r.catalog.mu.Unlock()
		return own != nil && r.catalog.without.main == own && !r.catalog.without.busy
	})
}

// beside is how many connections there are beside the gateway's own.
func (r *running) beside() int {
	r.pool.mu.Lock()
	defer r.pool.mu.Unlock()
	return len(r.pool.slots)
}

// announcements returns how many changes of tools count for the two sets.
func (r *running) announcements() (full, plain uint64) {
	l, _ := r.Listing()
	if l == nil {
		return 0, 0
	}
	if l.WithoutCapabilities != nil {
		plain = l.WithoutCapabilities.Announced[mcp.Tool]
	}
	return l.Announced[mcp.Tool], plain
}

// sessionOf returns the session in which a tool was called last.
func (f *fakeHTTP) sessionOf(name string) string {
	session := ""
	for _, call := range f.requests(mcp.MethodToolsCall) {
		if strings.Contains(call.Body, string(mcp.Quote(name))) {
			session = call.Header.Get(mcp.HeaderSession)
		}
	}
	return session
}

// declaringNothing makes a call one of a client that is shown the list without capabilities.
func declaringNothing(call *mcp.Call) *mcp.Call {
	call.WithoutCapabilities = true
	return call
}

// exactly makes a call one of a modern client that declares nothing.
func exactly(call *mcp.Call) *mcp.Call {
	call.Exact = true
	return call
}

func TestListsWithoutCapabilitiesOverHTTP(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	r := run(t, f.withoutSpec())
	r.bothListed("echo confirm", "echo fallback")
	r.looked()
	if n := r.beside(); n != 1 {
		t.Errorf("%d connections are kept beside the gateway's own, want the one that hears of the list without capabilities", n)
	}
	// s-1 is the gateway's own session, s-2 the one that was told nothing.
	for _, tt := range []struct {
		call *mcp.Call
		want string
	}{
		{tool("echo", `{}`), "s-1"},
		{tool("confirm", `{}`), "s-1"},
		{declaringNothing(tool("echo", `{}`)), "s-2"},
		{declaringNothing(tool("fallback", `{}`)), "s-2"},
		{exactly(tool("echo", `{}`)), "s-2"},
		{exactly(tool("confirm", `{}`)), "s-1"}, // which the other one does not list
	} {
		r.call(tt.call)
		if got := f.sessionOf(tt.call.Key); got != tt.want {
			t.Errorf("%s (plain %v, exact %v) was called in session %s, want %s", tt.call.Key, tt.call.WithoutCapabilities, tt.call.Exact, got, tt.want)
		}
	}
	if n := len(f.requests(mcp.MethodInitialize)); n != 2 {
		t.Errorf("%d sessions were opened, want 2", n)
	}
}

func TestEqualListsWithoutCapabilitiesCostNothing(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	turn := 0
	f.handle(mcp.MethodToolsList, func(x *exchange) { // in another order each time
		x.mu.Lock()
		turn++
		names := []string{"a", "b"}
		if turn%2 == 0 {
			slices.Reverse(names)
		}
		x.mu.Unlock()
		x.result(toolList(names...))
	})
	r := run(t, f.withoutSpec())
	r.looked()
	if got := r.withoutTools(); got != nil {
		t.Errorf("a second list %q is kept", got)
	}
	testwait.Until(t, patience, "the end of the second session", func() bool { return r.beside() == 0 && len(f.requests(http.MethodDelete)) == 1 })
	main := r.own()
	plan := &schedule{}
	read := func() time.Duration {
		next := r.fetchInto(t.Context(), main, plan)
		r.looked()
		return next
	}
	if read(); plan.poll != pollRarely {
		t.Errorf("the lists are read again after %v, as those of a server that announces changes", plan.poll)
	}
	if n := len(f.requests(mcp.MethodInitialize)); n != 2 {
		t.Errorf("%d sessions were opened, want 2: nothing has changed", n)
	}
	r.catalog.mu.Lock()
	r.catalog.without.at = r.catalog.without.at.Add(-withoutAge)
	r.catalog.mu.Unlock()
	read()
	if n := len(f.requests(mcp.MethodInitialize)); n != 3 {
		t.Errorf("%d sessions were opened, want 3: it was long ago", n)
	}
	f.handle(mcp.MethodToolsList, func(x *exchange) {
		if x.r.Header.Get(mcp.HeaderSession) == "s-1" { // the gateway's own
			x.result(toolList("echo", "confirm"))
			return
		}
		x.result(toolList("echo", "fallback"))
	})
	read()
	r.bothListed("echo confirm", "echo fallback")
	if read(); plan.poll != pollOften {
		t.Errorf("the lists are read again after %v, want %v to keep the session", plan.poll, pollOften)
	}
}

func TestListsWithoutCapabilitiesAreReadWhenTheFullOnesChange(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	r := run(t, f.withoutSpec())
	r.bothListed("echo confirm", "echo fallback")
	f.offer("echo", "more")
	signal(r.refetch)
	r.bothListed("echo more confirm", "echo more fallback")

	f.handle(mcp.MethodToolsList, func(x *exchange) { x.result(x.tools()) })
	signal(r.refetch)
	testwait.Until(t, patience, "one list for everyone", func() bool { return r.withoutTools() == nil && slices.Equal(r.tools(), []string{"echo", "more"}) })
}

func TestChangesAreCountedPerSet(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	say := map[string]chan string{"s-1": make(chan string), "s-2": make(chan string)}
	f.handle(http.MethodGet, func(x *exchange) {
		x.open()
		for {
			select {
			case method := <-say[x.r.Header.Get(mcp.HeaderSession)]:
				x.notify(method, "{}")
			case <-x.r.Context().Done():
				return
			case <-x.down:
				return
			}
		}
	})
	r := run(t, f.withoutSpec())
	r.bothListed("echo confirm", "echo fallback")
	counted := func(full, plain uint64) {
		t.Helper()
		testwait.Until(t, patience, "the count of announcements", func() bool {
			f, p := r.announcements()
			return f == full && p == plain
		})
	}
	say["s-2"] <- mcp.NotifyToolsChanged
	counted(1, 1)
	say["s-1"] <- mcp.NotifyToolsChanged
	counted(2, 1)
	say["s-2"] <- mcp.NotifyToolsChanged
	counted(3, 2)
}

func TestChangesOfOneSetAreEveryones(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	r := run(t, f.withoutSpec())
	r.looked()
	testwait.Until(t, patience, "the end of the session that was looked at", func() bool { return r.beside() == 0 })
	testwait.Until(t, patience, "the list", func() bool {
		l, _ := r.Listing()
		return l != nil
	})
	f.handle(mcp.MethodToolsCall, func(x *exchange) {
		x.notify(mcp.NotifyToolsChanged, "{}")
		x.echo()
	})
	r.call(exactly(tool("echo", `{}`)))
	if f.sessionOf("echo") == "s-1" {
		t.Fatal("the call did not go to a session that was told nothing")
	}
	testwait.Until(t, patience, "the count of announcements", func() bool {
		full, _ := r.announcements()
		return full == 1
	})
}

func TestListsWithoutCapabilitiesAreNotRead(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		era    mcp.Era
		change func(*Spec)
	}{
		{"never", mcp.Legacy, func(s *Spec) { s.Without = WithoutNever }},
		{"the server may ask nothing", mcp.Legacy, func(s *Spec) { s.Questions = Questions{} }},
		{"several share its connection", mcp.Legacy, func(s *Spec) { s.Isolation, s.Local = IsolateShared, "" }},
		{"there is place for one connection", mcp.Legacy, func(s *Spec) { s.Limits.Conns = 1 }},
		{"a modern server", mcp.Modern, func(*Spec) {}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newFake(t, tt.era)
			spec := f.withoutSpec()
			tt.change(&spec)
			r := run(t, spec)
			r.state(mcp.Ready)
			reads := len(f.requests(mcp.MethodToolsList))
			signal(r.refetch)
			testwait.Until(t, patience, "the lists to be read again", func() bool { return len(f.requests(mcp.MethodToolsList)) > reads })
			r.catalog.mu.Lock()
			busy, main := r.catalog.without.busy, r.catalog.without.main
			r.catalog.mu.Unlock()
			if busy || main != nil || r.beside() != 0 {
				t.Errorf("there was a look (busy %v, done %v, %d connections)", busy, main != nil, r.beside())
			}
		})
	}
}

func TestListsWithoutCapabilitiesDoNotHoldTheFullOnesUp(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		if mcp.Lookup(x.msg.Param("capabilities"), "elicitation") == nil {
			x.hold() // for ever
			return
		}
		x.legacy(mcp.MethodInitialize)
	})
	r := run(t, f.withoutSpec())
	r.state(mcp.Ready)
	if got := r.tools(); !slices.Equal(got, []string{"echo"}) {
		t.Errorf("the list is %q", got)
	}
	r.call(tool("echo", `{}`))
}

func TestListsWithoutCapabilitiesAtAServerWithOneSession(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	varying := f.on[mcp.MethodInitialize]
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		x.forget() // all others
		varying(x)
	})
	r := run(t, f.withoutSpec())
	testwait.Until(t, patience, "the end of the looks", func() bool { return r.log.count("ends a session when another begins") == 1 })
	testwait.Until(t, patience, "the full list for everyone", func() bool {
		_, status := r.Listing()
		return status.State == mcp.Ready && r.withoutTools() == nil && slices.Equal(r.tools(), []string{"echo", "confirm"})
	})
	const opened = 2*maxStrikes + 1 // its own, as often as a second one has ended it, and the last
	testwait.Until(t, patience, "a session of its own", func() bool { return len(f.requests(mcp.MethodInitialize)) == opened && r.beside() == 0 })
	for range 3 {
		reads := len(f.requests(mcp.MethodToolsList))
		signal(r.refetch)
		testwait.Until(t, patience, "the lists to be read again", func() bool { return len(f.requests(mcp.MethodToolsList)) > reads })
		r.call(tool("echo", `{}`))
	}
	if n := len(f.requests(mcp.MethodInitialize)); n != opened {
		t.Errorf("%d more sessions were opened", n-opened)
	}
}

// knownPlain is a last good listing with two sets.
func knownPlain() *mcp.Listing {
	listing := func(names ...string) *mcp.Listing {
		l := &mcp.Listing{Era: mcp.Legacy, Version: mcp.V20251125, FetchedAt: time.Now(), Capabilities: []byte(`{"tools":{}}`), Items: map[mcp.Kind][]mcp.Item{}}
		for _, name := range names {
			l.Items[mcp.Tool] = append(l.Items[mcp.Tool], mcp.Item{Key: name, Raw: []byte(`{"name":` + string(mcp.Quote(name)) + `}`)})
		}
		return l
	}
	l := listing("old", "confirm")
	l.WithoutCapabilities = listing("old", "fallback")
	return l
}

func TestKnownListsWithoutCapabilities(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	spec, known := f.withoutSpec(), knownPlain()
	offered := New(spec, Options{Known: known, Logger: quietLog})
	l, _ := offered.Listing()
	if l.WithoutCapabilities == nil || !l.Stale || !l.WithoutCapabilities.Stale || known.WithoutCapabilities.Stale {
		t.Fatalf("the known listing is offered as %+v", l)
	}
	spec.Without = WithoutNever
	if l, _ := New(spec, Options{Known: known, Logger: quietLog}).Listing(); l.WithoutCapabilities != nil || known.WithoutCapabilities == nil {
		t.Errorf("a list without capabilities is offered that nobody is to see")
	}

	// What is known is shown as long as the list cannot be read.
	varying := f.on[mcp.MethodInitialize]
	f.handle(mcp.MethodInitialize, func(x *exchange) {
		if mcp.Lookup(x.msg.Param("capabilities"), "elicitation") == nil {
			x.status(http.StatusServiceUnavailable, "text/plain", "come back later")
			return
		}
		varying(x)
	})
	r := run(t, f.withoutSpec(), func(o *Options) { o.Known = knownPlain() })
	r.bothListed("echo confirm", "old fallback")
	testwait.Until(t, patience, "an attempt", func() bool { return r.log.count("for clients without capabilities are not read") > 0 })
	r.bothListed("echo confirm", "old fallback")
	f.handle(mcp.MethodInitialize, varying)
	signal(r.refetch)
	r.bothListed("echo confirm", "echo fallback")
}

func TestSubscriptionsWithoutCapabilities(t *testing.T) {
	t.Parallel()
	f := newFake(t, mcp.Legacy)
	f.varies()
	spec := f.withoutSpec()
	spec.Isolation = IsolateSession
	r := run(t, spec)
	r.bothListed("echo confirm", "echo fallback")
	subscribe := declaringNothing(&mcp.Call{
		Method: mcp.MethodSubscribe, Principal: "me", Session: "window", Params: []byte(`{"uri":"file:///a"}`),
	})
	call := declaringNothing(tool("fallback", `{}`))
	call.Session = "window"
	r.call(subscribe)
	r.call(call)
	asked := f.requests(mcp.MethodSubscribe)
	if own, other := asked[0].Header.Get(mcp.HeaderSession), f.sessionOf("fallback"); own != other {
		t.Errorf("subscribed in session %s and called in %s", own, other)
	}
	f.mu.Lock()
	delete(f.sessions, f.log[len(f.log)-1].Header.Get(mcp.HeaderSession)) // the server forgets it
	f.mu.Unlock()
	r.call(call)
	testwait.Until(t, patience, "the subscription in the next session", func() bool { return len(f.requests(mcp.MethodSubscribe)) == 2 })
	r.EndSession("me", "window")
	for _, key := range r.subs.keys() {
		t.Errorf("a subscription of %v is kept after the end of the session", key)
	}
}

// withoutChild is the configuration of a process that lists by what was declared
// to it, with the file in which each one notes its start.
func withoutChild(t *testing.T, script string, plain WithoutCapabilities) (Spec, string) {
	t.Helper()
	folder := t.TempDir()
	spec := childServer(script, mcp.Legacy)
	spec.Without, spec.Questions = plain, Questions{Elicitation: true}
	spec.Env = append(spec.Env, placesVariable+"="+folder)
	return spec, filepath.Join(folder, "started")
}

// started returns what each process was declared.
func started(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Fields(string(text))
}

const (
	toldAll  = `{"elicitation":{"form":{},"url":{}}}`
	toldNone = `{}`
)

func TestListsWithoutCapabilitiesOfAProcess(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		script string
		plain  WithoutCapabilities
		want   string
		starts []string
		beside int
	}{
		{"stays one process", "varies", WithoutAuto, "", []string{toldAll}, 0},
		{"is read from one more where that is wanted", "varies", WithoutAlways, "echo fallback", []string{toldAll, toldNone}, 1},
		{"that is the same ends the process", "notes", WithoutAlways, "", []string{toldAll, toldNone}, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			spec, path := withoutChild(t, tt.script, tt.plain)
			r := run(t, spec)
			testwait.Until(t, patience, "the first listing", func() bool { return len(r.tools()) > 0 })
			if got := strings.Join(r.withoutTools(), " "); got != tt.want {
				t.Errorf("the list without capabilities is %q beside the first full one, want %q", got, tt.want)
			}
			testwait.Until(t, patience, "the processes that are kept", func() bool { return r.beside() == tt.beside })
			if got := started(t, path); !slices.Equal(got, tt.starts) {
				t.Errorf("the processes were declared %q, want %q", got, tt.starts)
			}
		})
	}
}

func TestListsWithoutCapabilitiesOfAProcessThatRunsAnyway(t *testing.T) {
	t.Parallel()
	spec, path := withoutChild(t, "varies", WithoutAuto)
	r := run(t, spec)
	r.state(mcp.Ready)
	newSerialQueue(&r.behaviour).asked() // a server that asks gets a process for those who cannot be asked (ADR 0012)
	r.call(exactly(tool("echo", `{}`)))
	r.bothListed("echo confirm", "echo fallback")
	if got := started(t, path); !slices.Equal(got, []string{toldAll, toldNone}) {
		t.Errorf("the processes were declared %q", got)
	}
	// What is known of it starts the process by itself from then on.
	r.end()
	l, _ := r.Listing()
	again := run(t, spec, func(o *Options) { o.Known = l })
	again.looked()
	again.bothListed("echo confirm", "echo fallback")
	if got := started(t, path); len(got) != 4 {
		t.Errorf("%d processes were started, want 4", len(got))
	}
}
