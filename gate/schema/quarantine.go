package schema

import "fmt"

// Quarantined is the error of a schema that cannot be used. It does not change
// until the schema does, except for one of [Quarantined.Busy].
type Quarantined struct {
	// Pointer is the JSON Pointer (RFC 6901) of the place in the schema that
	// it is about; empty for the whole.
	Pointer string
	// Reason is one clause for a person, such as "the reference leaves the
	// document". What it quotes of the schema is cut and escaped.
	Reason string
	// Busy is set when the schema was not refused and only could not be
	// prepared in time; it may be asked for again.
	Busy bool
}

// Error implements error.
func (q *Quarantined) Error() string {
	if q.Pointer == "" {
		return "the input schema cannot be used: " + q.Reason
	}
	return fmt.Sprintf("the input schema cannot be used: at %s: %s", clip(q.Pointer), q.Reason)
}

func refuse(pointer, format string, args ...any) error {
	return &Quarantined{Pointer: pointer, Reason: fmt.Sprintf(format, args...)}
}
