package elicitation

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mattn/go-runewidth"

	"github.com/toolgate/toolgate/internal/logs"
	"github.com/toolgate/toolgate/internal/mcp"
)

// The actions of an answer.
const (
	accept  = `{"action":"accept"`
	decline = `{"action":"decline"}`
	// Cancel is the answer of somebody who does not answer.
	Cancel = `{"action":"cancel"}`
)

// Ask asks the person what the params of an elicitation ask for, and returns the result to
// send. tool is what was called. The error is the cause of ctx.
func (p *Person) Ask(ctx context.Context, tool string, params []byte) ([]byte, error) {
	left, end := p.open()
	defer end()
	message, _ := mcp.LookupString(params, "message")
	a := &asked{p: p, left: left}
	p.say("\n%s asks:\n%s", logs.Printable(tool), p.quoted(message))
	var answer []byte
	var err error
	if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
		answer, err = a.visit(ctx, params)
	} else {
		answer, err = a.fill(ctx, params)
	}
	switch {
	case errors.Is(err, errDeclined):
		p.say("  declined\n")
		return []byte(decline), nil
	case errors.Is(err, errLeft):
		p.say("\n  cancelled\n")
		return []byte(Cancel), nil
	}
	return answer, err
}

// asked is one question that a person is asked.
type asked struct {
	p    *Person
	left <-chan struct{}
}

// decide asks a person to accept, decline or cancel. There is no default, so a key that was
// pressed before the question was there decides nothing. It returns the other word that was
// typed, if that is one of more.
func (a *asked) decide(ctx context.Context, question string, more ...string) (string, error) {
	for {
		a.p.say("  %s> ", question)
		typed, err := a.p.read(ctx, a.left)
		if err != nil {
			return "", err
		}
		switch word := strings.ToLower(strings.TrimSpace(typed)); word {
		case "yes", "y":
			return "", nil
		case "no", "n", "decline":
			return "", errDeclined
		case "cancel", "c":
			return "", errLeft
		default:
			for _, other := range more {
				if word == other || word != "" && strings.HasPrefix(other, word) {
					return other, nil
				}
			}
		}
	}
}

// visit asks whether a person goes to an address. It opens nothing and fetches nothing: the
// address is shown whole, and with its host apart (2026-07-28 client/elicitation, Safe URL
// Handling).
func (a *asked) visit(ctx context.Context, params []byte) ([]byte, error) {
	address, _ := mcp.LookupString(params, "url")
	u, err := url.Parse(address)
	if err != nil || u.Hostname() == "" || len(address) > maxURL || strings.ContainsFunc(address, func(r rune) bool { return r == ' ' || logs.Acts(r) }) {
		a.p.say("  the address of the question is not one that a browser can open\n")
		return nil, errLeft
	}
	a.p.say("\n  address  %s\n  host     %s\n", logs.Printable(address), logs.Printable(u.Hostname()))
	if warning := suspicious(u); warning != "" {
		a.p.say("  warning: %s\n", warning)
	}
	a.p.say("  Open it in a browser, if you trust this host, and come back when you are done there.\n")
	if _, err := a.decide(ctx, "Done? yes, no (declines) or cancel"); err != nil {
		return nil, err
	}
	return []byte(accept + "}"), nil
}

// suspicious says what may mislead about an address; empty for nothing.
func suspicious(u *url.URL) string {
	host := u.Hostname()
	switch {
	case strings.Contains(strings.ToLower(host), "xn--") || strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }):
		return "the host has letters that may look like others"
	case u.User != nil:
		return "what stands before @ is not the host"
	case u.Scheme != "https":
		return "the connection is not encrypted"
	}
	return ""
}

// fill asks for each field of a form, shows the answers, and asks whether to send them.
func (a *asked) fill(ctx context.Context, params []byte) ([]byte, error) {
	fields, err := form(mcp.Lookup(params, "requestedSchema"))
	if err != nil {
		a.p.say("  toolgate cannot ask this: %s\n", logs.Printable(err.Error()))
		return nil, errLeft
	}
	if len(fields) == 0 {
		if _, err := a.decide(ctx, "Accept? yes, no (declines) or cancel"); err != nil {
			return nil, err
		}
		return []byte(accept + `,"content":{}}`), nil
	}
	a.p.say("  Ctrl-D declines, Ctrl-C cancels the question.\n")
	values := make([][]byte, len(fields))
	for {
		for i := range fields {
			if values[i], err = a.field(ctx, &fields[i], i+1, len(fields)); err != nil {
				return nil, err
			}
		}
		a.p.say("\n")
		for i := range fields {
			a.p.say("  %s: %s\n", fields[i].label(), logs.Printable(fields[i].shown(values[i])))
		}
		other, err := a.decide(ctx, "Send this? yes, no (declines), edit or cancel", "edit")
		if err != nil {
			return nil, err
		}
		if other == "" {
			return content(fields, values), nil
		}
		for i := range fields { // what was typed is the default of the next time
			if values[i] != nil {
				fields[i].preset = values[i]
			}
		}
	}
}

// content returns an answer with the values of the fields that have some.
func content(fields []field, values [][]byte) []byte {
	out := []byte(accept + `,"content":{`)
	first := true
	for i, value := range values {
		if value == nil {
			continue
		}
		if !first {
			out = append(out, ',')
		}
		first = false
		out = append(append(append(out, mcp.Quote(fields[i].name)...), ':'), value...)
	}
	return append(out, "}}"...)
}

// label names a field for a person.
func (f *field) label() string {
	if f.title == "" || f.title == f.name {
		return logs.Printable(f.name)
	}
	return logs.Printable(f.title) + " (" + logs.Printable(f.name) + ")"
}

// field asks for one field until the answer fits its schema. nil leaves it out.
func (a *asked) field(ctx context.Context, f *field, n, of int) ([]byte, error) {
	need := "optional"
	if f.required {
		need = "required"
	}
	a.p.say("\n  %d of %d  %s: %s, %s\n%s", n, of, f.label(), f.wants(), need, a.p.quoted(f.description))
	for i, o := range f.options {
		title := logs.Printable(o.title)
		if o.title != o.value {
			title += " (" + logs.Printable(o.value) + ")"
		}
		a.p.say("  %4d  %s\n", i+1, title)
	}
	prompt := "  > "
	switch {
	case f.preset != nil:
		prompt = fmt.Sprintf("  [%s]> ", logs.Printable(f.shown(f.preset)))
	case f.kind == choice:
		prompt = "  number> "
	case f.kind == choices:
		prompt = "  numbers, such as 1,2> "
	}
	for {
		a.p.say("%s", prompt)
		typed, err := a.p.read(ctx, a.left)
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(typed) == "" {
			switch {
			case f.preset != nil:
				return f.preset, nil
			case !f.required:
				return nil, nil
			}
		}
		value, err := f.read(typed)
		if err == nil && typed == "" && f.kind == text {
			err = errors.New("this must be answered")
		}
		if err == nil {
			return value, nil
		}
		a.p.say("  %s\n", logs.Printable(err.Error()))
	}
}

// quoted returns a text of a server on lines of its own behind a bar; nothing for an empty
// one. Lines are broken so that the terminal does not break them, without the bar.
func (p *Person) quoted(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	if runes := []rune(text); len(runes) > maxText {
		text = string(runes[:maxText]) + " …"
	}
	const bar = "  | "
	width := max(p.width()-len(bar)-1, 20)
	var b strings.Builder
	for line := range strings.Lines(text) {
		line = logs.Printable(strings.TrimRight(line, "\r\n"))
		b.WriteString(bar + strings.ReplaceAll(runewidth.Wrap(line, width), "\n", "\n"+bar) + "\n")
	}
	return b.String()
}

// Summary says in one line what a question asks for, for those who cannot be asked.
func Summary(params []byte) string {
	message, _ := mcp.LookupString(params, "message")
	if runes := []rune(message); len(runes) > 300 {
		message = string(runes[:300]) + "…"
	}
	out := logs.Printable(strings.Join(strings.Fields(message), " "))
	if mode, _ := mcp.LookupString(params, "mode"); mode == "url" {
		address, _ := mcp.LookupString(params, "url")
		return fmt.Sprintf("%q, and wants you to visit %s", out, logs.Printable(address))
	}
	fields, err := form(mcp.Lookup(params, "requestedSchema"))
	if err != nil || len(fields) == 0 {
		return fmt.Sprintf("%q", out)
	}
	words := make([]string, len(fields))
	for i := range fields {
		words[i] = fields[i].label()
	}
	return fmt.Sprintf("%q, and wants %s", out, strings.Join(words, ", "))
}
