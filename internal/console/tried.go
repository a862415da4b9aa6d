package console

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/toolgate/toolgate/gate"
	"github.com/toolgate/toolgate/gate/approval"
	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/console/form"
	"github.com/toolgate/toolgate/internal/mcp"
)

// triedData is one call by hand.
type triedData struct {
	Try      admin.Try
	As       callerData
	Asked    []askedData
	Problems []string        // of the answers
	Waits    []approval.Item // questions to people about the call
	Result   []string        // texts of the result
}

// askedData is one question of a tool.
type askedData struct {
	Index   int
	Message string
	URL     string // to visit; empty for a form
	Host    string // of the URL
	Form    *form.Form
	Do      string // what was chosen; empty for nothing
	Problem string // of the choice
	key     string
}

// Running tells whether the call is not over.
func (d *triedData) Running() bool { return d.Try.State != admin.TryOver }

// Events is the path of the events of a call that the page does not show yet.
func (d *triedData) Events() string {
	return "/try/calls/" + url.PathEscape(d.Try.ID) + "/events?after=" + strconv.Itoa(d.Try.Revision)
}

// tried shows one call.
func (v *visit) tried() {
	model, by, as := v.trier()
	t, err := model.TriedCall(v.r.Context(), by, v.r.PathValue("id"), -1)
	if err != nil {
		v.missing()
		return
	}
	v.showTried(http.StatusOK, v.triedOf(&t, as, nil))
}

func (v *visit) showTried(status int, d *triedData) {
	words := []string{"call", d.Try.Tool}
	if len(d.Try.Arguments) > 0 && len(d.Try.Arguments) <= longText {
		words = append(words, "--json", string(d.Try.Arguments))
	}
	v.render(status, &page{Title: "Try", View: "tried", Command: command(words...), Data: d, Refresh: d.Try.State == admin.TryRuns})
}

// triedOf returns what is shown of a call. sent is what was written into the forms of its
// questions; nil for nothing.
func (v *visit) triedOf(t *admin.Try, as callerData, sent url.Values) *triedData {
	d := &triedData{Try: *t, As: as, Waits: v.waits(t)}
	for i := range t.Questions {
		d.Asked = append(d.Asked, askedOf(i, len(t.Questions), &t.Questions[i], sent))
	}
	if n := len(t.Messages); n > 0 && t.State == admin.TryOver {
		d.Result = texts(&t.Messages[n-1])
	}
	return d
}

// askedOf returns one of some questions, which share the size of the page.
func askedOf(i, all int, q *admin.TryQuestion, sent url.Values) askedData {
	a := askedData{Index: i, key: q.Key, Do: sent.Get("do" + strconv.Itoa(i))}
	a.Message, _ = mcp.LookupString(q.Params, "message")
	a.Message = bounded(a.Message, longText/all, true)
	if mode, _ := mcp.LookupString(q.Params, "mode"); mode == "url" {
		a.URL, _ = mcp.LookupString(q.Params, "url")
		if u, err := url.Parse(a.URL); err == nil {
			a.Host = u.Hostname()
		}
		return a
	}
	a.Form = form.NewOneOf(all, mcp.Lookup(q.Params, "requestedSchema"), "q"+strconv.Itoa(i), sent)
	return a
}

// texts are the texts of a result that was kept whole.
func texts(m *admin.TryMessage) (all []string) {
	raw := []byte(m.Text)
	if m.Sent || m.Bytes != len(raw) || mcp.Validate(raw, mcp.Limits{LoneSurrogates: true}) != nil {
		return nil
	}
	content := mcp.Lookup(raw, "result", "content")
	for e := range mcp.Elements(content) {
		const most = 20
		if text, ok := mcp.LookupString(e.Of(content), "text"); ok && len(all) < most {
			all = append(all, text)
		}
	}
	return all
}

// waits are the questions to people that a call waits for, or was refused for. Whoever
// makes the call sees them, and an administrator can answer.
func (v *visit) waits(t *admin.Try) []approval.Item {
	id := v.person.id
	if other, _ := v.sessions.caller(v.session); other != nil {
		id = other
	}
	hash := mcp.Hash(t.Arguments)
	asks := func(i *approval.Item) bool {
		if t.Arguments != nil && i.ArgsHash != hex.EncodeToString(hash[:]) {
			return false // another call of the same tool
		}
		return i.Tool == t.Tool && (id == nil || person{id: id}.is(i.Issuer, i.Tenant, i.Subject))
	}
	if t.Approval != "" {
		i, err := v.model.Approval(v.r.Context(), t.Approval)
		if err != nil || i.State != string(gate.ApprovalPending) || !asks(&i) {
			return nil
		}
		return []approval.Item{unseen(i)}
	}
	if t.State != admin.TryRuns {
		return nil
	}
	items, err := v.model.Approvals(v.r.Context(), string(gate.ApprovalPending))
	if err != nil {
		return nil // the page of approvals says so
	}
	items = slices.DeleteFunc(items, func(i approval.Item) bool { return !asks(&i) })
	for n := range items {
		items[n] = unseen(items[n])
	}
	return items
}

// unseen is a question without the arguments. The call beside it has them.
func unseen(i approval.Item) approval.Item {
	i.Arguments = ""
	return i
}

// answerTried answers what a call asks.
func (v *visit) answerTried() {
	model, by, as := v.trier()
	t, err := model.TriedCall(v.r.Context(), by, v.r.PathValue("id"), -1)
	if err != nil {
		v.missing()
		return
	}
	if rows, ok := strings.CutPrefix(v.r.PostFormValue("do"), doRow); ok {
		n, _ := strconv.Atoi(v.r.PostForm.Get(rows))
		v.r.PostForm.Set(rows, strconv.Itoa(max(1, n)+1))
		v.showTried(http.StatusOK, v.triedOf(&t, as, v.sent()))
		return
	}
	round, _ := strconv.Atoi(v.r.PostFormValue("round"))
	if round != t.Round { // what was written answers other questions
		http.Redirect(v.w, v.r, "/try/calls/"+url.PathEscape(t.ID), http.StatusSeeOther)
		return
	}
	d := v.triedOf(&t, as, v.sent())
	a, ok := v.answersOf(d, round)
	if !ok {
		v.showTried(http.StatusUnprocessableEntity, d)
		return
	}
	err = model.AnswerTry(v.r.Context(), by, t.ID, a)
	problems, wrong := errors.AsType[*admin.TryProblems](err)
	switch {
	case err == nil, errors.Is(err, admin.ErrTryRound): // the page shows what it asks instead
		http.Redirect(v.w, v.r, "/try/calls/"+url.PathEscape(t.ID), http.StatusSeeOther)
	case wrong:
		for _, p := range problems.Problems {
			d.mark(&p)
		}
		v.showTried(http.StatusUnprocessableEntity, d)
	case errors.Is(err, admin.ErrTryLarge):
		d.Problems = append(d.Problems, "The answer has more than "+size(admin.MaxTryArguments)+".")
		v.showTried(http.StatusRequestEntityTooLarge, d)
	default:
		v.fail(http.StatusServiceUnavailable, err.Error())
	}
}

// answersOf reads the answers to all questions of a call. ok is false where one cannot be
// read, which is said beside its field.
func (v *visit) answersOf(d *triedData, round int) (a admin.TryAnswer, ok bool) {
	a, ok = admin.TryAnswer{Round: round, Answers: map[string]json.RawMessage{}}, true
	for i := range d.Asked {
		q := &d.Asked[i]
		do := v.r.PostFormValue("do")
		if len(d.Asked) > 1 {
			do = q.Do
		}
		switch {
		case do != "accept" && do != "decline" && do != "cancel": // a question that nobody looked at is not answered
			q.Problem, ok = "choose an answer", false
		case do != "accept":
			a.Answers[q.key], _ = json.Marshal(map[string]string{"action": do})
		case q.Form == nil:
			a.Answers[q.key] = json.RawMessage(`{"action":"accept"}`)
		default:
			content, read := q.Form.JSON()
			ok = ok && read
			a.Answers[q.key] = slices.Concat([]byte(`{"action":"accept","content":`), content, []byte("}"))
		}
	}
	return a, ok
}

// mark puts a problem beside the field of the question that it is about.
func (d *triedData) mark(p *admin.TryProblem) {
	key, rest, _ := strings.Cut(strings.TrimPrefix(p.Pointer, "/"), "/")
	if rest != "" {
		rest = "/" + rest
	}
	for i := range d.Asked {
		if q := &d.Asked[i]; q.Form != nil && mcp.PointerToken(q.key) == key {
			q.Form.Mark(rest, problemText(p))
			return
		}
	}
	d.Problems = append(d.Problems, problemText(p))
}

// cancelTried ends a call.
func (v *visit) cancelTried() {
	model, by, _ := v.trier()
	if err := model.CancelTry(v.r.Context(), by, v.r.PathValue("id")); err != nil {
		v.missing()
		return
	}
	http.Redirect(v.w, v.r, "/try/calls/"+url.PathEscape(v.r.PathValue("id")), http.StatusSeeOther)
}

// triedEvents keeps the page of a call fresh until the call is over. A page that has the
// newest revision is left as it is, with what somebody writes into it.
func (v *visit) triedEvents() {
	leave := v.sessions.stream(v.session)
	if leave == nil {
		http.Error(v.w, "too many live views are open", http.StatusTooManyRequests)
		return
	}
	defer leave()
	seen, err := strconv.Atoi(v.r.Header.Get("Last-Event-ID"))
	if err != nil {
		if seen, err = strconv.Atoi(v.r.FormValue("after")); err != nil {
			seen = -1
		}
	}
	model, by, as := v.trier()
	t, err := model.TriedCall(v.r.Context(), by, v.r.PathValue("id"), -1)
	if err != nil {
		v.missing()
		return
	}
	s := v.openStream("tried", 0)
	if s == nil {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	var last []byte
	for {
		who, ok := v.who(v.session)
		if !ok || !v.sessions.lasts(v.session) {
			return
		}
		v.person = who
		text := s.fragment("tried", part{&page{Person: v.person, CSRF: v.session.csrf}, v.triedOf(&t, as, nil)})
		s.after = uint64(t.Revision)
		if (last != nil || t.Revision != seen) && !bytes.Equal(text, last) && !s.event("tried", text) {
			return
		}
		last = text
		if t.State == admin.TryOver {
			s.event("over", []byte("over"))
			return
		}
		select {
		case <-tick.C:
		case <-v.r.Context().Done():
			return
		case <-v.o.Done:
			return
		}
		if t, err = v.next(model, by, &t); err != nil {
			return
		}
		if time.Since(s.wrote) >= quietTime && !s.send(": quiet\n\n") {
			return
		}
	}
}

// next waits for another revision of a call, but not for longer than the state of a gateway
// is shown unchanged.
func (v *visit) next(model admin.Tries, by admin.Trier, t *admin.Try) (admin.Try, error) {
	ctx, cancel := context.WithTimeout(v.r.Context(), stateEvery)
	defer cancel()
	return model.TriedCall(ctx, by, t.ID, t.Revision)
}
