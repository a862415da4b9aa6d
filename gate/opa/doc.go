// Package opa is the phase of the gate that asks a policy written in Rego.
//
//	directory | bundle.tar.gz | bundle URL --load--> policy --swap--> Check, CheckAll
//	remote server <------------- POST /v1/data/... ------------------ Check, CheckAll
//
// A policy is a rule, data.toolgate.decision unless configured otherwise, that
// is either a boolean or an object {allow, reason, obligations}. Only the
// boolean true, and an object whose allow is exactly true, allow. Whatever
// else it is, undefined included, is an error, which denies; so do a builtin
// function that fails, rules that conflict, and a decision that takes longer
// than its bound. The zero [Phase] denies.
//
// What a policy sees as input is written down at [Phase.Check], what it sees
// as data at [Data]. Policies cannot reach the network, the environment or a
// source of chance: those builtin functions do not exist for them.
//
// A loaded policy never changes. A new one is compiled and asked a first
// question beside the one in force and then takes its place in one step; one
// that cannot be loaded changes nothing and is reported by [Phase.Status].
//
// OPA has no limit for the memory of one evaluation. What bounds it here is
// the time of a decision and the size of the arguments.
package opa
