// Package edit changes one entry of a file that a person wrote and leaves every
// other byte of it as it is: comments, order, indentation and quotes.
//
// What comes out is read again and compared with what was there: where the rest
// of the file would mean something else, or the entry is not what was asked for,
// the edit is refused, and the person is told what to write.
package edit
