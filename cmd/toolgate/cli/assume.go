package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/cmd/toolgate/output"
	"github.com/toolgate/toolgate/internal/admin"
)

// callerFlags are the flags that say which caller a question is about.
type callerFlags struct {
	as      string
	assumed admin.Caller
}

// claimFlags holds the flags that describe the claims of a token.
var claimFlags = []string{"issuer", "tenant", "persona", "groups", "scopes", "plan"}

func (w *callerFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.as, "as", "", "the `caller`: id or subject of an API key, or the subject of a token")
	f.StringVar(&w.assumed.Issuer, "issuer", "", "`issuer` of the token")
	f.StringVar(&w.assumed.Tenant, "tenant", "", "`tenant` in the token")
	f.StringVar(&w.assumed.Persona, "persona", "", "`persona` in the token")
	f.StringSliceVar(&w.assumed.Groups, "groups", nil, "`groups` in the token")
	f.StringSliceVar(&w.assumed.Scopes, "scopes", nil, "`scopes` in the token")
	f.StringVar(&w.assumed.Plan, "plan", "", "`plan` in the token")
}

// caller returns the caller that the flags describe: a known caller by name, or, with any
// of the other flags, a caller with exactly these claims.
func (w *callerFlags) caller(c *cobra.Command) (as string, assumed *admin.Caller) {
	if !slices.ContainsFunc(claimFlags, c.Flags().Changed) {
		return w.as, nil
	}
	return "", w.described()
}

// besides returns the caller that the flags describe, or nil without such flags.
func (w *callerFlags) besides(c *cobra.Command) *admin.Caller {
	if w.as == "" && !slices.ContainsFunc(claimFlags, c.Flags().Changed) {
		return nil
	}
	return w.described()
}

func (w *callerFlags) described() *admin.Caller {
	who := w.assumed
	who.Subject = w.as
	return &who
}

// noteAssumed says that the caller is assumed, not authenticated.
func noteAssumed(name string) {
	output.Note("assumed: a token of %s with the claims of the flags; nobody has presented one", name)
}
