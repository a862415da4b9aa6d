// Package approval keeps the questions about calls that need the approval of a
// person, and their answers (DESIGN 7, Approval).
//
// A question is about one call: its caller, its capability and the hash of its
// arguments. Equal calls share one question, and a grant is used once, by one of
// them. An answer counts from those whom the demand for it names: whoever makes
// the call, somebody of a group, or an operator. Somebody of a group never
// answers for a call of their own. What nobody answers in time is not made.
//
// Questions and answers are in the store, so that every gateway that shares it
// takes part: one asks, another is answered, a third makes the call.
package approval
