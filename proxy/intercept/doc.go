// Package intercept runs the interceptors of an operator around calls.
//
// An interceptor looks at a call before it is delivered, or at its result before the
// client gets it. It may refuse, ask for an approval, change arguments or a result, and
// leave a note. It can never widen a decision: it is asked only about calls that the gate
// has allowed, the gate and the rules decide again about arguments that it has changed, and
// a result that is an error stays one. An invalid answer, or none, refuses the call, unless the
// operator has set on_error: skip.
//
// The order is that of the draft of the protocol (SEP-2624). Before a call, mutations run one
// after the other by their priority, and then validations run at the same time. After a call,
// the validations come first.
package intercept
