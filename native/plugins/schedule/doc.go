// Package schedule is the tools by which an agent has a call made at a time: the group
// schedule. Whoever makes the group hands in where calls are planned, and makes them.
package schedule
