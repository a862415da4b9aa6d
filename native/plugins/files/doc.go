// Package files opens, lists, writes and deletes files for tools, under rules that do
// not depend on how a path is written.
//
// A [Tree] has a few folders, its roots, and reaches nothing outside of them: every step
// of a path is resolved beneath an open folder ([os.Root]), so that a link that changes
// at the wrong moment leads nowhere. The rules then apply to the open file: it must be a
// regular file with one name on a file system that holds files, and neither its real path
// nor its identity may be forbidden.
//
//	path ── one spelling? ── which root? ── open beneath it ── what is open? ── rules
//
// To change a file, a new file is written beside it and renamed, both within the folder
// that was opened and checked. Links are never written through.
package files
