package cli

import (
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/toolgate/toolgate/internal/failure"
)

// healthTime bounds the question whether a gateway serves.
const healthTime = 3 * time.Second

func newHealthcheck() *cobra.Command {
	return &cobra.Command{
		Use:   "healthcheck [URL]",
		Short: "Tell whether a gateway serves, for containers",
		Long: `Ask /readyz of a gateway whether it serves: the exit code is 0 when it does and 4
when it does not. The address is that of this machine, or the one given.`,
		Example: "  toolgate healthcheck\n  toolgate healthcheck http://127.0.0.1:7777",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			url := "http://127.0.0.1:7777"
			if len(args) > 0 {
				url = strings.TrimRight(args[0], "/")
			}
			r, err := http.NewRequestWithContext(cmd.Context(), http.MethodGet, url+"/readyz", http.NoBody)
			if err != nil {
				return failure.Newf(failure.Usage, "%s is no URL: %w", url, err)
			}
			resp, err := (&http.Client{Timeout: healthTime}).Do(r)
			if err != nil {
				return failure.Newf(failure.Unreachable, "no gateway answers at %s: %w", url, err)
			}
			defer resp.Body.Close()
			word, _ := io.ReadAll(io.LimitReader(resp.Body, 256)) // the status says enough
			if resp.StatusCode != http.StatusOK {
				return failure.Newf(failure.Unreachable, "the gateway at %s does not serve: %s", url, strings.TrimSpace(string(word)))
			}
			return nil
		},
	}
}
