// Package charttest renders the Helm chart of examples/deploy with Helm's own engine, and
// holds what comes out against the types of Kubernetes and the program toolgate. It is a
// module of its own, so that nothing of Helm and Kubernetes is in toolgate:
//
//	cd internal/tools/charttest && go test ./...
package charttest
