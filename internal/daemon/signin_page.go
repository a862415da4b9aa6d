package daemon

import (
	"html/template"
	"net/http"
)

// signInPage is one page for a person who signs in.
type signInPage struct {
	Title, Text string
	Rows        [][2]string
	Form        string // empty for a page without one
	Button      string
	Key, Proof  bool // what is asked for
}

var signInTemplate = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}} - toolgate</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36em;margin:3em auto;padding:0 1em}th{text-align:left;padding-right:1em;vertical-align:top;font-weight:600}td{overflow-wrap:anywhere}input{width:100%;font:inherit;padding:.4em;box-sizing:border-box}button{font:inherit;padding:.5em 1.5em;margin-top:1em}</style></head>
<body><h1>{{.Title}}</h1>{{if .Rows}}<table>{{range .Rows}}<tr><th scope="row">{{index . 0}}</th><td>{{index . 1}}</td></tr>{{end}}</table>{{end}}
<p>{{.Text}}</p>{{if .Form}}<form method="post"><input type="hidden" name="form" value="{{.Form}}">
{{if .Key}}<label>API key<input type="password" name="key" autocomplete="off" required></label>{{end}}
{{if .Proof}}<label>Your key for this gateway<input type="password" name="proof" autocomplete="off" required></label>{{end}}
<button>{{.Button}}</button></form>{{end}}</body></html>
`))

func (d *signInDoor) render(w http.ResponseWriter, status int, p *signInPage) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	if err := signInTemplate.Execute(w, p); err != nil {
		d.in.Log.Debug("a page was not sent", "err", err)
	}
}
