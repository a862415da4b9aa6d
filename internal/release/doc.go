// Command release makes everything that a release of toolgate needs, in one folder:
// archives, packages, images, manifests of package managers, lists of what is inside, and
// signed checksums. The same commit gives the same bytes (docs/releasing.md).
//
// It is a module of its own, so that toolgate does not depend on what packages it.
package main
