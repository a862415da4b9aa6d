package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// nowData is what runs at this moment.
type nowData struct {
	Status   admin.Status
	Breakers []admin.Breaker // that are not closed
	Sessions int
	Live     liveData
}

// liveData are calls as they end, the latest first.
type liveData struct {
	Last   uint64
	Missed uint64
	Calls  []admin.Call
}

// shownLive is how many calls the live view shows.
const shownLive = 20

// nowOf asks for what runs.
func nowOf(m Model) *nowData {
	d := &nowData{Status: m.Status(), Sessions: m.Activity().Sessions}
	for _, b := range m.Breakers() {
		if b.State != "closed" {
			d.Breakers = append(d.Breakers, b)
		}
	}
	return d
}

// liveOf returns the calls since one of a number, as many as can be read.
func (v *visit) liveOf(after uint64) liveData {
	got := v.model.LiveCalls(after)
	d := liveData{Last: got.Last, Missed: got.Missed}
	if extra := len(got.Calls) - shownLive; extra > 0 {
		d.Missed += uint64(extra)
		got.Calls = got.Calls[extra:]
	}
	for i := range got.Calls {
		d.Calls = append(d.Calls, got.Calls[len(got.Calls)-1-i])
	}
	return d
}

// now shows servers, breakers, the mode and live calls.
func (v *visit) now() {
	d := nowOf(v.model)
	d.Live = v.liveOf(0)
	v.render(http.StatusOK, &page{Title: "Now", View: "now", Command: command("status"), Data: d})
}

// nowChart are the calls of the last hour, for a chart.
func (v *visit) nowChart() {
	const step = time.Minute
	now := time.Now().Truncate(step)
	over, err := v.model.CallsOver(v.r.Context(), now.Add(-time.Hour), step)
	if err != nil {
		http.Error(v.w, "the log of executions cannot be read", http.StatusServiceUnavailable)
		return
	}
	at := map[int64]admin.CallBucket{}
	for _, b := range over {
		at[b.At.Unix()] = b
	}
	out := [3][]int64{}
	for t := now.Add(-time.Hour); !t.After(now); t = t.Add(step) {
		b := at[t.Unix()]
		out[0], out[1], out[2] = append(out[0], t.Unix()), append(out[1], b.Calls), append(out[2], b.Failures)
	}
	v.w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(v.w).Encode(out)
}

const (
	// liveEvery is how often a live view is written at most, stateEvery how often the state
	// of the gateway is looked at for it, and quietTime how long it is silent at most.
	liveEvery  = 500 * time.Millisecond
	stateEvery = 2 * time.Second
	quietTime  = 15 * time.Second
	// streamWrite bounds one write to a browser that does not read.
	streamWrite = 10 * time.Second
)

// nowEvents keeps the page fresh. After a break the browser names the last call that it
// has seen.
func (v *visit) nowEvents() {
	leave := v.sessions.stream(v.session)
	if leave == nil {
		http.Error(v.w, "too many live views are open", http.StatusTooManyRequests)
		return
	}
	defer leave()
	after, err := strconv.ParseUint(v.r.Header.Get("Last-Event-ID"), 10, 64)
	if err != nil {
		if after, err = strconv.ParseUint(v.r.FormValue("after"), 10, 64); err != nil {
			after = v.model.LiveCalls(0).Last
		}
	}
	s := v.openStream("now", after)
	if s == nil {
		return
	}
	tick := time.NewTicker(liveEvery)
	defer tick.Stop()
	for {
		if who, ok := v.who(v.session); !ok || who.role < Viewer || !v.sessions.lasts(v.session) {
			return // the page asks to sign in when it is loaded again
		}
		if !s.step(time.Now()) {
			return
		}
		select {
		case <-tick.C:
		case <-v.r.Context().Done():
			return
		case <-v.o.Done:
			return
		}
	}
}

// openStream begins a live view behind the event of a number; nil for a browser that has left.
func (v *visit) openStream(view string, after uint64) *stream {
	v.w.Header().Set("Content-Type", "text/event-stream")
	v.w.Header().Set("X-Accel-Buffering", "no")
	s := &stream{visit: v, view: view, after: after, to: http.NewResponseController(v.w)}
	if !s.send(": open\n\n") {
		return nil
	}
	return s
}

// stream is one live view.
type stream struct {
	*visit
	view  string // whose parts are written
	to    *http.ResponseController
	after uint64 // number of the last call that was written
	calls []admin.Call
	state []byte // that was written last
	asked time.Time
	wrote time.Time
}

// step writes what has changed, and tells whether the browser still reads.
func (s *stream) step(now time.Time) bool {
	if now.Sub(s.asked) >= stateEvery {
		s.asked = now
		if text := s.fragment("state", part{&page{Person: s.person, CSRF: s.session.csrf}, nowOf(s.model)}); !bytes.Equal(text, s.state) {
			s.state = text
			if !s.event("state", text) {
				return false
			}
		}
	}
	if d := s.liveOf(s.after); d.Last != s.after {
		s.after = d.Last
		s.calls = append(d.Calls, s.calls...)
		s.calls = s.calls[:min(len(s.calls), shownLive)]
		d.Calls = s.calls
		return s.event("calls", s.fragment("live", d))
	}
	if now.Sub(s.wrote) >= quietTime {
		return s.send(": quiet\n\n")
	}
	return true
}

// fragment renders a part of the page.
func (s *stream) fragment(name string, data any) []byte {
	var b bytes.Buffer
	if err := templates()[s.view].ExecuteTemplate(&b, name, data); err != nil {
		s.o.Log.Error("a part of the console cannot be shown", "part", name, "err", err)
	}
	return b.Bytes()
}

// event writes one event with the number of the last call.
func (s *stream) event(name string, text []byte) bool {
	var b bytes.Buffer
	fmt.Fprintf(&b, "event: %s\nid: %d\n", name, s.after)
	for line := range bytes.Lines(text) {
		b.WriteString("data: ")
		// A carriage return ends a line of an event, too.
		b.Write(bytes.ReplaceAll(bytes.TrimRight(line, "\r\n"), []byte{'\r'}, []byte("&#13;")))
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
	return s.send(b.String())
}

func (s *stream) send(text string) bool {
	s.wrote = time.Now()
	_ = s.to.SetWriteDeadline(time.Now().Add(streamWrite))
	if _, err := s.w.Write([]byte(text)); err != nil {
		return false
	}
	return s.to.Flush() == nil
}

// setMode changes the operating mode.
func (v *visit) setMode() {
	if _, err := v.model.SetMode(v.r.Context(), v.r.PostFormValue("mode"), v.r.PostFormValue("reason")); err != nil {
		v.fail(http.StatusUnprocessableEntity, err.Error())
		return
	}
	http.Redirect(v.w, v.r, "/now", http.StatusSeeOther)
}

// resetBreaker closes a breaker.
func (v *visit) resetBreaker() {
	if err := v.model.ResetBreaker(v.r.PostFormValue("server"), v.r.PostFormValue("tool")); err != nil {
		v.fail(http.StatusUnprocessableEntity, err.Error())
		return
	}
	http.Redirect(v.w, v.r, "/now", http.StatusSeeOther)
}
