// Package operate keeps what a gateway works by besides its settings: the operating
// mode, which people set and a shortage overrides, whether the store and SpiceDB
// answer, and what a mode demands of calls under way.
package operate
