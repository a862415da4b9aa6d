// Package retrieval measures how well a search finds the tools that a query needs. It
// reads sets of cases and catalogs of tools, and computes the usual measures: recall,
// reciprocal rank and discounted cumulative gain. It knows no search: whoever measures
// one hands in its rankings.
//
// testdata/real is a development set of this project. Its README says how it was made.
package retrieval
