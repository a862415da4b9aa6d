package cli

import (
	"slices"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/admin"
)

// whoFlags say whom a question is about.
type whoFlags struct {
	as      string
	assumed admin.Caller
}

// assuming are the flags that say what a token would.
var assuming = []string{"issuer", "tenant", "persona", "groups", "scopes", "plan"}

func (w *whoFlags) add(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&w.as, "as", "", "the `caller`: id or subject of an API key, or the subject of a token")
	f.StringVar(&w.assumed.Issuer, "issuer", "", "`issuer` of the token")
	f.StringVar(&w.assumed.Tenant, "tenant", "", "`tenant` that the token says")
	f.StringVar(&w.assumed.Persona, "persona", "", "`persona` that it says")
	f.StringSliceVar(&w.assumed.Groups, "groups", nil, "`groups` that it says")
	f.StringSliceVar(&w.assumed.Scopes, "scopes", nil, "`scopes` that it says")
	f.StringVar(&w.assumed.Plan, "plan", "", "`plan` that it says")
}

// caller is whom the flags mean: somebody known by name, or, with any of the
// others, just whom they describe.
func (w *whoFlags) caller(c *cobra.Command) (as string, assumed *admin.Caller) {
	if !slices.ContainsFunc(assuming, c.Flags().Changed) {
		return w.as, nil
	}
	return "", w.described()
}

// besides is whom the flags describe, nil where there are none.
func (w *whoFlags) besides(c *cobra.Command) *admin.Caller {
	if w.as == "" && !slices.ContainsFunc(assuming, c.Flags().Changed) {
		return nil
	}
	return w.described()
}

func (w *whoFlags) described() *admin.Caller {
	who := w.assumed
	who.Subject = w.as
	return &who
}

// noteAssumed says that nobody has shown to be a caller.
func noteAssumed(name string) {
	note("assumed: a token of %s would say what the flags do; nobody has shown one", name)
}
