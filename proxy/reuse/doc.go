// Package reuse holds results of read-only tools for a short time, so that the same
// call of the same principal is answered without asking the server again. It knows
// nothing of calls: whoever uses it says in a [Key] what makes two calls the same.
package reuse
