package cli

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/gate/opa"
	"github.com/toolgate/toolgate/internal/failure"
)

func newPolicyCommand(o *options) *cobra.Command {
	var version string
	c := &cobra.Command{Use: "policy", Short: "Work with Rego policies"}
	c.PersistentFlags().StringVar(&version, "rego", "v1", "`version` of the language: v0 or v1")
	test := &cobra.Command{
		Use:     "test FOLDER",
		Short:   "Run the test_ rules of *_test.rego with what a policy may use here",
		Example: "  toolgate policy test policies/",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			results, err := opa.RunTests(cmd.Context(), args[0], opa.RegoVersion(version))
			if err != nil {
				return failure.New(failure.Config, err)
			}
			return o.printTests(results)
		},
	}
	o.outputFlag(test)
	check := &cobra.Command{
		Use:   "check FOLDER...",
		Short: "Compile policies and say everything that is wrong with them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			problems := opa.Check(opa.RegoVersion(version), args...)
			for _, p := range problems {
				say("%s:%d: %s\n", p.File, p.Line, p.Text)
			}
			if len(problems) > 0 {
				return failure.Newf(failure.Config, "the policies have %d problems", len(problems))
			}
			return nil
		},
	}
	c.AddCommand(test, check, newPolicyReplay(o))
	return c
}

// testedRule is one result as -o json shows it.
type testedRule struct {
	Name    string  `json:"name"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Result  string  `json:"result"`
	Error   string  `json:"error,omitempty"`
	Output  string  `json:"output,omitempty"`
	Seconds float64 `json:"seconds"`
}

// printTests shows results; one that did not pass is an error.
func (o *options) printTests(results []opa.TestResult) error {
	t := table{header: []string{"RESULT", "TEST", "PLACE", "SAYS"}}
	shown := []testedRule{}
	failed := 0
	for _, r := range results {
		row := testedRule{Name: r.Name, File: r.File, Line: r.Line, Result: "pass", Output: r.Output, Seconds: r.Took.Round(time.Microsecond).Seconds()}
		switch {
		case r.Skip:
			row.Result = "skipped"
		case r.Err != nil:
			row.Result, row.Error = "error", r.Err.Error()
		case !r.Pass:
			row.Result = "fail"
		}
		if row.Result == "fail" || row.Result == "error" {
			failed++
		}
		shown = append(shown, row)
		t.rows = append(t.rows, []string{row.Result, row.Name, fmt.Sprintf("%s:%d", row.File, row.Line), firstLine(row.Error+row.Output, 80)})
		t.names = append(t.names, row.Name)
	}
	t.data = shown
	if err := o.print(os.Stdout, t); err != nil {
		return err
	}
	if failed > 0 {
		return failure.Newf(failure.Config, "%d of %d tests did not pass", failed, len(results))
	}
	return nil
}
