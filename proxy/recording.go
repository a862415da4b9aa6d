package proxy

import (
	"strings"
	"time"

	"github.com/toolgate/toolgate/internal/audit"
	"github.com/toolgate/toolgate/internal/mcp"
	"github.com/toolgate/toolgate/internal/seal"
	"github.com/toolgate/toolgate/proxy/redact"
)

const (
	// scrubTime bounds the search for secrets in one entry.
	scrubTime = 50 * time.Millisecond
	// maxKept is how much of one argument is kept, in bytes.
	maxKept = 1 << 10
	// unsearched stands for a text that was not looked through in time.
	unsearched = "[not looked through for secrets]"
	// labelInputs is what the inputs of decisions are sealed for.
	labelInputs seal.Label = "audit inputs"
)

// Recording says what is kept of calls besides the hash of their arguments.
type Recording struct {
	// Redact takes secrets out of what others say in an entry; nil takes nothing
	// out.
	Redact redact.Filter
	// Fields are the JSON pointers of the arguments that are kept of a tool, by
	// its exposed name; nil keeps none.
	Fields func(exposed string) []string
	// Inputs keeps, sealed, what a policy may have read of the arguments.
	Inputs bool
}

// namesClean is how long a route whose names held no secret is taken to hold none:
// secrets come into use while the gateway runs.
const namesClean = 10 * time.Second

// scrub takes secrets out of what others say in the entry. Names are what a client
// made up, or what a server lists.
func (rec *record) scrub() {
	r := rec.recording.Redact
	if r == nil {
		return
	}
	e, until := &rec.entry, time.Now().Add(scrubTime)
	clean := func(s *string) (changed bool) {
		if *s == "" {
			return false
		}
		text, n, err := r.Text(*s, until)
		switch {
		case err != nil:
			*s = unsearched
		case n > 0:
			*s = text
		default:
			return false
		}
		return true
	}
	if known := rec.route; known == nil || e.Name != known.Exposed || rec.began.UnixNano() >= known.cleanUntil.Load() {
		name, original := clean(&e.Name), clean(&e.OriginalName)
		if known != nil && e.Name == known.Exposed && !name && !original {
			known.cleanUntil.Store(rec.began.Add(namesClean).UnixNano())
		}
	}
	clean(&e.Reason)
	clean(&e.Client.Name)
	clean(&e.Client.Version)
	for i := range e.Steps {
		clean(&e.Steps[i].Rule)
	}
}

// note keeps of the arguments what is to be kept.
func (rec *record) note(r *Route) {
	with := rec.recording
	if r.Kind != mcp.Tool || with.Fields == nil && !with.Inputs {
		return
	}
	args := r.argumentsOf(rec.x)
	if with.Fields != nil {
		for _, pointer := range with.Fields(r.Exposed) {
			if value, ok := keptArgument(args, pointer, with.Redact); ok {
				rec.entry.Fields = append(rec.entry.Fields, audit.Field{Pointer: pointer, Value: value})
			}
		}
	}
	if with.Inputs && args != nil {
		sealed, err := rec.g.opts.Keys.Seal(labelInputs, rec.entry.CallID, args)
		if err != nil {
			rec.g.log.Error("the inputs of a decision are not kept", "call", rec.entry.CallID, "err", err)
			return
		}
		rec.entry.Inputs = sealed
	}
}

// OpenInputs returns the arguments of a call that were kept sealed.
func OpenInputs(k *seal.Keyring, call, sealed string) ([]byte, error) {
	return k.Open(labelInputs, call, sealed)
}

// keptArgument is the argument at a pointer (RFC 6901), of objects alone: a
// string as it is, anything else as JSON, without secrets.
func keptArgument(args []byte, pointer string, r redact.Filter) (string, bool) {
	value := args
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		value = mcp.Lookup(value, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
		if value == nil {
			return "", false
		}
	}
	text, err := mcp.Unquote(value)
	if err != nil {
		text = string(value)
	}
	if r != nil { // before it is cut: half a secret is none that is found
		if text, _, err = r.Text(text, time.Now().Add(scrubTime)); err != nil {
			return unsearched, true
		}
	}
	if len(text) > maxKept {
		text = strings.ToValidUTF8(text[:maxKept], "") + "…"
	}
	return text, true
}
