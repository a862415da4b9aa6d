package console

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/admin"
)

// replayData is a change of the policy, and what would be decided otherwise with it.
type replayData struct {
	Since    string
	Files    []replayFile
	Missing  string   // why there is no policy to begin with
	Unread   string   // why it cannot be shown
	Down     string   // why nothing was decided
	Problems []string // of the policy as a whole
	Got      *admin.PolicyReplayed
}

// replayFile is a module of the policy as it was written.
type replayFile struct {
	Name, Text string
	Added      bool // it is no file of the policy in force, so that it can be named
	Problems   []string
}

// Differ is how many calls would be decided otherwise.
func (d *replayData) Differ() (n int) {
	for _, c := range d.Got.Counts {
		n += c.Calls
	}
	return n
}

// firstModule is the name of the module of a gateway that has none.
const firstModule = "policy.rego"

// replay shows the policy in force, to be changed.
func (v *visit) replay() {
	d := &replayData{Since: cmp.Or(v.r.FormValue("since"), "24h")}
	now, err := v.model.Policy(v.r.Context())
	if err != nil {
		d.Unread = err.Error()
	}
	d.Missing = now.Missing
	for _, f := range now.Files {
		d.Files = append(d.Files, replayFile{Name: f.Name, Text: f.Text})
	}
	added := replayFile{Added: true}
	if len(d.Files) == 0 {
		added.Name = firstModule
	}
	d.Files = append(d.Files, added)
	v.showReplay(http.StatusOK, d)
}

// decideAgain decides recorded calls with the policy as it was changed. Nothing is changed
// by it.
func (v *visit) decideAgain() {
	d := &replayData{Since: v.r.PostFormValue("since")}
	names, texts, added := v.r.PostForm["name"], v.r.PostForm["text"], v.r.PostForm["added"]
	if len(names) != len(texts) || len(names) != len(added) || len(names) > admin.MaxPolicyFiles {
		v.fail(http.StatusUnprocessableEntity, "This form has another number of files than of names, or too many.")
		return
	}
	q := admin.PolicyReplay{}
	for i, name := range names {
		f := replayFile{Name: strings.TrimSpace(name), Text: strings.ReplaceAll(texts[i], "\r\n", "\n"), Added: added[i] != ""} // a form sends line breaks as CR LF
		d.Files = append(d.Files, f)
		if strings.TrimSpace(f.Text) != "" {
			q.Files = append(q.Files, admin.PolicyFile{Name: f.Name, Text: f.Text})
		}
	}
	ago, err := time.ParseDuration(d.Since)
	if err != nil || ago <= 0 {
		d.Down = "write since as a duration, such as 15m or 24h"
		v.showReplay(http.StatusUnprocessableEntity, d)
		return
	}
	q.Since = time.Now().Add(-ago)
	got, err := v.model.ReplayPolicy(v.r.Context(), q)
	status := http.StatusOK
	switch {
	case errors.Is(err, admin.ErrReplayBusy), errors.Is(err, admin.ErrAuditBusy):
		status = http.StatusTooManyRequests
	case errors.Is(err, admin.ErrReplayBound):
		status = http.StatusUnprocessableEntity
	case err != nil:
		status = http.StatusServiceUnavailable
	case len(got.Problems) > 0:
		status = http.StatusUnprocessableEntity
		d.place(got.Problems)
	default:
		d.Got = &got
	}
	if err != nil {
		d.Down = err.Error()
	}
	v.showReplay(status, d)
}

// place puts problems beside the files that they are in.
func (d *replayData) place(problems []admin.PolicyProblem) {
next:
	for _, p := range problems {
		text := p.Text
		if p.Line > 0 {
			text = fmt.Sprintf("line %d: %s", p.Line, text)
		}
		for i := range d.Files {
			if f := &d.Files[i]; f.Name == p.File && strings.TrimSpace(f.Text) != "" {
				f.Problems = append(f.Problems, text)
				continue next
			}
		}
		if p.File != "" {
			text = p.File + ": " + text
		}
		d.Problems = append(d.Problems, text)
	}
}

func (v *visit) showReplay(status int, d *replayData) {
	since := d.Since
	if _, err := time.ParseDuration(since); err != nil {
		since = "24h"
	}
	v.render(status, &page{Title: "Access", View: "replay", Command: command("policy", "replay", "policies-new/", "--gateway", "--since="+since), Data: d})
}
