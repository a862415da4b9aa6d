// Package replay decides recorded calls again with another policy.
//
//	command:  audit log -------------------> Decider
//	gateway:  audit log -> Service -> pipe -> child process -> Decider
//
// A [Decider] asks a policy about a call of the audit log, as the gate would have. The
// command asks it about a policy of the operator, in its own process. A [Service] takes
// policies from administrators, who need not be operators of the machine: it evaluates
// them in a process of this program that reaches no network and no files, and has bounds
// for time, memory and output. The process gets what the record of each call has of the
// question, and arguments only if the policy reads them and they were recorded.
package replay
