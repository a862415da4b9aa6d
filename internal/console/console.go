package console

import (
	"cmp"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
)

// Options are what a console is made of. All of it is needed.
type Options struct {
	Log *slog.Logger
	// URL is where the console is, without a path.
	URL string
	// Secure tells that it is served over TLS, Local that only this machine reaches it.
	Secure, Local bool
	// Hosts are further names that it is served under.
	Hosts func() []string
	// Identities tell who signs in.
	Identities Identities
	// OpenID signs people in at issuers.
	OpenID OpenID
	// Model returns the gateway as somebody looks at it; nil is an operator of this
	// machine.
	Model func(id *gate.Identity) Model
	// Failures wraps the handlers that take credentials, and bounds how many fail.
	Failures func(http.Handler) http.Handler
	// From returns the address of a browser, by which those who have not signed in are
	// counted.
	From func(*http.Request) string
	// Done is closed when the gateway ends, and live views with it.
	Done <-chan struct{}
}

// Console serves the pages. Make one with [New]. It is safe for concurrent use.
type Console struct {
	o        Options
	sessions *sessions
	logins   *logins
	asking   issuerLimit
	reading  readings
	mux      *http.ServeMux
}

// New returns a console.
func New(o Options) *Console {
	c := &Console{o: o, sessions: newSessions(), logins: newLogins(), mux: http.NewServeMux()}
	c.mux.HandleFunc("GET /assets/{name}", serveAsset)
	c.mux.Handle("GET /open/{secret}", o.Failures(http.HandlerFunc(c.openLink)))
	c.mux.HandleFunc("GET /sign-in", c.signInPage)
	c.mux.Handle("POST /sign-in", o.Failures(http.HandlerFunc(c.signIn)))
	c.mux.Handle("GET "+withPath, o.Failures(http.HandlerFunc(c.signInWith)))
	c.mux.Handle("GET "+callbackPath, o.Failures(http.HandlerFunc(c.signInBack)))
	for _, r := range routes {
		h := http.Handler(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) { c.serve(w, req, &r) }))
		if r.takesKey {
			h = o.Failures(h)
		}
		c.mux.Handle(r.pattern, h)
	}
	c.mux.HandleFunc("/", func(w http.ResponseWriter, req *http.Request) {
		c.serve(w, req, &route{least: ViewerOwn, serve: func(v *visit) { v.missing() }})
	})
	return c
}

// Link returns a URL that signs one browser of this machine in as an operator.
func (c *Console) Link() string { return c.o.URL + "/open/" + c.sessions.link() }

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	if refusal := c.admitted(r); refusal != "" {
		c.say(w, http.StatusForbidden, "Not from there", refusal)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	c.mux.ServeHTTP(w, r)
}

// maxForm bounds a form, in bytes.
const maxForm = 4 << 20

// route is a page or an action, and the least role that it is for.
type route struct {
	pattern  string
	least    Role
	serve    func(*visit)
	takesKey bool // wrong ones are counted
}

// routes are all pages and actions for those who have signed in.
var routes = []route{
	{pattern: "GET /{$}", least: ViewerOwn, serve: (*visit).home},
	{pattern: "GET /now", least: Viewer, serve: (*visit).now},
	{pattern: "GET /now/events", least: Viewer, serve: (*visit).nowEvents},
	{pattern: "GET /now/chart", least: Viewer, serve: (*visit).nowChart},
	{pattern: "POST /mode", least: Admin, serve: (*visit).setMode},
	{pattern: "POST /breakers/reset", least: Admin, serve: (*visit).resetBreaker},
	{pattern: "GET /calls", least: ViewerOwn, serve: (*visit).calls},
	{pattern: "GET /calls/{id}", least: ViewerOwn, serve: (*visit).call},
	{pattern: "GET /catalog", least: Viewer, serve: (*visit).catalog},
	{pattern: "GET /catalog/entry", least: Viewer, serve: (*visit).entry},
	{pattern: "POST /catalog/change", least: Admin, serve: (*visit).changeCatalog},
	{pattern: "GET /try", least: ViewerOwn, serve: (*visit).try},
	{pattern: "POST /try/as", least: ViewerOwn, serve: (*visit).tryAs, takesKey: true},
	{pattern: "GET /try/tool", least: ViewerOwn, serve: (*visit).tryTool},
	{pattern: "POST /try/tool", least: ViewerOwn, serve: (*visit).callTool},
	{pattern: "GET /try/calls/{id}", least: ViewerOwn, serve: (*visit).tried},
	{pattern: "GET /try/calls/{id}/events", least: ViewerOwn, serve: (*visit).triedEvents},
	{pattern: "POST /try/calls/{id}/answer", least: ViewerOwn, serve: (*visit).answerTried},
	{pattern: "POST /try/calls/{id}/cancel", least: ViewerOwn, serve: (*visit).cancelTried},
	{pattern: "GET /approvals", least: ViewerOwn, serve: (*visit).approvals},
	{pattern: "GET /approvals/{id}", least: ViewerOwn, serve: (*visit).approval},
	{pattern: "POST /approvals/{id}", least: Admin, serve: (*visit).answer},
	{pattern: "GET /budgets", least: Viewer, serve: (*visit).budgets},
	{pattern: "GET /access", least: Auditor, serve: (*visit).access},
	{pattern: "GET /access/replay", least: Admin, serve: (*visit).replay},
	{pattern: "POST /access/replay", least: Admin, serve: (*visit).decideAgain},
	{pattern: "GET /runs", least: ViewerOwn, serve: (*visit).runs},
	{pattern: "GET /runs/{id}", least: ViewerOwn, serve: (*visit).run},
	{pattern: "GET /jobs", least: ViewerOwn, serve: (*visit).jobs},
	{pattern: "GET /searches", least: Auditor, serve: (*visit).searches},
	{pattern: "GET /replicas", least: Auditor, serve: (*visit).replicas},
	{pattern: "POST /sign-out", least: ViewerOwn, serve: (*visit).signOut},
}

// visit is one request of somebody who has signed in.
type visit struct {
	*Console
	w       http.ResponseWriter
	r       *http.Request
	session *session
	person  person
	model   Model
}

// serve serves a route to whoever may see it. To others it does not exist.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, to *route) {
	session := c.sessions.find(c.cookie(r))
	who, ok := c.who(session)
	if !ok {
		c.askIn(w, r)
		return
	}
	v := &visit{Console: c, w: w, r: r, session: session, person: who, model: c.o.Model(who.id)}
	if large(r) {
		v.fail(http.StatusRequestEntityTooLarge, "This form has more than "+size(maxForm)+".")
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !same(r.FormValue("csrf"), session.csrf) {
		v.fail(http.StatusForbidden, "This form is of another session. Open the page again.")
		return
	}
	if who.role < to.least {
		v.missing()
		return
	}
	to.serve(v)
}

// large tells whether a form is larger than it may be. It reads the form.
func large(r *http.Request) bool {
	err := r.ParseForm()
	if err == nil {
		err = r.ParseMultipartForm(maxForm)
	}
	_, is := errors.AsType[*http.MaxBytesError](err)
	return is
}

// who returns the person of a session, with the role of this moment.
func (c *Console) who(s *session) (person, bool) {
	switch {
	case s == nil:
		return person{}, false
	case s.id == nil:
		return person{role: Admin}, true
	case s.under != nil && s.under != c.o.Identities.Settings():
		return person{}, false
	}
	id := c.o.Identities.Now(s.id)
	if id == nil {
		return person{}, false
	}
	return person{id: id, role: c.o.Identities.Role(id)}, true
}

// askIn leads to the page for signing in, and from there back.
func (c *Console) askIn(w http.ResponseWriter, r *http.Request) {
	back := r.URL.RequestURI()
	if r.Method != http.MethodGet {
		back = "/"
		if from, err := url.Parse(r.Referer()); err == nil {
			back = cmp.Or(from.RequestURI(), "/")
		}
	}
	to := signInPath(backTo(back))
	if r.Header.Get("HX-Request") != "" { // a fragment: the whole page has to change
		w.Header().Set("HX-Redirect", to)
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	if r.Header.Get("Accept") == "text/event-stream" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// missing answers what does not exist, and what somebody may not see.
func (v *visit) missing() { v.fail(http.StatusNotFound, "There is nothing at this address.") }

// fail answers with a page that says why.
func (v *visit) fail(status int, why string) {
	v.render(status, &page{Title: http.StatusText(status), View: "message", Data: why})
}

// home leads to the first view of a person.
func (v *visit) home() {
	to := "/calls"
	if v.person.role >= Viewer {
		to = "/now"
	}
	http.Redirect(v.w, v.r, to, http.StatusSeeOther)
}

// signOut ends the session.
func (v *visit) signOut() {
	v.model.EndTries(admin.Trier{Session: v.session.tries})
	v.sessions.end(v.cookie(v.r))
	v.setCookie(v.w, "")
	http.Redirect(v.w, v.r, "/sign-in", http.StatusSeeOther)
}
