package audit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxTerms bounds one query.
const maxTerms = 64

// Query selects entries. The zero Query selects all.
type Query struct {
	terms []term
}

type term struct {
	field field
	not   bool
	op    string // =, ~, < or >; the last two with = for numbers
	text  string // in lower case for ~
	num   int64
}

// field is a searchable field.
type field struct {
	name  string
	texts func(*Record) []string // nil for a number
	num   func(*Record) int64
	parse func(value string, now time.Time) (int64, error)
}

var errNumber = errors.New("it must be a number")

func one(get func(*Record) string) func(*Record) []string {
	return func(r *Record) []string { return []string{get(r)} }
}

func number(value string, _ time.Time) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return 0, errNumber
	}
	return n, nil
}

// duration parses microseconds; a bare number means milliseconds.
func duration(value string, _ time.Time) (int64, error) {
	if n, err := strconv.ParseInt(value, 10, 64); err == nil {
		return n * 1000, nil
	}
	d, err := time.ParseDuration(value)
	if err != nil {
		return 0, errors.New("it must be a duration, such as 250ms or 2s")
	}
	return d.Microseconds(), nil
}

// instant parses a time, or a time ago, as nanoseconds since 1970.
func instant(value string, now time.Time) (int64, error) {
	if days, ok := strings.CutSuffix(value, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil {
			return now.AddDate(0, 0, -n).UnixNano(), nil
		}
	}
	if d, err := time.ParseDuration(value); err == nil {
		return now.Add(-d).UnixNano(), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, value, now.Location()); err == nil {
			return t.UnixNano(), nil
		}
	}
	return 0, errors.New("it must be a time ago such as 24h or 7d, a date, or a time such as 2026-11-21T10:00:00Z")
}

var fields = []field{
	{name: "event", texts: one(func(r *Record) string { return string(r.Event) })},
	{name: "id", texts: one(func(r *Record) string { return r.CallID })},
	{name: "decision", texts: one(func(r *Record) string { return r.Decision() })},
	{name: "outcome", texts: one(func(r *Record) string { return string(r.Outcome) })},
	{name: "code", texts: one(func(r *Record) string { return r.Code })},
	{name: "reason", texts: one(func(r *Record) string { return r.Reason })},
	{name: "tool", texts: func(r *Record) []string {
		if r.Kind != "tool" {
			return nil
		}
		return []string{r.Name, r.OriginalName}
	}},
	{name: "name", texts: func(r *Record) []string { return []string{r.Name, r.OriginalName} }},
	{name: "capability", texts: one(func(r *Record) string { return r.CapabilityID })},
	{name: "server", texts: one(func(r *Record) string { return r.Server })},
	{name: "kind", texts: one(func(r *Record) string { return r.Kind })},
	{name: "method", texts: one(func(r *Record) string { return r.Method })},
	{name: "who", texts: one(func(r *Record) string { return r.Principal.Subject })},
	{name: "tenant", texts: one(func(r *Record) string { return r.Principal.Tenant })},
	{name: "issuer", texts: one(func(r *Record) string { return r.Principal.Issuer })},
	{name: "persona", texts: one(func(r *Record) string { return r.Principal.Persona })},
	{name: "plan", texts: one(func(r *Record) string { return r.Principal.Plan })},
	{name: "group", texts: func(r *Record) []string { return r.Principal.Groups }},
	{name: "session", texts: one(func(r *Record) string { return r.Session })},
	{name: "client", texts: one(func(r *Record) string { return r.Client.Name })},
	{name: "transport", texts: one(func(r *Record) string { return r.Transport })},
	{name: "era", texts: one(func(r *Record) string { return r.Era })},
	{name: "args", texts: one(func(r *Record) string { return r.ArgsHash })},
	{name: "trace", texts: one(func(r *Record) string { return r.TraceID })},
	{name: "breaker", texts: one(func(r *Record) string { return r.Breaker })},
	{name: "budget", texts: func(r *Record) (all []string) {
		for i := range r.Budgets {
			all = append(all, r.Budgets[i].Name)
		}
		return all
	}},
	{name: "phase", texts: func(r *Record) []string { return []string{r.Decider().Phase} }},
	{name: "rule", texts: func(r *Record) []string { return []string{r.Decider().Rule} }},
	{name: "ms", num: func(r *Record) int64 { return r.DurationUS }, parse: duration},
	{name: "upstream_ms", num: func(r *Record) int64 { return r.UpstreamUS }, parse: duration},
	{name: "bytes", num: func(r *Record) int64 { return r.BytesOut }, parse: number},
	{name: "rounds", num: func(r *Record) int64 { return int64(r.Rounds) }, parse: number},
	{name: "seq", num: func(r *Record) int64 { return int64(r.Seq) }, parse: number},
	{name: "since", num: func(r *Record) int64 { return r.Time.UnixNano() }, parse: instant},
	{name: "until", num: func(r *Record) int64 { return r.Time.UnixNano() }, parse: instant},
}

// QueryFields returns the names of all searchable fields.
func QueryFields() []string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = fields[i].name
	}
	return names
}

// Decision returns the gateway's decision: allow, deny, or none for a change.
func (e *Entry) Decision() string {
	switch {
	case e.Event == EventChange:
		return "none"
	case e.Outcome == OutcomeDenied:
		return "deny"
	}
	return "allow"
}

// Decider returns the step that refused a call; empty for others.
func (e *Entry) Decider() Step {
	for _, s := range slices.Backward(e.Steps) {
		if s.Verdict == "deny" || s.Verdict == "error" {
			return s
		}
	}
	return Step{}
}

// ParseQuery parses terms with spaces between them, all of which must match. A term is
// a field, one of = != ~ !~ < > <= >=, and a value, which may be quoted. ~ means
// "contains", ignoring case. The error names an unknown field, with the nearest known
// one, or the problem with a value.
func ParseQuery(text string, now time.Time) (*Query, error) {
	q := &Query{}
	rest := strings.TrimSpace(text)
	for rest != "" {
		if len(q.terms) == maxTerms {
			return nil, fmt.Errorf("the query has more than %d terms", maxTerms)
		}
		at := strings.IndexAny(rest, "=!~<> \t")
		if at <= 0 || rest[at] == ' ' || rest[at] == '\t' {
			word, _, _ := strings.Cut(rest, " ")
			return nil, fmt.Errorf("%q is not a valid term: write a field, one of = != ~ !~ < > <= >=, and a value, such as decision=deny", word)
		}
		name := rest[:at]
		f, err := findField(name)
		if err != nil {
			return nil, err
		}
		t := term{field: f}
		rest = rest[at:]
		if t.not = rest[0] == '!'; t.not {
			rest = rest[1:]
		}
		for _, op := range []string{"<=", ">=", "=", "~", "<", ">"} {
			if after, ok := strings.CutPrefix(rest, op); ok {
				t.op, rest = op, after
				break
			}
		}
		if t.op == "" || t.not && t.op != "=" && t.op != "~" {
			return nil, fmt.Errorf("the field %s needs one of = != ~ !~ < > <= >= behind it", name)
		}
		var value string
		if value, rest, err = cutValue(rest); err != nil {
			return nil, fmt.Errorf("the value of %s: %w", name, err)
		}
		if err := t.setValue(value, now); err != nil {
			return nil, fmt.Errorf("the value %q of %s: %w", value, name, err)
		}
		q.terms = append(q.terms, t)
	}
	return q, nil
}

func findField(name string) (field, error) {
	for _, f := range fields {
		if f.name == name {
			return f, nil
		}
	}
	best, near := "", len(name)/2+2
	for _, f := range fields {
		if d := distance(name, f.name); d < near {
			best, near = f.name, d
		}
	}
	hint := "the fields are " + strings.Join(QueryFields(), ", ")
	if best != "" {
		hint = fmt.Sprintf("did you mean %q?", best)
	}
	return field{}, fmt.Errorf("there is no field %q; %s", name, hint)
}

// distance returns the edit distance between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		before := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := before
			if a[i] != b[j] {
				cost++
			}
			before = row[j+1]
			row[j+1] = min(cost, row[j+1]+1, row[j]+1)
		}
	}
	return row[len(b)]
}

func cutValue(rest string) (value, after string, err error) {
	if strings.HasPrefix(rest, `"`) {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", "", errors.New("the double quote has no end")
		}
		value, err = strconv.Unquote(quoted)
		return value, strings.TrimSpace(rest[len(quoted):]), err
	}
	at := strings.IndexAny(rest, " \t")
	if at < 0 {
		return rest, "", nil
	}
	return rest[:at], strings.TrimSpace(rest[at:]), nil
}

// setValue sets the value of the term.
func (t *term) setValue(value string, now time.Time) (err error) {
	if t.field.texts != nil {
		switch {
		case strings.ContainsAny(t.op, "<>"):
			return errors.New("it is text, which = != ~ and !~ compare")
		case t.op == "~":
			value = strings.ToLower(value)
		}
		t.text = value
		return nil
	}
	if t.op == "~" {
		return errors.New("it is a number, which = != < > <= and >= compare")
	}
	if t.num, err = t.field.parse(value, now); err != nil {
		return err
	}
	if t.field.name == "since" || t.field.name == "until" {
		if t.op != "=" || t.not {
			return fmt.Errorf("write %s=", t.field.name)
		}
		t.op = map[string]string{"since": ">=", "until": "<"}[t.field.name]
	}
	return nil
}

// Matches reports whether an entry matches all terms.
func (q *Query) Matches(r *Record) bool {
	for i := range q.terms {
		if t := &q.terms[i]; t.fits(r) == t.not {
			return false
		}
	}
	return true
}

func (t *term) fits(r *Record) bool {
	if t.field.texts != nil {
		return slices.ContainsFunc(t.field.texts(r), func(s string) bool {
			if t.op == "~" {
				return strings.Contains(strings.ToLower(s), t.text)
			}
			return s == t.text
		})
	}
	n := t.field.num(r)
	switch t.op {
	case "<":
		return n < t.num
	case "<=":
		return n <= t.num
	case ">":
		return n > t.num
	case ">=":
		return n >= t.num
	}
	return n == t.num
}
