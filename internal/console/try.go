package console

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console/form"
	"github.com/toolgate/toolgate/internal/mcp"
)

const (
	// shownTools bounds the tools of a page. The search narrows what is found.
	shownTools = 200
	// firstWait is how long a page waits for the end of a call that it has just begun.
	firstWait = 3 * time.Second
)

// tryData are the tools that somebody can call by hand, and what they have called.
type tryData struct {
	As      callerData
	Query   string
	Tools   []admin.TryTool
	Found   int
	History []admin.Try
	Down    string
}

// callerData says as whom calls are made.
type callerData struct {
	Name  string // empty where nobody is chosen
	Other bool   // somebody else than who has signed in
	Keys  bool   // another caller can be chosen
}

// toolData is the form of one tool.
type toolData struct {
	As        callerData
	Tool      admin.TryTool
	Form      *form.Form
	Raw       string // the arguments as JSON
	Unchecked bool
	Shown     string   // what the form was made of: the caller and the definition
	Problems  []string // of the arguments as JSON, or of the whole
	History   []admin.Try
}

// formPrefix begins the names of the inputs of a tool's form.
const formPrefix = "v"

// trier is whoever calls by hand in this session, and the gateway as they see it.
func (v *visit) trier() (admin.Tries, admin.Trier, callerData) {
	d := callerData{Keys: v.o.Identities.Authenticated()}
	lasts := func() bool { return v.sessions.lasts(v.session) }
	id, until := v.sessions.caller(v.session)
	if id != nil {
		if id = v.o.Identities.Now(id); id == nil {
			v.sessions.setCaller(v.session, nil, noEnd)
		}
	}
	if id != nil {
		d.Name, d.Other = id.Subject+" of "+id.Tenant, true
		return v.o.Model(id), admin.Trier{Session: v.session.tries, Until: until, Lasts: lasts}, d
	}
	switch {
	case v.person.id != nil:
		d.Name = v.person.id.Subject + " of " + v.person.id.Tenant
	case !d.Keys:
		d.Name = gate.Local.Subject + " of " + gate.Local.Tenant // whoever calls
	}
	return v.model, admin.Trier{Session: v.session.tries, Until: v.session.until, Lasts: lasts}, d
}

// try lists the tools that can be called.
func (v *visit) try() {
	model, by, as := v.trier()
	d := &tryData{As: as, Query: v.r.FormValue("q")}
	all, err := model.TryTools(v.r.Context(), by)
	switch {
	case errors.Is(err, admin.ErrTryAs): // the page asks for the caller
	case err != nil:
		d.Down = err.Error()
	}
	all = slices.DeleteFunc(all, func(t admin.TryTool) bool {
		return !strings.Contains(strings.ToLower(t.Name+" "+t.Title+" "+t.Description), strings.ToLower(d.Query))
	})
	d.Found, d.Tools = len(all), all[:min(len(all), shownTools)]
	d.History, _ = model.Tried(v.r.Context(), by) // whoever has no caller has no calls
	v.render(http.StatusOK, &page{Title: "Try", View: "try", Command: command("tools"), Data: d})
}

// tryAs chooses as whom calls are made: the caller with an API key or token, or again
// whoever has signed in. The key itself is not kept.
func (v *visit) tryAs() {
	key := strings.TrimSpace(v.r.PostFormValue("key"))
	if key == "" || !v.o.Identities.Authenticated() {
		v.sessions.setCaller(v.session, nil, noEnd)
		http.Redirect(v.w, v.r, "/try", http.StatusSeeOther)
		return
	}
	id, until, err := v.o.Identities.SignIn(v.r, key)
	if err != nil {
		v.fail(http.StatusForbidden, "The gateway does not know this key.")
		return
	}
	v.sessions.setCaller(v.session, id, until)
	http.Redirect(v.w, v.r, "/try", http.StatusSeeOther)
}

// tryTool shows the form of a tool, with the arguments of an earlier call if one is named.
func (v *visit) tryTool() {
	model, by, as := v.trier()
	d, ok := v.toolOf(model, by, as)
	if !ok {
		return
	}
	d.Raw = "{}"
	var args []byte
	if id := v.r.FormValue("from"); id != "" {
		if t, err := model.TriedCall(v.r.Context(), by, id, -1); err == nil && t.Arguments != nil {
			args, d.Raw = t.Arguments, string(t.Arguments)
		}
	}
	d.filled(mcp.Lookup(d.Tool.Definition, "inputSchema"), args)
	v.showTool(http.StatusOK, d)
}

// filled is the form with arguments in it; nil for what the schema suggests.
func (d *toolData) filled(schema, args []byte) {
	d.Form = form.New(schema, formPrefix, nil, args)
	if args != nil && !form.Holds(schema, args) {
		d.Problems = append(d.Problems, "The form cannot have all of the JSON. Call with the JSON to send it whole.")
	}
}

// toolOf returns what the page of a tool begins with. Without the tool it has answered.
func (v *visit) toolOf(model admin.Tries, by admin.Trier, as callerData) (*toolData, bool) {
	tool, err := model.TryTool(v.r.Context(), by, v.r.FormValue("name"))
	switch {
	case errors.Is(err, admin.ErrNoTryTool):
		v.missing()
		return nil, false
	case errors.Is(err, admin.ErrTryAs):
		http.Redirect(v.w, v.r, "/try", http.StatusSeeOther)
		return nil, false
	case err != nil:
		v.fail(http.StatusServiceUnavailable, err.Error())
		return nil, false
	}
	d := &toolData{As: as, Tool: tool, Shown: shown(as.Name, tool.Definition)}
	d.History, _ = model.Tried(v.r.Context(), by) // that of the caller was just asked for its tools
	d.History = slices.DeleteFunc(d.History, func(t admin.Try) bool { return t.Tool != tool.Name })
	return d, true
}

// shown is what a form was made of. A form that is sent is about what its page has shown, and
// made as the caller whom it has named.
func shown(as string, definition []byte) string {
	sum := sha256.Sum256(append([]byte(as+"\x00"), definition...))
	return hex.EncodeToString(sum[:16])
}

func (v *visit) showTool(status int, d *toolData) {
	v.render(status, &page{Title: "Try", View: "tool", Command: command("call", d.Tool.Name), Data: d})
}

// What the buttons of a tool's form do.
const (
	doForm = "form" // calls with what is in the form
	doRaw  = "raw"  // calls with what is written as JSON
	doJSON = "json" // writes the form as JSON
	doFill = "fill" // fills the form from the JSON
	doRow  = "row " // adds a row to a list, whose input is named after it
)

// callTool calls a tool with a form or with JSON, or changes one into the other.
func (v *visit) callTool() {
	model, by, as := v.trier()
	d, ok := v.toolOf(model, by, as)
	if !ok {
		return
	}
	do, schema := v.r.PostFormValue("do"), mcp.Lookup(d.Tool.Definition, "inputSchema")
	d.Raw, d.Unchecked = v.r.PostFormValue("arguments"), v.r.PostFormValue("unchecked") != ""
	if rows, ok := strings.CutPrefix(do, doRow); ok {
		n, _ := strconv.Atoi(v.r.PostForm.Get(rows))
		v.r.PostForm.Set(rows, strconv.Itoa(max(1, n)+1))
	}
	if v.r.PostFormValue("shown") != d.Shown {
		d.Form = form.New(schema, formPrefix, nil, nil)
		d.Problems = append(d.Problems, "Nothing was sent: the caller or the definition of the tool is another one than the page has shown. Look again.")
		v.showTool(http.StatusConflict, d)
		return
	}
	d.Form = form.New(schema, formPrefix, v.sent(), nil)
	if !v.uploads(d.Form) {
		v.fail(http.StatusRequestEntityTooLarge, "The files are too large.")
		return
	}
	raw := []byte(d.Raw)
	valid := mcp.Validate(raw, mcp.Limits{}) == nil && mcp.IsObject(raw)
	switch do {
	case doFill:
		if !valid {
			d.Problems = append(d.Problems, "The arguments are not a JSON object.")
			break
		}
		if len(raw) > admin.MaxTryArguments {
			d.Problems = append(d.Problems, "The arguments have more than "+size(admin.MaxTryArguments)+".")
			break
		}
		d.filled(schema, raw)
	case doJSON:
		if object, ok := d.Form.JSON(); ok {
			d.Raw = string(object)
		}
	case doForm:
		object, ok := d.Form.JSON()
		if !ok {
			v.showTool(http.StatusUnprocessableEntity, d)
			return
		}
		d.Raw = string(object)
		v.begin(model, by, d, admin.NewTry{Tool: d.Tool.Name, Arguments: object})
		return
	case doRaw:
		v.begin(model, by, d, admin.NewTry{Tool: d.Tool.Name, Arguments: raw, Unchecked: d.Unchecked})
		return
	}
	v.showTool(http.StatusOK, d)
}

// sent are the fields of a form that was sent, never nil.
func (v *visit) sent() url.Values {
	if v.r.PostForm == nil {
		return url.Values{}
	}
	return v.r.PostForm
}

// uploads writes files that were sent into the fields of a form, and tells whether all of
// them could be read.
func (v *visit) uploads(f *form.Form) bool {
	if v.r.MultipartForm == nil {
		return true
	}
	for _, field := range f.Uploads() {
		files := v.r.MultipartForm.File[field.Upload]
		if len(files) == 0 || files[0].Size == 0 && files[0].Filename == "" {
			continue
		}
		in, err := files[0].Open()
		if err != nil {
			return false
		}
		content, err := io.ReadAll(io.LimitReader(in, admin.MaxTryArguments+1))
		_ = in.Close() // it was only read
		if err != nil || len(content) > admin.MaxTryArguments {
			return false
		}
		field.SetFile(content)
	}
	return true
}

// begin begins a call, and leads to its page. What does not fit is shown beside the fields,
// and nothing is sent.
func (v *visit) begin(model admin.Tries, by admin.Trier, d *toolData, n admin.NewTry) {
	t, err := model.Try(v.r.Context(), by, n)
	problems, wrong := errors.AsType[*admin.TryProblems](err)
	switch {
	case err == nil:
		ctx, cancel := context.WithTimeout(v.r.Context(), firstWait)
		defer cancel()
		for t.State == admin.TryRuns && ctx.Err() == nil {
			if t, err = model.TriedCall(ctx, by, t.ID, t.Revision); err != nil {
				v.missing()
				return
			}
		}
		http.Redirect(v.w, v.r, "/try/calls/"+url.PathEscape(t.ID), http.StatusSeeOther)
		return
	case wrong:
		for _, p := range problems.Problems {
			text := problemText(&p)
			if v.r.PostFormValue("do") == doForm {
				d.Form.Mark(p.Pointer, text)
			} else {
				d.Problems = append(d.Problems, strings.TrimSpace(p.Pointer+" "+text))
			}
		}
		if problems.More > 0 {
			d.Problems = append(d.Problems, "There are "+strconv.Itoa(problems.More)+" more problems.")
		}
		v.showTool(http.StatusUnprocessableEntity, d)
		return
	case errors.Is(err, admin.ErrTryBusy):
		d.Problems = append(d.Problems, err.Error())
		v.showTool(http.StatusTooManyRequests, d)
		return
	case errors.Is(err, admin.ErrTryLarge):
		d.Problems = append(d.Problems, "The arguments have more than "+size(admin.MaxTryArguments)+".")
		v.showTool(http.StatusRequestEntityTooLarge, d)
		return
	}
	v.fail(http.StatusServiceUnavailable, err.Error())
}

// problemText is a problem for people.
func problemText(p *admin.TryProblem) string {
	if p.Fix == "" {
		return p.Problem
	}
	return p.Problem + "; " + p.Fix
}
