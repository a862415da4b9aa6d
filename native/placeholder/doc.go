// Package placeholder fills texts and JSON values with the values of a call: a place is
// written {name}. What is around the places is fixed when the text is read.
package placeholder
