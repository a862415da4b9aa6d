// Package headroom tells when a process runs short of what its machine gives
// it: memory against a limit, and room on a disk. It looks at meters in
// intervals. What a meter reads has to last before it counts, and has to be
// well clear of its threshold again, for longer, before it counts no more: one
// peak is no shortage, and one good reading is no end of it.
//
// What follows from a shortage is its user's business.
package headroom
