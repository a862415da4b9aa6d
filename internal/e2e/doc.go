// Package e2e runs toolgate as its users do: as a built binary, between real
// clients and real servers. Its tests carry the e2e build tag and are run with
//
//	go test -tags e2e -timeout 15m ./internal/e2e/...
//
// What they need from the npm and Python package registries is pinned in node
// and python, installed once into the folder that TOOLGATE_E2E_CACHE names
// (internal/e2e/.cache by default) and found there afterwards without a network.
// What could not run is listed at the end with its reason, which -v shows, and in
// results/could-not-run.txt of the cache; with CI=true it fails the run.
// TOOLGATE_E2E_BINARY names a toolgate to test instead of the one that is built.
//
// TestQuestions has servers of every library ask clients of every library, in both
// eras; with -v it prints who can answer whom, which results/questions.txt keeps.
//
// Every driver runs one script, first directly against a server and then through
// toolgate. What succeeds directly is what toolgate has to reach, and what a
// client library cannot do at all is a row in limits_test.go, which must stay
// true: an entry that turns out to work fails the run.
package e2e
