// Package placeholder fills texts and JSON values with the values of a call. A placeholder
// is written {name}. The text around the placeholders is fixed when it is read.
package placeholder
