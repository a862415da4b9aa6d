// Package memory is the tools by which an agent keeps texts from one session to the
// next, and notes of what has worked: the group memory. Whoever makes the group hands in
// where they are kept, and what must not be.
package memory
