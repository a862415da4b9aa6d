// Package approval stores questions about calls that need a person's approval, and
// their answers (ADR 0017).
//
// A question is about one call: its caller, its capability and the hash of its
// arguments. Equal calls share one question. A grant is used once, by one of them. The
// demand names those whose answer counts: the caller, a group, or an operator. Members
// of a group never answer for their own calls. A call that nobody answers in time is
// not made.
//
// Questions and answers are in the store, so that all gateways that share it take
// part: one asks, another is answered, a third makes the call.
package approval
