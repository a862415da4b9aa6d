// Package files opens, lists, writes and deletes files for tools, under rules that
// hold whatever a path looks like.
//
// A [Tree] is a few folders, its roots, and nothing is reached beside them: every
// step of a path is resolved beneath an open folder ([os.Root]), so that a link that
// is changed at the wrong moment leads nowhere. What is then open is judged by what
// it really is: a regular file, with one name, on a file system that holds files,
// and neither by its real path nor by its identity one of those that are forbidden.
//
//	path ── one spelling? ── which root? ── open beneath it ── what is open? ── rules
//
// A file is changed by writing another beside it and renaming that, both within the
// folder that was opened and judged; a link is never written through.
package files
