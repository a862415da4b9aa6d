// Package jq runs jq programs over results, within bounds. It embeds gojq, which by
// itself bounds neither memory nor the time of a single built-in function. So the
// package does not run a program as it was written. It puts a charge in front of
// whatever can grow, copy or walk a value, and allows only functions whose costs it
// knows (the table of functions.go). Charges, the steps of the interpreter and the time
// have limits, and a program cannot catch their end. There is no environment, no input,
// no module, no clock and no output beside the results.
package jq
