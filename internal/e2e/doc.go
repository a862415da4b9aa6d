// Package e2e runs toolgate as its users do: as a built binary, between real
// clients and real servers. Its tests carry the e2e build tag and are run with
//
//	go test -tags e2e -timeout 15m ./internal/e2e/...
//
// Their npm and Python packages are pinned in node and python. They are installed once
// into the folder of TOOLGATE_E2E_CACHE (internal/e2e/.cache by default) and need no
// network afterwards. Tests that could not run are listed at the end with their reason,
// which -v shows, and in results/could-not-run.txt of the cache; with CI=true they fail
// the run. TOOLGATE_E2E_BINARY names a toolgate to test instead of building one.
//
// In TestQuestions servers of every library ask clients of every library, in both eras.
// With -v it prints who can answer whom, which is also in results/questions.txt.
//
// The tests of the console drive a Chromium of this machine by playwright-core, and look at
// its pages with axe-core. What the views look like is in out/test/console of the repository.
//
// Every driver runs one script, first directly against a server and then through
// toolgate. toolgate must achieve everything that succeeds directly. What a client
// library cannot do at all is a row in limits_test.go, which must stay true: an entry
// that turns out to work fails the run.
package e2e
