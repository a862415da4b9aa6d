//go:build race

package arena

// poison overwrites what is given back, so that tests fail if something refers to it.
const poison = true
