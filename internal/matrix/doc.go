// Package matrix runs every client revision and transport through one running
// gateway to every server revision and transport, feature by feature.
//
//	client of one revision        one gateway           server of one revision
//	stdio | HTTP+SSE | HTTP  ──►  all servers mounted  ──►  stdio | HTTP+SSE | HTTP
//
// The gateway is composed as the program composes it, from a configuration file
// (internal/daemon). Its tests hold both peers. They are raw and scripted: no SDK stands between
// them and the bytes. Each is strict: what it receives must be of its own
// revision, by the schema that the revision publishes (testdata/schema) and by
// the rules that a schema cannot say, and a violation fails the cell.
//
// The cells are generated, as the product of the clients, the servers and the
// features. What no revision defines is in the table of impossible cells, each
// with its section of the specification; no other cell is left out. The result
// is a part of docs/compatibility.md:
//
//	go test -tags e2e ./internal/matrix -update
//
// writes it, and without the flag the test fails when it is stale. While one
// feature is worked on,
//
//	go test -tags e2e ./internal/matrix -v -feature roots -all
//
// runs its row alone and shows all of its cells.
//
// Beside the cells, one by one, there are many calls at once (interleaved), in
// an order that a seed decides and that a failure prints:
//
//	go test -tags e2e ./internal/matrix -run TestInterleavedCalls -calls 2000 -seed 7
//
// and peers that do not keep to the rules (hostile), while others are in the
// middle of calls that must not notice.
package matrix
