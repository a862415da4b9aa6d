// Package budget bounds how much somebody may use.
//
// A [Limiter] turns a call into charges and asks its [Store]. A charge is made
// before a call is delivered and given back only when the call surely was not.
// The zero Limiter refuses every charge.
package budget
