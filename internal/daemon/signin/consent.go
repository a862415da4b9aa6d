package signin

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"

	"github.com/toolgate/toolgate/upstream/credential"
)

// consent shows a page that describes the sign-in before it happens.
func (s *Service) consent(w http.ResponseWriter, r *http.Request, source *credential.Source, l *link, form, base string) {
	set := source.Settings()
	p := page{Title: "Sign in to " + set.Server, Form: form, Button: "Continue", Key: set.Mode == credential.APIKey}
	p.Rows = append(p.Rows, [2]string{"Server", set.Server}, [2]string{"Address", hostAndPath(set.URL)})
	if set.Mode == credential.OAuth {
		at, scopes, err := source.Where(r.Context(), l.Principal)
		if err != nil {
			s.fail(w, set.Server, err)
			return
		}
		p.Rows = append(p.Rows, [2]string{"Signs in at", at}, [2]string{"For the application", "toolgate"}, [2]string{"Comes back to", base + callbackPath})
		if len(scopes) > 0 {
			p.Rows = append(p.Rows, [2]string{"Asks for", strings.Join(scopes, ", ")})
		}
		p.Text = "You leave this page for the authorization server. What you allow there, toolgate uses for your calls to this server."
	} else {
		p.Button, p.Text = "Keep", "The key that you enter is kept unreadable, and sent to this server with your calls alone."
	}
	if set.Shared {
		p.Text += " Everyone who uses this gateway will act with it."
	}
	s.render(w, http.StatusOK, &p)
}

func (s *Service) ask(w http.ResponseWriter, form string) {
	if !s.o.Callers.Authenticated() {
		s.say(w, http.StatusForbidden, "Not from there", "Open the link on the machine of the gateway.")
		return
	}
	s.render(w, http.StatusOK, &page{
		Title: "Who are you?", Form: form, Button: "Continue", Proof: true,
		Text: "This link is for one person. Enter the API key or token that your assistant uses with this gateway, so that nobody else signs in for you.",
	})
}

func (s *Service) say(w http.ResponseWriter, status int, title, text string) {
	s.render(w, status, &page{Title: title, Text: text})
}

// hostAndPath returns an address without its possibly secret parts.
func hostAndPath(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host + u.EscapedPath()
}

// page is a page for a person who signs in.
type page struct {
	Title, Text string
	Rows        [][2]string
	Form        string // empty for a page without one
	Button      string
	Key, Proof  bool // which input is asked for
}

var pageTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}} - toolgate</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:3em auto;padding:0 1em}th{text-align:left;padding-right:1em;vertical-align:top;font-weight:600}td{overflow-wrap:anywhere}input{width:100%;font:inherit;padding:.4em;box-sizing:border-box}button{font:inherit;padding:.5em 1.5em;margin-top:1em}</style></head>
<body><h1>{{.Title}}</h1>{{if .Rows}}<table>{{range .Rows}}<tr><th scope="row">{{index . 0}}</th><td>{{index . 1}}</td></tr>{{end}}</table>{{end}}
<p>{{.Text}}</p>{{if .Form}}<form method="post"><input type="hidden" name="form" value="{{.Form}}">
{{if .Key}}<label>API key<input type="password" name="key" autocomplete="off" required></label>{{end}}
{{if .Proof}}<label>Your key for this gateway<input type="password" name="proof" autocomplete="off" required></label>{{end}}
<button>{{.Button}}</button></form>{{end}}</body></html>
`))

func (s *Service) render(w http.ResponseWriter, status int, p *page) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := pageTemplate.Execute(w, p); err != nil {
		s.o.Log.Debug("a page was not sent", "err", err)
	}
}
