// Package intercept runs the interceptors of an operator around calls.
//
// An interceptor looks at a call before it is delivered, or at its result before the
// client gets it. It may refuse, ask for an approval, change arguments or a result, and
// leave a note. It can never widen a decision: it is asked only about calls that the gate
// has allowed, arguments that it changes are decided on and checked again, and a result
// that is an error stays one. What is wrong with an answer, or that there is none, refuses
// the call, unless the operator has said skip.
//
// The order is that of the draft of the protocol (SEP-2624): mutations one after the
// other by their priority and then validations beside one another before a call, and
// validations first after it.
package intercept
