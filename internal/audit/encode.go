package audit

import (
	"strconv"
	"time"
	"unicode/utf8"
)

const (
	// maxString bounds one string of an entry, in bytes before escaping.
	maxString = 4096
	// maxInputs bounds the sealed arguments of an entry, which are written whole or
	// left out.
	maxInputs = 256 << 10
	// cutMark is the end of a string that was cut.
	cutMark = "…"
	// noChar replaces a byte that is not UTF-8.
	noChar = `\ufffd`
)

const hex = "0123456789abcdef"

// plain marks the bytes that need no escape in a JSON string.
var plain = func() (t [utf8.RuneSelf]bool) {
	for c := range t {
		t[c] = c >= ' ' && c != '"' && c != '\\' // RFC 8259, section 7
	}
	return t
}()

// appendEntry appends e as one line of JSON, with its newline but without its number
// and MAC, which the writer adds.
func appendEntry(b []byte, e *Entry) []byte {
	event := e.Event
	if event == "" {
		event = EventEnd
	}
	b = appendCall(b, e, event)
	if event == EventBegin {
		return append(b, "}\n"...)
	}
	b = appendSteps(b, e.Steps)
	b = append(b, `,"inputs":`...)
	if len(e.Inputs) <= maxInputs { // a part of it could not be opened
		b = appendWhole(b, e.Inputs)
	} else {
		b = appendWhole(b, "")
	}
	b = appendNumber(b, `,"rounds":`, int64(e.Rounds))
	b = appendBudgets(b, e.Budgets)
	b = appendField(b, `,"breaker":`, e.Breaker)
	b = appendField(b, `,"outcome":`, string(e.Outcome))
	b = appendField(b, `,"code":`, e.Code)
	b = appendField(b, `,"reason":`, e.Reason)
	b = appendNumber(b, `,"duration_us":`, e.DurationUS)
	b = appendNumber(b, `,"gateway_us":`, e.GatewayUS)
	b = appendNumber(b, `,"upstream_us":`, e.UpstreamUS)
	b = appendNumber(b, `,"bytes_in":`, e.BytesIn)
	b = appendNumber(b, `,"bytes_out":`, e.BytesOut)
	b = appendNumber(b, `,"redacted":`, e.Redacted)
	b = appendNumber(b, `,"bytes_left_out":`, e.LeftOut)
	b = append(b, `,"output_invalid":`...)
	b = strconv.AppendBool(b, e.OutputInvalid)
	b = appendStrings(append(b, `,"shown":`...), e.Shown)
	b = appendNumber(b, `,"bytes_saved":`, e.Saved)
	return append(b, "}\n"...)
}

// appendCall appends who calls what, as in both lines of a call. The event and the id
// come first, because [scan] looks for them there.
func appendCall(b []byte, e *Entry, event Event) []byte {
	b = appendField(b, `{"event":`, string(event))
	b = append(b, `,"time":"`...)
	b = e.Time.UTC().AppendFormat(b, time.RFC3339Nano)
	b = append(b, '"')
	b = appendField(b, `,"call_id":`, e.CallID)
	b = appendField(b, `,"principal":{"issuer":`, e.Principal.Issuer)
	b = appendField(b, `,"tenant":`, e.Principal.Tenant)
	b = appendField(b, `,"subject":`, e.Principal.Subject)
	b = appendField(b, `,"persona":`, e.Principal.Persona)
	b = appendStrings(append(b, `,"groups":`...), e.Principal.Groups)
	b = appendField(b, `,"plan":`, e.Principal.Plan)
	b = appendField(b, `},"session":`, e.Session)
	b = appendField(b, `,"client":{"name":`, e.Client.Name)
	b = appendField(b, `,"version":`, e.Client.Version)
	b = appendField(b, `},"transport":`, e.Transport)
	b = appendField(b, `,"era":`, e.Era)
	b = appendField(b, `,"protocol_version":`, e.ProtocolVersion)
	b = appendField(b, `,"method":`, e.Method)
	b = appendField(b, `,"kind":`, e.Kind)
	b = appendField(b, `,"name":`, e.Name)
	b = appendField(b, `,"via":`, e.Via)
	b = appendField(b, `,"parent":`, e.Parent)
	b = appendField(b, `,"agent":`, e.Agent)
	b = appendField(b, `,"server":`, e.Server)
	b = appendField(b, `,"original_name":`, e.OriginalName)
	b = appendField(b, `,"capability_id":`, e.CapabilityID)
	b = appendField(b, `,"args_hash":`, e.ArgsHash)
	b = appendFields(append(b, `,"fields":`...), e.Fields)
	return appendField(b, `,"trace_id":`, e.TraceID)
}

func appendStrings(b []byte, all []string) []byte {
	b = append(b, '[')
	for i, s := range all {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, s)
	}
	return append(b, ']')
}

func appendFields(b []byte, fields []Field) []byte {
	b = append(b, '{')
	for i := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, fields[i].Pointer), ':')
		b = appendString(b, fields[i].Value)
	}
	return append(b, '}')
}

func appendSteps(b []byte, steps []Step) []byte {
	b = append(b, `,"steps":[`...)
	for i := range steps {
		if i > 0 {
			b = append(b, ',')
		}
		s := &steps[i]
		b = appendField(b, `{"phase":`, s.Phase)
		b = appendField(b, `,"verdict":`, s.Verdict)
		if s.Rule != "" {
			b = appendField(b, `,"rule":`, s.Rule)
		}
		if s.Revision != "" {
			b = appendField(b, `,"revision":`, s.Revision)
		}
		b = append(appendNumber(b, `,"us":`, s.US), '}')
	}
	return append(b, ']')
}

// appendBudgets appends the budgets, a member that is always there.
func appendBudgets(b []byte, budgets []Budget) []byte {
	b = append(b, `,"budgets":[`...)
	for i := range budgets {
		if i > 0 {
			b = append(b, ',')
		}
		c := &budgets[i]
		b = appendField(b, `{"name":`, c.Name)
		b = appendField(b, `,"key":`, c.Key)
		b = appendField(b, `,"unit":`, c.Unit)
		b = appendNumber(b, `,"amount":`, c.Amount)
		b = appendNumber(b, `,"used":`, c.Used)
		b = append(appendNumber(b, `,"limit":`, c.Limit), '}')
	}
	return append(b, ']')
}

func appendNumber(b []byte, key string, n int64) []byte {
	return strconv.AppendInt(append(b, key...), n, 10)
}

func appendField(b []byte, key, s string) []byte {
	return appendString(append(b, key...), s)
}

// appendString appends s as a JSON string, cut to maxString bytes. It also escapes the
// two Unicode line separators, which some readers take for line ends.
func appendString(b []byte, s string) []byte {
	if len(s) > maxString {
		b = appendWhole(b, s[:clip(s)])
		return append(append(b[:len(b)-1], cutMark...), '"')
	}
	return appendWhole(b, s)
}

// appendWhole is appendString without a limit.
func appendWhole(b []byte, s string) []byte {
	b = append(b, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			if plain[c] {
				i++
				continue
			}
			b = append(b, s[start:i]...)
			b = appendEscape(b, c)
			i++
			start = i
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if (r == utf8.RuneError && size == 1) || r == '\u2028' || r == '\u2029' {
			b = append(b, s[start:i]...)
			if size == 1 {
				b = append(b, noChar...)
			} else {
				b = append(b, `\u202`...)
				b = append(b, hex[r&0xf])
			}
			i += size
			start = i
			continue
		}
		i += size
	}
	b = append(b, s[start:]...)
	return append(b, '"')
}

// appendEscape appends an ASCII byte that needs an escape.
func appendEscape(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, `\b`...)
	case '\f':
		return append(b, `\f`...)
	case '\n':
		return append(b, `\n`...)
	case '\r':
		return append(b, `\r`...)
	case '\t':
		return append(b, `\t`...)
	}
	return append(b, '\\', 'u', '0', '0', hex[c>>4], hex[c&0xf])
}

// clip returns where to cut a string above maxString: between two characters, at
// maxString or shortly before.
func clip(s string) int {
	n := maxString
	for i := n; i > n-utf8.UTFMax; i-- {
		if utf8.RuneStart(s[i]) {
			return i
		}
	}
	return n
}
