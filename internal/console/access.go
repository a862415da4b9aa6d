package console

import (
	"encoding/json"
	"net/http"

	"github.com/toolgate/toolgate/internal/admin"
	"github.com/toolgate/toolgate/internal/mcp"
)

// accessData says why somebody may call something, or who may.
type accessData struct {
	Name, As, Args string
	Why            *admin.Why
	Who            []admin.WhoCan
	Problem        string // of Why
	WhoProblem     string
}

// access explains decisions. With a caller it shows each phase, and always who can.
func (v *visit) access() {
	d := &accessData{Name: v.r.FormValue("name"), As: v.r.FormValue("as"), Args: v.r.FormValue("args")}
	words := []string{"why"}
	if d.Name != "" {
		words = append(words, d.Name)
		if d.As != "" {
			words = append(words, "--as="+d.As)
		}
		v.explain(d)
		who, err := v.model.WhoCan(v.r.Context(), d.Name, nil)
		if d.Who = who; err != nil {
			d.WhoProblem = err.Error()
		}
	}
	v.render(http.StatusOK, &page{Title: "Access", View: "access", Command: command(words...), Data: d})
}

// explain asks why somebody may call something.
func (v *visit) explain(d *accessData) {
	q := admin.WhyQuestion{Name: d.Name, As: d.As}
	if d.Args != "" {
		if q.Args = json.RawMessage(d.Args); mcp.Validate(q.Args, mcp.Limits{}) != nil || !mcp.IsObject(q.Args) {
			d.Problem = "write the arguments as a JSON object"
			return
		}
	}
	if d.As == "" && v.o.Identities.Authenticated() {
		d.Problem = "write the caller whose rights are meant"
		return
	}
	why, err := v.model.Why(v.r.Context(), q)
	if err != nil {
		d.Problem = err.Error()
		return
	}
	d.Why = &why
}
