package schema

import "fmt"

// Quarantined is the error for a schema that cannot be used. It lasts until the schema
// changes, unless [Quarantined.Busy] is set.
type Quarantined struct {
	// Pointer is the JSON Pointer (RFC 6901) of the faulty place in the schema; empty
	// for the whole.
	Pointer string
	// Reason is one clause for a person, such as "the reference leaves the document".
	// Quotes from the schema in it are cut and escaped.
	Reason string
	// Busy is set when the schema was not refused, but could not be compiled in time;
	// try again later.
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
